/* Open addressing, grown at half full; nothing is ever taken out. */
#include "emit/pointers.h"

typedef struct {
    const void *key;
    void *value;
} Entry;
struct Pointers {
    Arena *arena;
    Entry *at;
    size_t room, n;
};

Pointers *pointers_new(Arena *arena)
{
    Pointers *map = NEW(arena, Pointers);
    map->arena = arena;
    map->room = 256;
    map->at = NEW_ARRAY(arena, Entry, map->room);
    return map;
}

static Entry *entry(const Pointers *map, const void *key)
{
    size_t i = (size_t)(((uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u) >> 32) & (map->room - 1);
    while (map->at[i].key && map->at[i].key != key) i = (i + 1) & (map->room - 1);
    return &map->at[i];
}

void pointers_set(Pointers *map, const void *key, void *value)
{
    if (map->n * 2 >= map->room) {
        Entry *old = map->at;
        size_t room = map->room;
        map->room *= 2;
        map->at = NEW_ARRAY(map->arena, Entry, map->room);
        for (size_t i = 0; i < room; i++)
            if (old[i].key) *entry(map, old[i].key) = old[i];
    }
    Entry *e = entry(map, key);
    if (!e->key) map->n++;
    *e = (Entry){key, value};
}

void *pointers_get(const Pointers *map, const void *key)
{
    return entry(map, key)->value;
}
