/* disc-gen's command line. */
#ifndef OPTIONS_H
#define OPTIONS_H
#include "passes/passes.h"

/* Fills options, or ends: --help and --version with 0, an error of the user with 2. */
void options_parse(Options *options, Arena *arena, int argc, char **argv);
/* The command line as one would type it again, without the path of the program. */
const char *options_text(Arena *arena, int argc, char **argv);
#endif
