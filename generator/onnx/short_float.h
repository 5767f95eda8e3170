/* Floats of eight bits and fewer: kept as float32, rounded where a Cast or a quantization makes them. */
#ifndef ONNX_SHORT_FLOAT_H
#define ONNX_SHORT_FLOAT_H
#include "onnx/import.h"

bool is_short_float(int onnx_type);
double short_float_number(OnnxType type, int code); /* what a code of the type stands for */
/* x rounded to the nearest number of the type, halves to even, as float32.  saturate: beyond the type's range the largest number,
 * otherwise infinity, or NaN in a type without it.  round_mode: of float8e8m0, powers of two alone: "up", "down" or "nearest". */
Value *short_float_rounded(Import *im, Value *x, int onnx_type, bool saturate, const char *round_mode);
#endif
