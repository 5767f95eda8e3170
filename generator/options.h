/* disc-gen's command line. */
#ifndef OPTIONS_H
#define OPTIONS_H
#include "passes/passes.h"

/* Fills options, or ends: --help and --version with 0, an error of the user with 2. */
void options_parse(Options *options, Arena *arena, int argc, char **argv);
/* The command line as one would type it again, without folders: the same model and options give the same text wherever they lie.
 * argv as options_parse left it. */
const char *options_text(Arena *arena, const Options *options, int argc, char **argv);
#endif
