/* make_bad_models FOLDER: writes the files of bad_models.h into the folder, and beside each NAME.onnx a NAME.stderr with what the
 * program must say of it (exit status 2). */
#define _POSIX_C_SOURCE 200809L
#include "bad_models.h"

int main(int n, char **arguments)
{
    if (n != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", arguments[0]);
        return 2;
    }
    const char *folder = arguments[1];
    Arena *arena = arena_new();
    write_bad_models(arena, folder);
    for (int i = 0; i < N_BAD_MODELS; i++) {
        const char *file = bad_models[i].file, *errors = bad_model_errors(arena, folder, i);
        write_file(arena_text(arena, "%s/%.*s.stderr", folder, (int)(strlen(file) - strlen(".onnx")), file), errors,
                   strlen(errors));
    }
    printf("%d files in %s\n", N_BAD_MODELS, folder);
    arena_free(arena);
    return 0;
}
