/* The arena, growable arrays, maps and text buffers.
 * An arena is a list of blocks; memory is cut off the front block and goes back all at once.  Growing an array leaves the old copy
 * behind: doubling keeps that below the size of what is used.  A long text has a block of its own, which grows. */
#include "support/arena.h"
#include "support/diag.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Block {
    struct Block *next;
    size_t used, room;
    bool one_text; /* a long text lies in it, and nothing else ever will */
    _Alignas(16) unsigned char bytes[];
} Block;

struct Arena {
    Block *first; /* the one that is cut from */
    size_t next_room;
    Arena *children, *sibling;
};

enum { FIRST_BLOCK = 1 << 16, LARGEST_BLOCK = 1 << 24, ALIGNMENT = 16 };

Arena *arena_new(void)
{
    Arena *arena = calloc(1, sizeof *arena);
    if (!arena) error_exit("out of memory: cannot start");
    arena->next_room = FIRST_BLOCK;
    return arena;
}

Arena *arena_child(Arena *parent)
{
    Arena *child = arena_new();
    child->sibling = parent->children;
    parent->children = child;
    return child;
}

static void free_blocks(Block *block)
{
    for (Block *next; block; block = next) {
        next = block->next;
        free(block);
    }
}

void arena_free(Arena *arena)
{
    if (!arena) return;
    for (Arena *child = arena->children, *next; child; child = next) {
        next = child->sibling;
        arena_free(child);
    }
    free_blocks(arena->first);
    free(arena);
}

/* Keeps the block being cut, and its pages. */
void arena_reset(Arena *arena)
{
    Block *kept = arena->first;
    if (!kept) return;
    free_blocks(kept->next);
    memset(kept->bytes, 0, kept->used);
    kept->next = NULL;
    kept->used = 0;
}

static Block *block_new(size_t room)
{
    Block *block = room > SIZE_MAX - sizeof *block ? NULL : calloc(1, sizeof *block + room);
    if (!block) error_exit("out of memory: wanted %zu more bytes", room);
    block->room = room;
    return block;
}

void *arena_alloc(Arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) error_exit("out of memory: wanted %zu more bytes", bytes);
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (bytes == 0) bytes = ALIGNMENT;
    Block *first = arena->first;
    if (first && first->room - first->used >= bytes) {
        void *out = first->bytes + first->used;
        first->used += bytes;
        return out;
    }
    if (first && bytes > arena->next_room / 4) { /* a large one gets its own block, behind the one being cut */
        Block *own = block_new(bytes);
        own->used = bytes;
        own->next = first->next;
        first->next = own;
        return own->bytes;
    }
    Block *block = block_new(bytes > arena->next_room ? bytes : arena->next_room);
    if (arena->next_room < LARGEST_BLOCK) arena->next_room *= 2;
    block->next = first;
    arena->first = block;
    block->used = bytes;
    return block->bytes;
}

char *arena_copy(Arena *arena, const char *text, size_t length)
{
    char *out = arena_alloc(arena, length + 1);
    if (length) memcpy(out, text, length);
    return out;
}

enum { SHORT_TEXT = 256 };

/* Writes what fits, and returns the length of all of it: most texts are short, and formatted once. */
static int formatted(char *out, size_t room, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(out, room, format, again);
    va_end(again);
    if (length < 0) bug("bad format: %s", format);
    return length;
}

char *arena_text(Arena *arena, const char *format, ...)
{
    char few[SHORT_TEXT];
    va_list arguments;
    va_start(arguments, format);
    int length = formatted(few, sizeof few, format, arguments);
    char *out = arena_alloc(arena, (size_t)length + 1);
    if ((size_t)length < sizeof few)
        memcpy(out, few, (size_t)length);
    else
        vsnprintf(out, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return out;
}

void *vec_grow(Arena *arena, void *at, int *room, size_t item_size)
{
    int old = *room;
    if (old > INT32_MAX / 2) bug("an array grew past %d items", old);
    int grown = old ? 2 * old : item_size <= sizeof(void *) ? 2 : 8; /* most values have one or two users */
    void *out = arena_alloc(arena, (size_t)grown * item_size);
    if (old) memcpy(out, at, (size_t)old * item_size);
    *room = grown;
    return out;
}

/* ---- maps: open addressing over the indices of an array in order of arrival ---- */

typedef struct {
    const char *key;
    void *value;
    uint64_t hash;
} Entry;

struct Map {
    Arena *arena;
    VEC(Entry) entries;
    int *slots; /* index + 1; 0: free */
    uint32_t n_slots;
};

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) hash = (hash ^ *c) * 0x100000001b3u;
    return hash ^ (hash >> 32);
}

Map *map_new(Arena *arena)
{
    Map *map = NEW(arena, Map);
    map->arena = arena;
    map->n_slots = 16;
    map->slots = NEW_ARRAY(arena, int, map->n_slots);
    return map;
}

