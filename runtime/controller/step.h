/* What the text of a step uses besides launches: where things lie, the commit, and what the host must read while a step runs.
 * For model.cu alone; needs device.h.  Errors end up in s->error, the first one stays. */
#ifndef CONTROLLER_STEP_H
#define CONTROLLER_STEP_H
#include "../device/copies.h"
#include "../device/device.h"
#include <string.h>

/* A step is long, straight, and waits for its kernels: a compiler that works hard on it wastes its time. */
#if defined(VARIANT_DIMS)
#define STEP_FUNCTION
#elif defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define STEP_FUNCTION __attribute__((optimize("O0")))
#else
#define STEP_FUNCTION
#endif

/* Memory for what the operations of a unit that is taken apart hand each other (unfused.cu): one behind the other; of nothing it only
 * counts. */
struct Room {
    char *memory;
    int64_t taken = 0;
    template <class T> T *take(int64_t bytes)
    {
        const int64_t at = taken;
        taken += (bytes + 255) / 256 * 256;
        return memory ? (T *)(memory + at) : (T *)NULL;
    }
};

template <class T> static inline T *buffer(const Step *s, int b)
{
    return (T *)(s->arena + s->at[b]);
}

/* Where a unit of the step begins, and the one before has ended: its row is in the controller's table of units. */
static inline void unit(Step *s, int number)
{
    unit_ends(s);
    s->unit = number;
    s->nth_unit++;
    s->begun = s->ended = false;
}

/* Whether the plan gives up a buffer at this point, to be made again or copied back. */
static inline bool evicted(const Step *s, int point)
{
    return s->recompute && s->recompute->acts[point];
}
static inline void note_error(Step *s, int error)
{
    if (!s->error) s->error = error;
}

/* What a plan offloads: copied to the host while launches go on, its memory given up, copied back to another place. */
static inline bool offloaded(const Step *s, int point)
{
    return s->copies && s->recompute && s->recompute->acts[point] == POINT_OFFLOADS;
}
static inline void copy_out(Step *s, int point, const void *from)
{
    const Recompute *r = s->recompute;
    unit_ends(s);
    if (!s->error) note_error(s, copies_out(s->copies, point, from, r->host_at[point], r->copied[point]));
}
static inline void copied_out(Step *s, int point)
{
    if (!s->error) note_error(s, copies_out_done(s->copies, point));
}
/* The points of a plan, as a step says them.  offload: the buffer's last use before a gap is near, its copy to the host begins.
 * evict: from here to the next use its memory may serve others.  fetch: its copy back begins.  regenerate: it is there again, copied or
 * made anew by the units that its plan names, and lies somewhere else.  Each does nothing where the plan leaves the buffer alone. */
static inline void offload(Step *s, int point, const void *from)
{
    if (offloaded(s, point)) copy_out(s, point, from);
}
static inline void evict(Step *s, int point)
{
    if (offloaded(s, point)) copied_out(s, point);
}
template <class T> static inline void fetch(Step *s, int point, T *&pointer, int b)
{
    if (!offloaded(s, point)) return;
    const Recompute *r = s->recompute;
    unit_ends(s);
    s->at[b] = r->back_at[point];
    pointer = buffer<T>(s, b);
    if (!s->error) note_error(s, copies_back(s->copies, pointer, r->host_at[point], r->copied[point]));
}

template <class T> static inline void regenerate(Step *s, int point, T *&pointer, int b)
{
    if (!evicted(s, point)) return;
    const Recompute *r = s->recompute;
    const int now = s->unit;
    note_error(s, s->copies ? copies_back_done(s->copies) : 0);
    for (int i = r->first[point]; i < r->first[point + 1]; i++) {
        const Action a = r->actions[i];
        if (a.unit >= 0) {
            unit(s, a.unit);
            s->program->replay(s, a.unit);
        } else {
            unit_ends(s); /* before anything that it touches lies elsewhere */
            record_move(s, a.buffer, a.at);
        }
    }
    pointer = buffer<T>(s, b);
    unit(s, now);
}

