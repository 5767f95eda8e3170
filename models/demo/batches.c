/* Cuts text files into batches of token ids for a model of bytes, each batch of its own length, and writes them as a batch file of
 * the trainer.
 *
 *     batches OUT.safetensors COUNT FILE...
 *
 * A byte is a token; what is no ASCII becomes '?'.  Batch k has about 2,048 tokens, its length drawn between 24 and 192; the
 * generator of random numbers is fixed, so the same files give the same batches. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 2048, SHORTEST = 24, LONGEST = 192 };

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static char *read_all(char **names, int n, size_t *length)
{
    char *text = NULL;
    *length = 0;
    for (int i = 0; i < n; i++) {
        FILE *f = fopen(names[i], "rb");
        if (!f) return fprintf(stderr, "batches: cannot read %s\n", names[i]), NULL;
        for (size_t got = 1; got;) {
            char *more = realloc(text, *length + 65536);
            if (!more) return NULL;
            text = more;
            got = fread(text + *length, 1, 65536, f);
            *length += got;
        }
        fclose(f);
    }
    for (size_t i = 0; i < *length; i++)
        if ((unsigned char)text[i] > 127) text[i] = '?';
    return text;
}

int main(int argc, char **argv)
{
    if (argc < 4) return fprintf(stderr, "usage: batches OUT.safetensors COUNT FILE...\n"), 2;
    const int count = atoi(argv[2]);
    size_t length;
    char *text = read_all(argv + 3, argc - 3, &length);
    if (!text || length <= LONGEST || count < 1) return fprintf(stderr, "batches: not enough text\n"), 2;

    int64_t *seq = malloc(sizeof *seq * (size_t)count), *rows = malloc(sizeof *rows * (size_t)count);
    char *header = malloc((size_t)count * 128 + 16);
    if (!seq || !rows || !header) return 1;
    uint64_t state = 1;
    size_t at = 0, used = (size_t)sprintf(header, "{");
    for (int k = 0; k < count; k++) {
        seq[k] = SHORTEST + (int64_t)(next_random(&state) % (LONGEST - SHORTEST + 1));
        rows[k] = TOKENS / seq[k];
        const size_t bytes = (size_t)(seq[k] * rows[k]) * sizeof(int64_t);
        used += (size_t)sprintf(header + used,
                                "%s\"step%d.input_ids\":{\"dtype\":\"I64\",\"shape\":[%lld,%lld],\"data_offsets\":[%zu,%zu]}",
                                k ? "," : "", k, (long long)rows[k], (long long)seq[k], at, at + bytes);
        at += bytes;
    }
    used += (size_t)sprintf(header + used, "}");

    FILE *out = fopen(argv[1], "wb");
    const uint64_t header_size = used;
    if (!out) return fprintf(stderr, "batches: cannot write %s\n", argv[1]), 2;
    fwrite(&header_size, sizeof header_size, 1, out);
    fwrite(header, 1, used, out);
    for (int k = 0; k < count; k++)
        for (int64_t r = 0; r < rows[k]; r++) {
            const size_t begin = next_random(&state) % (length - (size_t)seq[k]);
            for (int64_t i = 0; i < seq[k]; i++) {
                const int64_t token = (unsigned char)text[begin + (size_t)i];
                fwrite(&token, sizeof token, 1, out);
            }
        }
    if (fclose(out)) return fprintf(stderr, "batches: cannot write %s\n", argv[1]), 2;
    free(text), free(seq), free(rows), free(header);
    return 0;
}
