/* Text of model.cu. */
#ifndef STEP_H
#define STEP_H
#include "emit/controller.h"

void comment_put(Buf *out, const char *text);                     /* what may stand inside a comment: no end of it, one line */
void step_text(Buf *out, const Layout *layout, const Program *p, const Guards *guards); /* one function, NAME_step */
void replays_text(Buf *out, const Layout *layout, const Program *p);                     /* one function, NAME_replay; nothing where nothing runs again */
const char *model_cu(const Project *project, const Layout *layout, Program *const *programs, int n, const char *kernels);
/* Included by model.cu: what runs where memory is short.  "" where nothing does. */
const char *lean_h(const Project *project, const Layout *layout, Program *const *programs, int n, const char *kernels);
/* functions: of apart.h. */
const char *unfused_cu(const Project *project, const Layout *layout, const char *kernels, const char *functions);
#endif