/* Copies, in order with the launches.  To and from the host they wait until the bytes are there. */
enum CopyKind { COPY_DEVICE, COPY_TO_HOST, COPY_FROM_HOST };
static inline void copy_bytes(Step *s, void *to, const void *from, int64_t bytes, CopyKind kind)
{
    if (s->error || bytes <= 0) return;
    if (kind == COPY_DEVICE) {
        device_copy(s, to, from, bytes);
        return;
    }
    record_pause(s);
    if (s->error) return;
#ifdef __CUDACC__
    const cudaStream_t stream = (cudaStream_t)s->stream;
    const cudaMemcpyKind way = kind == COPY_TO_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    const bool right = cudaMemcpyAsync(to, from, (size_t)bytes, way, stream) == cudaSuccess;
    if (cudaStreamSynchronize(stream) != cudaSuccess || !right) s->error = DEVICE_COPY_FAILED;
#else
    memmove(to, from, (size_t)bytes);
#endif
}
static inline void copy_tensor(Step *s, void *to, const void *from, int64_t bytes)
{
    if (bytes > 0 && unit_runs(s)) copy_bytes(s, to, from, bytes, COPY_DEVICE);
}

/* A sum over blocks of rows: the first block's part, then each later one's added. */
template <class T> __global__ void add_part_kernel(T *sum, const T *part, int64_t n, bool later)
{
    FOR_EACH(i, n) sum[i] = later ? T(sum[i] + part[i]) : part[i];
}
template <class T> static inline void add_part(Step *s, T *sum, const T *part, int64_t n, bool later)
{
    LAUNCH_PLAIN(s, add_part_kernel<T>, elements(n), 256)(sum, part, n, later);
}

/* What is assigned only where it is finite: raises the flag of a weight whose elements kept what they had. */
template <class = void> __global__ void tell_kept_kernel(bool *kept, const bool *finite, int64_t n)
{
    int refused = 0;
    REDUCES(|, refused)
    FOR_ELEMENTS (i, n) refused |= !finite[i];
    if (refused) raise_flag(kept);
}
static inline void tell_kept(Step *s, bool *kept, const bool *finite, int64_t n)
{
    LAUNCH_PLAIN(s, tell_kept_kernel<>, elements(n), 256)(kept, finite, n);
}

template <class T> static inline T read_one(Step *s, const T *from)
{
    T value = T();
    copy_bytes(s, &value, from, sizeof value, COPY_TO_HOST);
    return value;
}
static inline int64_t read_count(Step *s, const int64_t *count) /* what the unit has found; 0 after an error */
{
    unit_ends(s);
    return s->error ? 0 : read_one(s, count);
}
/* A late dim is known from now on.  0 after an error.  learn_within: in the midst of a unit. */
static inline int64_t learn_within(Step *s, int64_t *late, const int64_t *count)
{
    const int64_t n = *late = s->error ? 0 : read_one(s, count);
    if (s->plan_again && !s->error) s->plan_again(s, (int)(late - s->late));
    return n;
}
static inline int64_t learn(Step *s, int64_t *late, const int64_t *count)
{
    unit_ends(s);
    return learn_within(s, late, count);
}
/* What a guard says of a late dim that is now known; false after an error, too. */
static inline bool holds(Step *s, bool condition, const char *guard)
{
    if (s->error) return false;
    if (condition) return true;
    s->broken = guard;
    s->error = STEP_BROKEN;
    return false;
}
static inline bool read_flag(Step *s, const bool *flag) /* false after an error */
{
    return !s->error && read_one(s, flag);
}
static inline void write_int(Step *s, int64_t *to, int64_t value)
{
    copy_bytes(s, to, &value, sizeof value, COPY_FROM_HOST);
}

/* The commit point: 0 where the loss is finite and nothing failed; otherwise the step ends, and no weight has changed. */
template <class T> static inline int commit(Step *s, const T *loss)
{
    const T value = read_one(s, loss);
    if (s->error) return s->error;
    s->loss = (double)(float)value;
    if (sizeof(T) == 8) s->loss = (double)value;
    return isfinite(s->loss) ? 0 : STEP_NOT_FINITE;
}

/* 0 where the largest gradient is finite; otherwise the step ends, and no weight has changed. */
template <class T> static inline int gradients_finite(Step *s, const T *largest)
{
    const T value = read_one(s, largest);
    if (s->error) return s->error;
    return isfinite((double)(float)value) ? 0 : STEP_OVERFLOW;
}

/* Where the trainer wants the gradient of a weight, it is given to it as soon as it is complete. */
static inline void save_gradient(Step *s, int w, const void *gradient, int64_t bytes)
{
    if (!s->gradients || !s->gradients[w]) return;
    unit_ends(s);
    copy_bytes(s, s->gradients[w], gradient, bytes, COPY_TO_HOST);
}
#endif
