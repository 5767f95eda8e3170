/* Files that disc-gen carries with it: runtime/ and templates/, embedded by the assembler (embed.mk). */
#ifndef EMBED_H
#define EMBED_H
#include <stddef.h>

typedef struct EmbeddedFile {
    const char *path; /* "runtime/device/device.h" */
    const char *at, *end;
} EmbeddedFile;
extern const EmbeddedFile embedded_files[]; /* ended by a path of NULL */
#endif
