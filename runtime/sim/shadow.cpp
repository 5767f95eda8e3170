/* Looks at each access of a kernel to memory.  See sim.h.
 *
 * For each byte of shared memory, and for each word (or byte, where it is touched in smaller pieces) of global memory, a cell
 * remembers who wrote it last and who read it since.  Cells come in pages, made when first touched. */
#include "block.h"
#include "../controller/controller.h"
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unordered_map>
#include <vector>

/* ---- cells ---- */
enum Readers : uint8_t { ONE, OF_A_WARP, OF_A_BLOCK, OF_BLOCKS };
struct Access {
    uint32_t run; /* of the launch, or of the block; another one: nothing is known */
    uint32_t block, thread, barriers, syncs;
    uint32_t code; /* where in the program */
};
struct Cell {
    Access write, read;
    Readers readers;
};
enum { PAGE = 4096 };
struct Page {
    uintptr_t number;
    Cell *words, *bytes;
};

static std::unordered_map<uintptr_t, Page> pages;
static Page *recent[256];

static Page *page_of(uintptr_t at)
{
    const uintptr_t number = at / PAGE;
    Page *&cached = recent[number % 256];
    if (cached && cached->number == number) return cached;
    Page &page = pages[number];
    page.number = number;
    return cached = &page;
}
static Cell *cells(Cell **of, size_t n)
{
    if (!*of) *of = (Cell *)calloc(n, sizeof(Cell));
    if (!*of) sim_fault("no memory is left to watch this one with");
    return *of;
}

/* Threads of a block may write one place at once where all write the same (a flag that several raise).  What this one writes is seen when it
 * does something else. */
struct Doubt {
    Access before;
    const char *at;
    size_t bytes; /* of the cell */
    char was[4];
    uint32_t code;
};
static Doubt doubts[16];
static int n_doubts;

/* ---- where an address lies ---- */
struct Buffer {
    const char *at, *end, *name;
    bool writable;
    int argument;
};
static std::vector<Buffer> buffers;
static size_t last_buffer;
static std::vector<Buffer> registered;
static const char *image, *image_end, *shared, *shared_end;

/* The program's own bytes (tables of constants lie there), and the thread's: what is __shared__. */
static int find_image(dl_phdr_info *info, size_t, void *)
{
    image = (const char *)info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        const char *at = (const char *)info->dlpi_addr + h->p_vaddr;
        if (h->p_type == PT_LOAD && at + h->p_memsz > image_end) image_end = at + h->p_memsz;
        if (h->p_type == PT_TLS) shared = (const char *)info->dlpi_tls_data, shared_end = shared + h->p_memsz;
    }
    return 1; /* the first is the program itself */
}

void sim_shadow_begin()
{
    if (!image) dl_iterate_phdr(find_image, NULL);
    buffers.clear();
    last_buffer = 0;
    n_doubts = 0;
}
static void may_touch(const void *at, size_t bytes, const char *name, bool writable, int argument)
{
    buffers.push_back({(const char *)at, (const char *)at + bytes, name, writable, argument});
}
void sim_memory(const void *at, size_t bytes, const char *name)
{
    registered.push_back({(const char *)at, (const char *)at + bytes, name, true, 0});
}
void sim_forget()
{
    registered.clear();
}

static bool lies_in(const char *at, size_t size, bool write, const Buffer *b)
{
    return at >= b->at && at + size <= b->end && (b->writable || !write);
}
static const Buffer *buffer_of(const char *at, size_t size, bool write)
{
    if (last_buffer < buffers.size() && lies_in(at, size, write, &buffers[last_buffer])) return &buffers[last_buffer];
    for (size_t i = 0; i < buffers.size(); i++) {
        if (!lies_in(at, size, write, &buffers[i])) continue;
        last_buffer = i;
        return &buffers[i];
    }
    return NULL;
}

/* ---- what the arguments point to ---- */
static const size_t DTYPE_BYTES[] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 2, 4, 8, 1}; /* as in Dtype */
extern "C" const Model model __attribute__((weak)); /* tests of single kernels have none */

static void weight_pointer(const Step *s, const char *p, bool writable, int number)
{
    for (int i = 0; i < model.n_weights + model.n_states; i++) {
        const bool is_state = i >= model.n_weights;
        const int w = is_state ? model.states[i - model.n_weights].weight : i;
        const char *at = (const char *)(is_state ? s->states[i - model.n_weights] : s->weights[i]);
        size_t bytes = DTYPE_BYTES[model.weights[w].dtype];
        for (int d = 0; d < model.weights[w].rank; d++) bytes *= (size_t)model.weights[w].dims[d];
        if (p >= at && p < at + bytes)
            may_touch(p, (size_t)(at + bytes - p), is_state ? model.states[i - model.n_weights].name : model.weights[w].name, writable,
                      number);
    }
}