/* The slot of the key, or the free slot where it would stand. */
static uint32_t map_slot(const Map *map, const char *key, uint64_t hash)
{
    for (uint32_t i = (uint32_t)hash & (map->n_slots - 1);; i = (i + 1) & (map->n_slots - 1)) {
        if (!map->slots[i]) return i;
        const Entry *entry = &map->entries.at[map->slots[i] - 1];
        if (entry->hash == hash && strcmp(entry->key, key) == 0) return i;
    }
}

static void map_rehash(Map *map)
{
    map->n_slots *= 2;
    map->slots = NEW_ARRAY(map->arena, int, map->n_slots);
    for (int k = 0; k < map->entries.n; k++) {
        uint32_t i = (uint32_t)map->entries.at[k].hash & (map->n_slots - 1);
        while (map->slots[i]) i = (i + 1) & (map->n_slots - 1);
        map->slots[i] = k + 1;
    }
}

void map_set(Map *map, const char *key, void *value)
{
    uint64_t hash = hash_text(key);
    uint32_t slot = map_slot(map, key, hash);
    if (map->slots[slot]) {
        map->entries.at[map->slots[slot] - 1].value = value;
        return;
    }
    Entry entry = {.key = arena_copy(map->arena, key, strlen(key)), .value = value, .hash = hash};
    vec_push(map->arena, &map->entries, entry);
    map->slots[slot] = map->entries.n;
    if ((uint32_t)map->entries.n * 2 > map->n_slots) map_rehash(map);
}

static const Entry *map_find(const Map *map, const char *key)
{
    int index = map->slots[map_slot(map, key, hash_text(key))];
    return index ? &map->entries.at[index - 1] : NULL;
}

void *map_get(const Map *map, const char *key)
{
    const Entry *entry = map_find(map, key);
    return entry ? entry->value : NULL;
}

bool map_has(const Map *map, const char *key)
{
    return map_find(map, key) != NULL;
}

int map_count(const Map *map)
{
    return map->entries.n;
}

const char *map_key(const Map *map, int i)
{
    check(i >= 0 && i < map->entries.n);
    return map->entries.at[i].key;
}

void *map_value(const Map *map, int i)
{
    check(i >= 0 && i < map->entries.n);
    return map->entries.at[i].value;
}

/* ---- text that grows ---- */

enum { LONG_TEXT = 1 << 18 };

/* A long text lies in a block of its own, the first behind the one being cut when it was made. */
static char *grow_long_text(Buf *buf, size_t room)
{
    Block **link = &buf->arena->first;
    while (*link && !((*link)->one_text && (char *)(*link)->bytes == buf->text)) link = &(*link)->next;
    Block *block = *link;
    if (!block) { /* it was short until now */
        if (!buf->arena->first) arena_alloc(buf->arena, 1);
        block = block_new(room);
        block->used = room;
        block->one_text = true;
        block->next = buf->arena->first->next;
        buf->arena->first->next = block;
        if (buf->length) memcpy(block->bytes, buf->text, buf->length);
        return (char *)block->bytes;
    }
    block = realloc(block, sizeof *block + room);
    if (!block) error_exit("out of memory: wanted %zu more bytes", room);
    block->used = block->room = room;
    *link = block;
    return (char *)block->bytes;
}

static void buf_reserve(Buf *buf, size_t more)
{
    if (more > SIZE_MAX / 4 || buf->length > SIZE_MAX / 4) error_exit("out of memory: a text grew past %zu bytes", buf->length);
    size_t wanted = buf->length + more + 1;
    if (wanted <= buf->room) return;
    size_t room = buf->room ? buf->room : 64;
    while (room < wanted) room *= 2;
    if (room >= LONG_TEXT) {
        buf->text = grow_long_text(buf, room);
    } else {
        char *text = arena_alloc(buf->arena, room);
        if (buf->length) memcpy(text, buf->text, buf->length);
        buf->text = text;
    }
    buf->room = room;
}

void buf_write(Buf *buf, const char *bytes, size_t n)
{
    buf_reserve(buf, n);
    if (n) memcpy(buf->text + buf->length, bytes, n);
    buf->length += n;
    buf->text[buf->length] = 0;
}

void buf_put(Buf *buf, const char *text)
{
    buf_write(buf, text, strlen(text));
}

void buf_printf(Buf *buf, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t room = buf->room ? buf->room - buf->length : 0;
    int length = formatted(room ? buf->text + buf->length : NULL, room, format, arguments);
    if ((size_t)length >= room) {
        buf_reserve(buf, (size_t)length);
        vsnprintf(buf->text + buf->length, (size_t)length + 1, format, arguments);
    }
    buf->length += (size_t)length;
    va_end(arguments);
}

const char *buf_text(const Buf *buf)
{
    return buf->text ? buf->text : "";
}
