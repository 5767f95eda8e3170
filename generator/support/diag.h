/* What is said to the user.  Errors of the user (model, option, data) end with exit status 2; faults of the program with 1. */
#ifndef SUPPORT_DIAG_H
#define SUPPORT_DIAG_H
#include <stdbool.h>
#include <stdnoreturn.h>

/* One error of the user: "disc-gen: error: " and the text.  Several of one kind are collected with error_add and ended with error_stop,
 * so that all are seen at once. */
noreturn void error_exit(const char *format, ...) __attribute__((format(printf, 1, 2)));
void error_add(const char *format, ...) __attribute__((format(printf, 1, 2)));
void error_stop(void); /* exits with 2 if anything was added */

/* Something the user should know (a tied weight, a folded norm): "disc-gen: note: …" on standard error. */
void notice(const char *format, ...) __attribute__((format(printf, 1, 2)));
int notices_count(void); /* those said so far, for the report */
const char *notice_at(int i);

/* A fault of this program: file, line, what; exit 1. */
noreturn void bug_at(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define bug(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)
#define check(condition) ((condition) ? (void)0 : bug("not so: %s", #condition))

/* While a model is being read (reading(path) until reading(NULL)) operations that do not fit each other are its fault, an error of
 * the user; at any other time they are a fault of this program. */
void reading(const char *model);
noreturn void misfit_at(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define misfit(...) misfit_at(__FILE__, __LINE__, __VA_ARGS__)

/* Names near to a wrong one, for "did you mean": "\"wte.weight\", \"wpe.weight\"" or "" ; names in any order.  Lives in the given arena. */
struct Arena;
const char *near_names(struct Arena *arena, const char *wrong, const char *const *names, int n);
#endif
