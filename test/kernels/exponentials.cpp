/* expf, expm1f and tanhf of device/exponentials.h against the C library's in double: how far they are off, what they make of NaN and
 * infinities, and that an element is the same in a vector and alone. */
#include "device/device.h"
#include <float.h>
#include <stdio.h>

static int failures;

/* Floats from least to greatest, some way apart, both signs. */
static void check(const char *name, float (*ours)(float), double (*exact)(double), double most)
{
    double worst = 0;
    float at = 0;
    for (uint32_t bits = 0; bits < 0x7f800000u; bits += 1009) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            const float x = bit_cast<float>(bits | sign << 31), y = ours(x);
            const double right = exact(x), size = fabs(right) < FLT_MIN ? FLT_MIN : fabs(right);
            if (isinf((float)right) || isinf(y)) {
                if ((float)right != y) printf("%s(%.9g) is %.9g, should be %.9g\n", name, x, y, right), failures++;
                continue;
            }
            const double off = fabs(y - right) / ldexp(1, ilogb(size) - 23);
            if (off > worst) worst = off, at = x;
        }
    }
    printf("%s: at most %.3f units in the last place off, at %.9g\n", name, worst, at);
    if (!(worst <= most)) failures++;
    if (!isnan(ours(NAN)) || ours(INFINITY) != (float)exact(INFINITY) || ours(-INFINITY) != (float)exact(-INFINITY) || ours(0) != (float)exact(0))
        printf("%s: NaN, infinity or zero\n", name), failures++;
}

__attribute__((noinline)) static void all(float *y, const float *x, int64_t n)
{
    FOR_LANES (i, n) y[i] = expf(x[i]) + 3 * expm1f(x[i]) + 7 * tanhf(x[i]);
}

static void check_alike(void)
{
    enum { N = 1000 };
    static float x[N], together[N], alone[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i - 500) * 0.0371f;
    all(together, x, N);
    for (int i = 0; i < N; i++) all(alone + i, x + i, 1);
    for (int i = 0; i < N; i++)
        if (together[i] != alone[i]) {
            printf("at %g: %.9g in a vector, %.9g alone\n", x[i], together[i], alone[i]);
            failures++;
            return;
        }
}

int main(void)
{
    check("expf", [](float x) { return expf(x); }, [](double x) { return exp(x); }, 1.2);
    check("expm1f", [](float x) { return expm1f(x); }, [](double x) { return expm1(x); }, 1.9);
    check("tanhf", [](float x) { return tanhf(x); }, [](double x) { return tanh(x); }, 1.6);
    check_alike();
    return failures > 0;
}
