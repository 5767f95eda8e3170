/* Fills the holes of embedded templates. */
#include "emit/template.h"
#include "emit/embed.h"
#include "support/diag.h"
#include <ctype.h>
#include <string.h>

static const EmbeddedFile *find(const char *path)
{
    for (const EmbeddedFile *f = embedded_files; f->path; f++)
        if (strcmp(f->path, path) == 0) return f;
    bug("no file %s is embedded", path);
}

/* The length of a hole's name at p, which stands behind an @; 0 where it is none. */
static size_t hole_length(const char *p, const char *end)
{
    size_t n = 0;
    while (p + n < end && (isupper((unsigned char)p[n]) || p[n] == '_')) n++;
    return n && p + n < end && p[n] == '@' ? n : 0;
}

static const char *filling(const char *name, size_t length, const Hole *holes, int n)
{
    for (int i = 0; i < n; i++)
        if (strlen(holes[i].name) == length && memcmp(holes[i].name, name, length) == 0) return holes[i].text;
    bug("nothing fills the hole %.*s", (int)length, name);
}

const char *template_fill(Arena *arena, const char *path, const Hole *holes, int n)
{
    const EmbeddedFile *file = find(path);
    Buf out = {.arena = arena};
    for (const char *p = file->at; p < file->end;) {
        size_t length = *p == '@' ? hole_length(p + 1, file->end) : 0;
        if (length) {
            buf_put(&out, filling(p + 1, length, holes, n));
            p += length + 2;
        } else {
            const char *next = memchr(p + 1, '@', (size_t)(file->end - p - 1));
            if (!next) next = file->end;
            buf_write(&out, p, (size_t)(next - p));
            p = next;
        }
    }
    return buf_text(&out);
}
