/* Products large enough to be cut into parts for several threads: their elements near the sums in double, and a line of digits of all
 * bits of each product, which must not depend on the number of threads where OpenBLAS has 512-bit vectors. */
#include "alone.h"
#include "device/blas.h"
#include <stdio.h>
#include <vector>

int main()
{
    static const int64_t sizes[][3] = {{512, 768, 100}, {193, 385, 500}, {1000, 50, 700}, {191, 191, 900}, {577, 1153, 64}, {65, 129, 3000}, {200, 530, 600}};
    int wrong = 0;
    for (const auto &size : sizes)
        for (int way = 0; way < 8; way++) {
            const int64_t m = size[0], n = size[1], k = size[2];
            const bool ta = way & 1, tb = way & 2, add = way & 4;
            std::vector<float> a(m * k), b(k * n), c(m * n, 2);
            for (int64_t i = 0; i < m * k; i++) a[i] = (float)(i * 7919 % 2001 - 1000) * 1e-3f;
            for (int64_t i = 0; i < k * n; i++) b[i] = (float)(i * 104729 % 1999 - 999) * 1e-3f;
            Step s = {};
            dot(&s, c.data(), a.data(), b.data(), 1, m, n, k, ta, tb, add);
            uint64_t bits = 14695981039346656037u;
            for (int64_t i = 0; i < m * n; i++) {
                bits = (bits ^ bit_cast<uint32_t>(c[i])) * 1099511628211u;
                if (i % 97) continue;
                double sum = add ? 2 : 0;
                for (int64_t p = 0; p < k; p++) sum += (double)a[ta ? p * m + i / n : i / n * k + p] * b[tb ? i % n * k + p : p * n + i % n];
                if (!(fabs(sum - c[i]) < 1e-3)) wrong++;
            }
            printf("%d x %d x %d, %d: %016llx\n", (int)m, (int)n, (int)k, way, (unsigned long long)bits);
        }
    if (wrong) fprintf(stderr, "%d elements are wrong\n", wrong);
    return wrong > 0;
}
