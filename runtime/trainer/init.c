/* Weights by rule.  Needs: no contraction of a * b + c into one rounding, or machines would differ.  Breaks: nothing. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif
#include "init.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

uint64_t splitmix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

uint64_t hash_text(const char *text)
{
    uint64_t h = 0xcbf29ce484222325;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3;
    return h;
}

int init_parse(InitRule *rule, const char *text, uint64_t seed, const char *weight, Fault *fault)
{
    char end = 0;
    *rule = (InitRule){.key = splitmix64(seed ^ hash_text(weight))};
    if (!strcmp(text, "zeros"))
        rule->kind = INIT_ZEROS;
    else if (!strcmp(text, "ones"))
        rule->kind = INIT_ONES;
    else if (sscanf(text, " normal ( %lf %c", &rule->a, &end) == 2 && end == ')' && rule->a >= 0)
        rule->kind = INIT_NORMAL;
    else if (sscanf(text, " uniform ( %lf , %lf %c", &rule->a, &rule->b, &end) == 3 && end == ')' && rule->a <= rule->b)
        rule->kind = INIT_UNIFORM;
    else
        return fault_set(fault, STATUS_USER,
                         "\"%s\": \"%s\" is no rule to make it by: wanted zeros, ones, normal(DEVIATION) or uniform(LOW, HIGH)",
                         weight, text);
    return 0;
}

/* ln x for x > 0, to about 1e-16, from the four operations alone: x = m 2^e, ln m = 2 artanh((m - 1) / (m + 1)). */
static double logarithm(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678118654752) m *= 2, e--;
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int k = 21; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
    return 2 * s * sum + e * 0.69314718055994531;
}

static double polynomial(const double *c, double x)
{
    double y = c[7];
    for (int i = 6; i >= 0; i--) y = y * x + c[i];
    return y;
}

/* Michael Wichura, Algorithm AS 241 (PPND16), Applied Statistics 37 (1988): the inverse of the normal distribution. */
static double normal_quantile(double p)
{
    static const double a[8] = {3.3871328727963666080,   1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
                                4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3};
    static const double b[8] = {1.0,
                                4.2313330701600911252e1,
                                6.8718700749205790830e2,
                                5.3941960214247511077e3,
                                2.1213794301586595867e4,
                                3.9307895800092710610e4,
                                2.8729085735721942674e4,
                                5.2264952788528545610e3};
    static const double c[8] = {1.42343711074968357734,    4.63033784615654529590,   5.76949722146069140550,
                                3.64784832476320460504,    1.27045825245236838258,   2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[8] = {1.0,
                                2.05319162663775882187,
                                1.67638483018380384940,
                                6.89767334985100004550e-1,
                                1.48103976427480074590e-1,
                                1.51986665636164571966e-2,
                                5.47593808499534494600e-4,
                                1.05075007164441684324e-9};
    static const double e[8] = {6.65790464350110377720,    5.46378491116411436990,    1.78482653991729133580,
                                2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[8] = {1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};
    double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        double r = 0.180625 - q * q;
        return q * polynomial(a, r) / polynomial(b, r);
    }
    double r = sqrt(-logarithm(q < 0 ? p : 1 - p));
    double x = r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6) : polynomial(e, r - 5) / polynomial(f, r - 5);
    return q < 0 ? -x : x;
}

double init_element(const InitRule *rule, int64_t i)
{
    if (rule->kind == INIT_ZEROS) return 0;
    if (rule->kind == INIT_ONES) return 1;
    double u = ((double)(splitmix64(rule->key + (uint64_t)i) >> 11) + 0.5) * 0x1p-53; /* in (0, 1) */
    return rule->kind == INIT_UNIFORM ? rule->a + (rule->b - rule->a) * u : rule->a * normal_quantile(u);
}
