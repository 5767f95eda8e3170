/* What a model finds in its data (how many: a late dim), found on the host: the other form of kernels that do so, for unfused.cu alone.  Results
 * are as theirs; what they read is copied here, what is found back.  Errors end up in s->error. */
#ifndef CONTROLLER_FOUND_H
#define CONTROLLER_FOUND_H
#include "step.h"
#include <stdlib.h>

/* Memory of the host's for n elements, and the first of them copied from the device where `from` is given. */
template <class T> class OnHost {
    T *const at;

  public:
    OnHost(Step *s, int64_t n, const T *from = NULL) : at((T *)malloc((size_t)(n > 0 ? n : 1) * sizeof(T)))
    {
        if (!at) note_error(s, DEVICE_OUT_OF_MEMORY);
        if (from) copy_bytes(s, at, from, n * (int64_t)sizeof(T), COPY_TO_HOST);
    }
    OnHost(const OnHost &) = delete;
    ~OnHost() { free(at); }
    T &operator[](int64_t i) { return at[i]; }
    void copy_to(Step *s, T *to, int64_t n) { copy_bytes(s, to, at, n * (int64_t)sizeof(T), COPY_FROM_HOST); }
};

template <class T> static inline bool is_found(T x)
{
    return x != T(0);
}
template <> inline bool is_found(half x)
{
    return float(x) != 0;
}
template <> inline bool is_found(bfloat16 x)
{
    return float(x) != 0;
}

/* Where x (dims..) is not 0, in row-major order: index (rank, count), written where it has that many at most. */
template <class T, class... D>
static inline void nonzero_on_host(Step *s, int64_t *index, int64_t *count, const T *x, int64_t most, D... dims)
{
    const int64_t size[] = {dims...};
    const int rank = sizeof...(dims);
    int64_t n = 1, all = 0, to = 0;
    for (int d = 0; d < rank; d++) n *= size[d];
    OnHost<T> from(s, n, x);
    for (int64_t i = 0; i < n && !s->error; i++) all += is_found(from[i]);
    OnHost<int64_t> places(s, all * rank);
    for (int64_t i = 0; i < n && !s->error; i++) {
        if (!is_found(from[i])) continue;
        int64_t rest = i;
        for (int d = rank - 1; d >= 0; d--) {
            places[d * all + to] = rest % size[d];
            rest /= size[d];
        }
        to++;
    }
    if (all <= most) places.copy_to(s, index, all * rank);
    copy_bytes(s, count, &all, sizeof all, COPY_FROM_HOST);
}

/* The different values of x (n), sorted or as they come; the first place of each, how often it is there; of each element its value's place. */
template <class T>
static inline void unique_on_host(Step *s, T *values, int64_t *first, int64_t *inverse, int64_t *counts, int64_t *count, const T *x, int64_t most,
                                  int64_t n, int64_t sorted)
{
    OnHost<T> from(s, n, x), found(s, n);
    OnHost<int64_t> same(s, n), begins(s, n), place(s, n), times(s, n);
    int64_t all = 0;
    for (int64_t i = 0; i < n && !s->error; i++) {
        same[i] = 0;
        while (same[i] < i && !(from[same[i]] == from[i])) same[i]++;
        all += same[i] == i;
    }
    for (int64_t i = 0; i < n && !s->error; i++) {
        if (same[i] != i) continue;
        int64_t to = 0, equal = 0;
        for (int64_t j = 0; j < n; j++) {
            to += same[j] == j && (sorted ? from[j] < from[i] : j < i);
            equal += same[j] == i;
        }
        place[i] = to;
        found[to] = from[i];
        begins[to] = i;
        times[to] = equal;
    }
    for (int64_t i = 0; i < n && !s->error; i++) place[i] = place[same[i]];
    const int64_t room = all <= most ? all : most;
    found.copy_to(s, values, room);
    begins.copy_to(s, first, room);
    times.copy_to(s, counts, room);
    place.copy_to(s, inverse, n);
    copy_bytes(s, count, &all, sizeof all, COPY_FROM_HOST);
}
#endif
