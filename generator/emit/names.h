/* Names in kernels. */
#ifndef NAMES_H
#define NAMES_H
#include "emit/emit.h"

const char *made_word(const Value *v); /* what an operation makes: "mean", "centred", "sigmoid"; "value" where there is no word */
const char *reduced_word(const Group *group, const Value *v); /* the same of a reduction that a kernel makes */
bool word_tells(const char *word);     /* also where the kernel that made the value is out of sight */
const char *operand_word(Arena *arena, const Group *group,
                         const Value *v);                            /* what a kernel reads: "bias", "gradient", "labels"; "x" */
const char *use_word(const Group *group, const Value *v, int depth); /* "bias", "gain", "table"; NULL where its use does not tell */
const char *scan_word(Arena *arena, const Op *scan, int result);     /* what a scan gives out: "h_last", "gates" */
const char *plain_name(Arena *arena, const char *name);              /* a value's own name without its number, fit for C */
const char *short_path(Arena *arena, const char *path);              /* "/blocks/blocks.0/c1" is "/blocks.0/c1" */
const char *element_name(Arena *arena, const char *load);            /* of "bias[i]": "bias_i" */
int words_in(const char *text);                                      /* how long it is, whatever names it has */
bool name_is_taken(const char *name);                                /* a word that a kernel's text has another meaning for */
/* Offsets that the text computes before it reads or writes ("at", "at2", …) are named by what lies there: "at" where there is one
 * alone, else "x_at", and "x_row" for the part that an outer loop knows. */
typedef VEC(const char *) Strings;
const char *name_offsets(Arena *arena, const char *text, const Strings *offsets);
#endif
