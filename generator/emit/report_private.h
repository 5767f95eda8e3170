/* Shared by report.c, report_program.c and report_plans.c alone.
 *
 * The data are JavaScript.  What occurs many times is written once: rows name texts by their place in `words`, and numbers of bytes
 * or operations by their place in `sizes`, whose rows are an expression as text and as a function of the dims over BigInt: exact,
 * like the trainer's 64-bit integers, for any dims. */
#ifndef REPORT_PRIVATE_H
#define REPORT_PRIVATE_H
#include "emit/report.h"

typedef struct Report {
    const Project *project;
    const Layout *l;
    Arena *arena;
    Buf out;
    Map *words;
    Pointers *size_of;
    VEC(Expr *) sizes;
} Report;

void report_text(Buf *out, const char *text);      /* a string of JavaScript that may stand in a page */
int report_word(Report *r, const char *text);      /* its place in `words` */
int report_size(Report *r, Expr *e);               /* its place in `sizes`; NULL: -1 */
void report_numbers(Report *r, const char *key, const int *at, int n); /* "key":[…], */

void report_program(Report *r, const Program *p, const Groups *groups); /* report_program.c */
void report_plans(Report *r, const Program *p);                         /* report_plans.c */
#endif
