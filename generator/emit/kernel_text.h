/* Kernels as text. */
#ifndef KERNEL_TEXT_H
#define KERNEL_TEXT_H
#include "emit/emit.h"

typedef struct KernelText {
    const char *kind; /* "row kernel"; NULL: a table, no kernel */
    const char *definition;
    const char *reads, *writes; /* "x (batch, 64), bias (64)", of the first launch */
    int operations;             /* that would be kernels of their own */
    const char *saved;          /* bytes that this saves, as an expression; "" */
    VEC(const char *) nodes;    /* of each launch: "\"/h.0/Add\", \"/h.0/Tanh\"" */
    Map *seen; /* the same, to find one */
} KernelText;

/* The definition, indented by braces; form: "template <class Index>\n", where it has several, or ""; a line of the body that begins with a tab belongs to the one before. */
const char *kernel_definition(Arena *arena, const char *name, const char *form, const char *const *params, int n, const char *body);
const char *nodes_text(Arena *arena, const Group *group);
const char *comment_safe(Arena *arena, const char *text); /* characters of a model's names that would end a comment or a line are replaced */
const char *operand_text(Arena *arena, const char *name, const Value *v); /* "x (batch, 64)" */
void put_comment(Buf *out, const char *text); /* a line of a comment, broken between words where it is too long */
void kernel_put(Buf *out, Arena *arena, const KernelText *k);
#endif
