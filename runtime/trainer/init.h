/* Weights made by rule, for a model that comes without its data: "zeros", "ones", "normal(S)", "uniform(A, B)".
 *
 * Element i of weight NAME is a function of (seed, NAME, i) alone: key = splitmix64(seed xor FNV-1a(NAME)), bits = splitmix64(key +
 * i), where splitmix64 is the finaliser of Steele, Lea, Flood (2014) after one golden-ratio step.  uniform takes the upper 53 bits;
 * normal puts them through the inverse normal distribution (Wichura's AS 241) with a logarithm of its own, so that every machine
 * makes the same weights: no libm, no contraction. */
#ifndef INIT_H
#define INIT_H
#include <stdint.h>
#include "fault.h"

typedef enum { INIT_ZEROS, INIT_ONES, INIT_NORMAL, INIT_UNIFORM } InitKind;
typedef struct {
    InitKind kind;
    double a, b; /* normal: deviation a; uniform: from a to b */
    uint64_t key;
} InitRule;

int init_parse(InitRule *rule, const char *text, uint64_t seed, const char *weight, Fault *fault);
double init_element(const InitRule *rule, int64_t i);

/* The counter-based generator, also used to shuffle. */
uint64_t splitmix64(uint64_t x);
uint64_t hash_text(const char *text); /* FNV-1a */
#endif
