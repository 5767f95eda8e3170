/* What the name of a constant and its elements say about it, whatever the operations around it are.
 *
 * Needs: tensors as onnx_read leaves them; one whose data is missing says nothing.  Changes nothing. */
#include "onnx/import.h"
#include "passes/roles.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- names ---- */
static bool contains(const char *name, const char *word) /* letter case aside */
{
    const size_t n = strlen(word);
    for (; *name; name++)
        if (!strncasecmp(name, word, n)) return true;
    return false;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcasecmp(name + n - m, end);
}

/* "zeros_3" -> 5, "layer_2a" -> 8: the length without a final _NUMBER */
static size_t length_without_number(const char *name)
{
    size_t n = strlen(name);
    const size_t whole = n;
    while (n && isdigit((unsigned char)name[n - 1])) n--;
    return n && n < whole && name[n - 1] == '_' ? n - 1 : whole;
}

bool name_is_word(const char *name, const char *const *words)
{
    const size_t n = length_without_number(name);
    for (; *words; words++)
        if (strlen(*words) == n && !strncmp(*words, name, n)) return true;
    return false;
}

/* What PyTorch calls numbers that it lifted out of the code, and prefixes of numbered values. */
static bool is_made_up_word(const char *name)
{
    static const char *const words[] = {"zeros", "ones",       "zero",      "one",    "full",     "scalar_tensor", "arange",
                                        "clone", "eps",        "half",      "two",    "_to_copy", "val",           "_val",
                                        "const", "zeros_like", "ones_like", "tensor", "auto",     "epsilon",       NULL};
    return name_is_word(name, words);
}

bool name_is_result(const char *name)
{
    static const char *const words[] = {"add", "sub", "mul",  "div",        "sqrt", "rsqrt",    "pow",
                                        "sum", "mean", "reciprocal", "rsub", "linspace", NULL};
    return name_is_word(name, words);
}

bool name_is_numbered_value(const char *name)
{
    static const char *const words[] = {"val", "_val", NULL};
    return name_is_word(name, words);
}

/* tf2onnx: "Mul__34", "scale__12:0"; TensorFlow's own operands: "model/lambda/mul/y:0" */
static bool is_made_up_by_tensorflow(const char *name)
{
    size_t n = strlen(name);
    if (ends_with(name, "/x:0") || ends_with(name, "/y:0") || ends_with(name, "/x") || ends_with(name, "/y")) return true;
    if (ends_with(name, ":0")) n -= 2;
    const size_t whole = n;
    while (n && isdigit((unsigned char)name[n - 1])) n--;
    return n < whole && n > 2 && name[n - 1] == '_' && name[n - 2] == '_';
}

bool name_is_generated(const char *name)
{
    if (!name[strspn(name, "0123456789")]) return true;                                  /* "42", "" */
    if (strstr(name, "::") || (name[0] == '/' && strstr(name, "_output_"))) return true; /* PyTorch's script exporter */
    const size_t word = length_without_number(name);
    if (word > 8 && !strncmp(name + word - 8, "_default", 8)) return true; /* PyTorch's: scalar_tensor_default_3, full_default */
    if (contains(name, "constant") || contains(name, "const_fold") || contains(name, "lifted_tensor")) return true;
    if (!strncasecmp(name, "const", 5) && (!name[5] || strchr("_:./", name[5]))) return true;
    return is_made_up_word(name) || name_is_result(name) || is_made_up_by_tensorflow(name);
}

/* slice_1, permute, t_3: what PyTorch calls results of views. */
static bool is_view_word(const char *name)
{
    static const char *const views[] = {"slice",   "permute", "transpose", "t",       "view",  "select", "unsqueeze", "squeeze",
                                        "reshape", "flatten", "getitem",   "unbind",  "chunk", "split",  "narrow",    "expand",
                                        "_unsafe_view", "split_with_sizes", "detach", "alias", "T",    "unflatten", "movedim", NULL};
    for (int i = 0; views[i]; i++) {
        const size_t n = strlen(views[i]);
        if (strncmp(name, views[i], n)) continue;
        const char *rest = name + n; /* "", "_3", "_split_0": never a dot */
        if (!*rest || (*rest == '_' && !strchr(rest, '.') && isdigit((unsigned char)rest[strlen(rest) - 1]))) return true;
    }
    return false;
}

bool name_is_computed(const char *name)
{
    return name_is_generated(name) || is_view_word(name);
}