/* Buffers lie over each other, one after another in time, and an argument may point to a slice of one: of those in which it points,
 * the one that ends last counts. */
static void arena_pointer(const Step *s, const char *p, bool writable, int number)
{
    static std::vector<int64_t> bytes;
    const Program *program = s->program;
    bytes.resize((size_t)program->n_buffers);
    program->bytes(s->dims, bytes.data());
    const char *end = p, *name = NULL;
    for (int b = 0; b < program->n_buffers; b++) {
        const char *at = s->arena + s->at[b];
        if (p < at || at + bytes[(size_t)b] <= end) continue;
        end = at + bytes[(size_t)b];
        name = program->lives[b].name;
    }
    if (name) may_touch(p, (size_t)(end - p), name, writable, number);
}

void sim_pointer(const Step *s, const void *argument, bool writable, int number)
{
    const char *p = (const char *)argument;
    for (const Buffer &r : registered)
        if (p >= r.at && p < r.end) may_touch(p, (size_t)(r.end - p), r.name, writable, number);
    if (&model && s->weights) weight_pointer(s, p, writable, number);
    if (s->program && s->arena) arena_pointer(s, p, writable, number);
}

/* ---- words for people ---- */
static const char *line_of(uint32_t code, char *text, size_t size)
{
    char command[128];
    snprintf(command, sizeof command, "addr2line -e /proc/%d/exe %#x 2>/dev/null", (int)getpid(), code);
    snprintf(text, size, "address %#x", code);
    FILE *f = popen(command, "r");
    if (f && fgets(command, sizeof command, f) && command[0] != '?') {
        command[strcspn(command, " \n")] = 0;
        const char *slash = strrchr(command, '/');
        snprintf(text, size, "%s", slash ? slash + 1 : command);
    }
    if (f) pclose(f);
    return text;
}

static const char *place_of(const char *at, char *text, size_t size)
{
    const Buffer *b = buffer_of(at, 1, false);
    if (at >= shared && at < shared_end)
        snprintf(text, size, "shared memory");
    else if (b)
        snprintf(text, size, "byte %lld of argument %d, \"%s\"", (long long)(at - b->at), b->argument, b->name);
    else
        snprintf(text, size, "memory");
    return text;
}

static void outside(const char *at, size_t size, bool write, uint32_t code)
{
    char line[256];
    const Buffer *nearest = NULL, *inside = buffer_of(at, size, false);
    for (const Buffer &b : buffers)
        if (at >= b.at && (b.writable || !write) && (!nearest || b.at > nearest->at)) nearest = &b;
    line_of(code, line, sizeof line);
    if (nearest && !inside)
        sim_fault("%s %zu bytes at %s, %lld bytes behind the end of argument %d, \"%s\" (%lld bytes)", write ? "writes" : "reads", size,
                  line, (long long)(at - nearest->end), nearest->argument, nearest->name, (long long)(nearest->end - nearest->at));
    sim_fault("%s %zu bytes at %s outside of what it was given%s%s", write ? "writes" : "reads", size, line,
              inside ? " to write: in " : "", inside ? inside->name : "");
}

static void race(const Access &before, const char *at, bool was_write, bool write, uint32_t code)
{
    char line[256], line_before[256], place[256];
    sim_fault("race: %s %s at %s, which thread %u of block %u %s at %s with no barrier between", write ? "writes" : "reads", place_of(at, place, sizeof place),
              line_of(code, line, sizeof line), before.thread, before.block, was_write ? "wrote" : "read",
              line_of(before.code, line_before, sizeof line_before));
}

/* ---- the rules ---- */
static bool same_warp(const Access &a, const Access &b)
{
    return a.block == b.block && a.thread / 32 == b.thread / 32;
}
/* Whether an access lies before what runs now, for certain. */
static bool ordered(const Access &a, const Access &now)
{
    if (a.run != now.run) return true;
    return a.block == now.block && (a.thread == now.thread || a.barriers < now.barriers || (same_warp(a, now) && a.syncs < now.syncs));
}
static bool readers_ordered(const Cell *c, const Access &now)
{
    const Access &r = c->read;
    if (r.run != now.run || c->readers == ONE) return ordered(r, now);
    if (c->readers == OF_BLOCKS || r.block != now.block) return false;
    if (r.barriers < now.barriers) return true;
    return c->readers == OF_A_WARP && same_warp(r, now) && r.syncs < now.syncs;
}

