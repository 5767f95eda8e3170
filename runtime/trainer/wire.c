/* Protobuf's wire format.  Needs and breaks nothing. */
#include "wire.h"
#include <stddef.h>
#include "../controller/controller.h"

uint64_t read_varint(Bytes *b)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (b->at == b->end) break;
        unsigned char c = *b->at++;
        value |= (uint64_t)(c & 127) << shift;
        if (c < 128) return value;
    }
    b->broken = true;
    return 0;
}

static Bytes read_delimited(Bytes *b)
{
    uint64_t length = read_varint(b);
    if (b->broken || length > (uint64_t)(b->end - b->at)) {
        b->broken = true;
        return (Bytes){b->end, b->end, true};
    }
    Bytes part = {b->at, b->at + length, false};
    b->at += length;
    return part;
}

Bytes read_field(Bytes *b, int *field, int *wire)
{
    uint64_t key = read_varint(b);
    *field = (int)(key >> 3 & INT32_MAX);
    *wire = (int)(key & 7);
    const unsigned char *start = b->at;
    size_t fixed = *wire == FIXED_64 ? 8 : *wire == FIXED_32 ? 4 : 0;
    if (*wire == DELIMITED) return read_delimited(b);
    if (*wire == VARINT)
        read_varint(b);
    else if (fixed && (size_t)(b->end - b->at) >= fixed)
        b->at += fixed;
    else
        b->broken = true;
    return (Bytes){start, b->broken ? start : b->at, false};
}

int onnx_dtype(int64_t data_type)
{
    static const int dtypes[] = {-1, F32, U8, I8, U16, I16, I32, I64, -1, BOOL, F16, F64, U32, U64, -1, -1, BF16};
    return data_type >= 0 && data_type < (int64_t)(sizeof dtypes / sizeof *dtypes) ? dtypes[data_type] : -1;
}

int write_varint(unsigned char *to, uint64_t value)
{
    int n = 0;
    for (; value >= 128; value >>= 7) to[n++] = (unsigned char)(value | 128);
    to[n++] = (unsigned char)value;
    return n;
}