bool name_is_statistic(const char *name)
{
    static const char *const words[] = {"mean", "std", "var", "variance", "stddev", "num_batches_tracked", NULL};
    for (int i = 0; words[i]; i++) {
        const size_t n = strlen(name), m = strlen(words[i]);
        if (!ends_with(name, words[i]) || (n > m && isalpha((unsigned char)name[n - m - 1]))) continue;
        return n < m + 4 || strncasecmp(name + n - m - 4, "log_", 4) != 0;
    }
    return false;
}

/* ---- elements ---- */
static double element(const OnnxTensor *t, int64_t i)
{
    return element_read(dtype_of_onnx((int)t->type), t->data, i);
}

bool elements_equal(const OnnxTensor *t)
{
    const size_t size = (size_t)onnx_type_bytes(t->type);
    const char *data = t->data;
    if (!data || t->count < 1) return false;
    return t->bytes == size || !memcmp(data, data + size, t->bytes - size);
}

bool elements_are_all(const OnnxTensor *t, double x)
{
    return elements_equal(t) && element(t, 0) == x;
}

bool elements_are_zeros(const OnnxTensor *t)
{
    return elements_are_all(t, 0);
}

bool elements_are_mask(const OnnxTensor *t)
{
    if (!t->data || t->count < 3) return false;
    double other = 0;
    bool zero = false;
    for (int64_t i = 0; i < t->count; i++) {
        const double x = element(t, i);
        zero |= x == 0;
        if (x == 0 || (other != 0 && x == other)) continue;
        if (other != 0) return false;
        other = x;
    }
    return zero && other != 0;
}

bool elements_are_sines(const OnnxTensor *t)
{
    if (!t->data || t->rank < 2 || t->count < 8) return false;
    const int64_t width = t->dims[t->rank - 1];
    int64_t ones = 0;
    if (width < 2 || width % 2 || t->count / width < 3) return false;
    for (int64_t i = 0; i < width; i++) { /* position 0: sin 0 and cos 0 */
        const double x = element(t, i);
        if (x != 0 && x != 1) return false;
        ones += x == 1;
    }
    for (int64_t i = 0; i < t->count; i++)
        if (!(fabs(element(t, i)) <= 1)) return false;
    return 2 * ones == width && !elements_are_mask(t);
}

bool elements_are_even(const OnnxTensor *t)
{
    if (!t->data || !t->rank) return true;
    const int64_t width = t->dims[t->rank - 1];
    for (int64_t row = 0; row + width <= t->count && width > 0; row += width)
        for (int64_t i = row + 2; i < row + width; i++) {
            const double step = element(t, row + 1) - element(t, row);
            if (fabs(element(t, i) - element(t, i - 1) - step) > 1e-3 * fabs(step)) return false;
        }
    return true;
}

bool elements_rise_or_fall(const OnnxTensor *t)
{
    bool rise = t->data != NULL, fall = rise;
    for (int64_t i = 1; i < t->count && (rise || fall); i++) {
        const double before = element(t, i - 1), x = element(t, i);
        rise &= x > before, fall &= x < before;
    }
    return rise || fall;
}

/* 0.1, 2, -1e-6: what a person writes has few digits. */
static bool is_written_down(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.4g", x);
    const double written = strtod(text, NULL);
    return x == written || (float)x == (float)written;
}

static int by_value(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* How much equal elements prove: bits that two tensors would have to agree in by chance. */
bool elements_are_random(const OnnxTensor *t)
{
    enum { LOOKED_AT = 512, ENOUGH = 40, DRAWN = 20, SHORT = 8, WRITTEN_DOWN = 6 };
    const int n = (int)(t->count < LOOKED_AT ? t->count : LOOKED_AT);
    double x[LOOKED_AT];
    int different = 0, bits = 0;
    if (!t->data || !t->rank || elements_are_sines(t)) return false;
    if (t->dims[t->rank - 1] > 2 && elements_are_even(t)) return false;
    if (n > 5 && elements_rise_or_fall(t)) return false;
    for (int i = 0; i < n; i++) x[i] = element(t, t->count * i / n); /* from all of it: the first row may be padding */
    qsort(x, (size_t)n, sizeof *x, by_value);
    for (int i = 0; i < n; i++) {
        if (i && x[i] == x[i - 1]) continue;
        different++;
        bits += is_written_down(x[i]) ? WRITTEN_DOWN : onnx_type_bytes(t->type) == 2 ? SHORT : DRAWN;
    }
    return 2 * different >= n && bits >= ENOUGH;
}

bool elements_are_filters(const OnnxTensor *t)
{
    if (!t->data) return false;
    int64_t zeros = 0;
    for (int64_t i = 0; i < t->count; i++) {
        const double x = element(t, i);
        if (!(x >= 0)) return false;
        zeros += x == 0;
    }
    return 2 * zeros > t->count;
}
