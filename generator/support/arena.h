/* Memory and growable things, all from one arena a compilation: nothing is freed alone, everything at the end. */
#ifndef SUPPORT_ARENA_H
#define SUPPORT_ARENA_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;
Arena *arena_new(void);
void arena_free(Arena *arena); /* and all that came from it */
/* For what is needed for a moment, many times over: freed with its parent; arena_reset takes back all that came from it. */
Arena *arena_child(Arena *parent);
void arena_reset(Arena *arena);
void *arena_alloc(Arena *arena, size_t bytes); /* zeroed, aligned to 16; ends the program when memory is gone */
char *arena_text(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_copy(Arena *arena, const char *text, size_t length); /* adds the final 0 */
#define NEW(arena, T) ((T *)arena_alloc(arena, sizeof(T)))
#define NEW_ARRAY(arena, T, n) ((T *)arena_alloc(arena, sizeof(T) * (size_t)(n)))

/* A growable array: VEC(int) list = {0}; vec_push(arena, &list, 7); list.at[0], list.n */
#define VEC(T) struct { T *at; int n, room; }
#define vec_push(arena, v, item) \
    (*(((v)->n == (v)->room ? (void)((v)->at = vec_grow((arena), (v)->at, &(v)->room, sizeof *(v)->at)) : (void)0), &(v)->at[(v)->n++]) = (item))
void *vec_grow(Arena *arena, void *at, int *room, size_t item_size);

/* A map from text to a pointer; keys are copied; keeps the order in which keys came. */
typedef struct Map Map;
Map *map_new(Arena *arena);
void map_set(Map *map, const char *key, void *value);
void *map_get(const Map *map, const char *key); /* NULL where there is none */
bool map_has(const Map *map, const char *key);
int map_count(const Map *map);
const char *map_key(const Map *map, int i); /* in order of arrival */
void *map_value(const Map *map, int i);

/* Text that grows: what emitters write into. */
typedef struct { Arena *arena; char *text; size_t length, room; } Buf; /* text is always ended by 0 once something was written */
void buf_printf(Buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_put(Buf *buf, const char *text);
void buf_write(Buf *buf, const char *bytes, size_t n);
const char *buf_text(const Buf *buf); /* "" when empty */
#endif