static void doubt(const Access &before, const char *at, size_t bytes, uint32_t code)
{
    if (n_doubts == 16) return;
    Doubt *d = &doubts[n_doubts++];
    *d = {before, at, bytes, {0}, code};
    memcpy(d->was, at, bytes);
}
void sim_shadow_written()
{
    const int n = n_doubts;
    n_doubts = 0;
    for (int i = 0; i < n; i++)
        if (memcmp(doubts[i].was, doubts[i].at, doubts[i].bytes) != 0) race(doubts[i].before, doubts[i].at, true, true, doubts[i].code);
}

static void look(Cell *c, const char *at, size_t bytes, bool write, bool in_shared, const Access &now)
{
    if (!ordered(c->write, now)) {
        if (!write || c->write.block != now.block) race(c->write, at, true, write, now.code);
        doubt(c->write, at, bytes, now.code);
    }
    if (write) {
        if (!readers_ordered(c, now)) race(c->read, at, false, true, now.code);
        c->write = now;
        return;
    }
    if (in_shared && c->write.run != now.run) {
        char line[256];
        sim_fault("reads shared memory that nobody in its block has written, at %s", line_of(now.code, line, sizeof line));
    }
    Access &r = c->read;
    if (r.run != now.run || (c->readers == ONE && ordered(r, now)) || readers_ordered(c, now)) {
        r = now;
        c->readers = ONE;
    } else {
        const Readers with = same_warp(r, now) ? OF_A_WARP : r.block == now.block ? OF_A_BLOCK : OF_BLOCKS;
        if (with > c->readers) c->readers = with;
    }
}

/* Accesses of the size's own alignment, as the compiler was told: a GPU has no others. */
static void check_aligned(const char *at, size_t size, bool write, void *from)
{
    char line[256];
    if (!sim_now.inside || (uintptr_t)at % size == 0) return;
    line_of((uint32_t)((const char *)from - image - 1), line, sizeof line);
    sim_fault("%s %zu bytes at %s, at an address that is no multiple of as many", write ? "writes" : "reads", size, line);
}

static void access(const char *at, size_t size, bool write, void *from)
{
    if (!sim_now.inside) return;
    if (n_doubts) sim_shadow_written();
    if (at >= sim_now.stacks && at < sim_now.stacks_end) return;
    const bool in_shared = at >= shared && at < shared_end;
    Access now = {in_shared ? sim_now.block_run : sim_now.launch, sim_now.block, sim_now.thread, sim_now.barriers, sim_now.syncs,
                  (uint32_t)((const char *)from - image - 1)};
    if (!in_shared && !buffer_of(at, size, write)) {
        const bool own = (at >= image && at < image_end) || at >= sim_now.frame;
        if (own && !write) return; /* a table of constants; the arguments, where the launch keeps them */
        outside(at, size, write, now.code);
    }
    const bool bytes = in_shared || size < 4 || (uintptr_t)at % 4;
    for (size_t i = 0; i < size; i += bytes ? 1 : 4) {
        Page *page = page_of((uintptr_t)at + i);
        Cell *cell = bytes ? cells(&page->bytes, PAGE) + ((uintptr_t)at + i) % PAGE
                           : cells(&page->words, PAGE / 4) + ((uintptr_t)at + i) % PAGE / 4;
        look(cell, at + i, bytes ? 1 : 4, write, in_shared, now);
    }
}

/* ---- what the compiler calls ---- */
extern "C" {
void __tsan_init()
{
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit()
{
}
void __tsan_vptr_update(void **, void *)
{
}
#define CALLED(name, size)                                                                                                         \
    void __tsan_read##name(void *at)                                                                                               \
    {                                                                                                                              \
        check_aligned((const char *)at, size, false, __builtin_return_address(0));                                                 \
        access((const char *)at, size, false, __builtin_return_address(0));                                                        \
    }                                                                                                                              \
    void __tsan_write##name(void *at)                                                                                              \
    {                                                                                                                              \
        check_aligned((const char *)at, size, true, __builtin_return_address(0));                                                  \
        access((const char *)at, size, true, __builtin_return_address(0));                                                         \
    }                                                                                                                              \
    void __tsan_unaligned_read##name(void *at)                                                                                     \
    {                                                                                                                              \
        access((const char *)at, size, false, __builtin_return_address(0));                                                        \
    }                                                                                                                              \
    void __tsan_unaligned_write##name(void *at)                                                                                    \
    {                                                                                                                              \
        access((const char *)at, size, true, __builtin_return_address(0));                                                         \
    }
CALLED(1, 1)
CALLED(2, 2)
CALLED(4, 4)
CALLED(8, 8)
CALLED(16, 16)
void __tsan_read_range(void *at, size_t size)
{
    access((const char *)at, size, false, __builtin_return_address(0));
}
void __tsan_write_range(void *at, size_t size)
{
    access((const char *)at, size, true, __builtin_return_address(0));
}
}
