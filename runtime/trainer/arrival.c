/* Reads an arrival.  The loops have no branches inside, so that the compiler vectorises them.  Needs and breaks nothing. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* -O2 would leave loops of unknown length unvectorised */
#endif
#include "arrival.h"
#include <string.h>

/* Lowest, highest and number of the elements that are not `ignore`. */
#define READ_INTEGERS(type)                                                                                                        \
    do {                                                                                                                           \
        const type *x = data;                                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                                          \
            int64_t v = (int64_t)x[i];                                                                                             \
            int64_t counts = !has_ignore | (v != ignore);                                                                          \
            int64_t low = counts ? v : INT64_MAX, high = counts ? v : INT64_MIN;                                                   \
            lowest = low < lowest ? low : lowest;                                                                                  \
            highest = high > highest ? high : highest;                                                                             \
            counted += counts;                                                                                                     \
        }                                                                                                                          \
    } while (0)

static void read_integers(const InputInfo *info, const void *data, int64_t n, Arrived *out)
{
    int64_t lowest = INT64_MAX, highest = INT64_MIN, counted = 0, ignore = info->ignore;
    bool has_ignore = info->has_ignore;
    switch (info->dtype) {
    case I8: READ_INTEGERS(int8_t); break;
    case I16: READ_INTEGERS(int16_t); break;
    case I32: READ_INTEGERS(int32_t); break;
    case I64: READ_INTEGERS(int64_t); break;
    case U16: READ_INTEGERS(uint16_t); break;
    case U32: READ_INTEGERS(uint32_t); break;
    case U64: READ_INTEGERS(uint64_t); break; /* above 2^63 reads as negative: such an index breaks its guard all the same */
    default: READ_INTEGERS(uint8_t); break;
    }
    out->counted = counted;
    out->lowest = counted ? lowest : 0;
    out->highest = counted ? highest : 0;
}

/* Not finite: all bits of the exponent are set, and one more at its low end carries into the sign's place.  Nothing but and, add and or: as fast
 * as the numbers come from memory on any processor. */
#define READ_FLOATS(type, exponent)                                                                                                \
    do {                                                                                                                           \
        const type *x = data, one = (type)((exponent) & (~(exponent) + 1));                                                        \
        type carried = 0;                                                                                                          \
        for (int64_t i = 0; i < n; i++) carried |= (type)((type)(x[i] & (exponent)) + one);                                        \
        not_finite = carried >> (8 * sizeof(type) - 1);                                                                            \
    } while (0)

bool floats_finite(int dtype, const void *data, int64_t n)
{
    bool not_finite;
    switch (dtype) {
    case F64: READ_FLOATS(uint64_t, UINT64_C(0x7ff0000000000000)); break;
    case F16: READ_FLOATS(uint16_t, 0x7c00); break;
    case BF16: READ_FLOATS(uint16_t, 0x7f80); break;
    default: READ_FLOATS(uint32_t, 0x7f800000u); break;
    }
    return !not_finite;
}

void arrival_read(const Model *m, const Batch *batch, Arrived *arrived)
{
    for (int i = 0; i < m->n_inputs; i++) {
        const BatchInput *input = &batch->inputs[i];
        memset(&arrived[i], 0, sizeof arrived[i]);
        if (!input->present) continue;
        arrived[i].rank = input->rank;
        memcpy(arrived[i].dims, input->dims, sizeof input->dims);
        if (input->dtype != (int)m->inputs[i].dtype) continue;
        int64_t n = count_of(input->rank, input->dims);
        if (dtype_is_float((int)m->inputs[i].dtype))
            arrived[i].not_finite = !floats_finite(input->dtype, input->data, n), arrived[i].counted = n;
        else
            read_integers(&m->inputs[i], input->data, n, &arrived[i]);
    }
}
