/* The types that elements are computed in, summed in and stored as, and numbers as C writes them. */
#include "emit/kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool is_half(Dtype d)
{
    return d == DTYPE_f16 || d == DTYPE_bf16;
}

const char *compute_type(Dtype d)
{
    return is_half(d) ? "float" : dtype_c(d);
}

const char *sum_type(Dtype d)
{
    if (d == DTYPE_f64) return "double";
    return dtype_is_float(d) ? "float" : d == DTYPE_bool ? "bool" : d == DTYPE_u64 ? "uint64_t" : "int64_t";
}

const char *stored(Kernel *k, Dtype d, Code c)
{
    if (!is_half(d)) return c.text;
    const char *rounded = text_of(k, "float(%s(", dtype_c(d)); /* rounded by a cast already: float(half(x)) is stored as half(x) */
    const size_t n = strlen(c.text);
    if (strncmp(c.text, rounded, strlen(rounded)) == 0 && c.binds == BINDS_ATOM) return arena_copy(k->arena, c.text + 6, n - 7);
    return text_of(k, "%s(%s)", dtype_c(d), c.text);
}

/* The shortest text that reads back as the same number. */
static const char *float_literal(Arena *arena, double value, bool is_double)
{
    if (isnan(value)) return is_double ? "(double)NAN" : "NAN";
    if (isinf(value)) return value < 0 ? "-INFINITY" : "INFINITY";
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (is_double ? strtod(text, NULL) == value : strtof(text, NULL) == (float)value) break;
    }
    const char *point = strpbrk(text, ".e") ? "" : ".";
    return arena_text(arena, "%s%s%s", text, point, is_double ? (*point ? "0" : "") : "f");
}

const char *literal(Arena *arena, Dtype d, double value, int64_t integer)
{
    if (d == DTYPE_bool) return integer ? "true" : "false";
    if (dtype_is_float(d)) return float_literal(arena, value, d == DTYPE_f64);
    if (d == DTYPE_u64) return arena_text(arena, "%lluu", (unsigned long long)integer);
    if (integer == INT64_MIN) return "INT64_MIN";
    return arena_text(arena, integer > INT32_MAX || integer < INT32_MIN ? "%lldll" : "%lld", (long long)integer);
}
