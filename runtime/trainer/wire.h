/* Protobuf's wire format, as far as ONNX needs it: a message is a row of fields, each a key (number and wire type) and a value; bytes, texts and
 * messages have their length before them.  Nothing is read past the end. */
#ifndef WIRE_H
#define WIRE_H
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    const unsigned char *at, *end;
    bool broken;
} Bytes;
enum { VARINT = 0, FIXED_64 = 1, DELIMITED = 2, FIXED_32 = 5 }; /* wire types */
enum {
    DIMS = 1,
    DATA_TYPE = 2,
    FLOAT_DATA = 4,
    INT32_DATA = 5,
    INT64_DATA = 7,
    RAW_DATA = 9,
    DOUBLE_DATA = 10,
    UINT64_DATA = 11,
    EXTERNAL_DATA = 13,
    LOCATION = 14
}; /* fields of a TensorProto */

uint64_t read_varint(Bytes *b);
/* The next field's content; numbers as raw bytes of a one-element list, so that packed and unpacked read alike. */
Bytes read_field(Bytes *b, int *field, int *wire);
int onnx_dtype(int64_t data_type); /* of a TensorProto; -1: none that the runtime knows */

enum { VARINT_MOST = 10 };
int write_varint(unsigned char *to, uint64_t value); /* bytes written, at most VARINT_MOST */
#endif
