/* Stands in for CUDA's header of this name: the processor's own bfloat16. */
#ifndef SIM_CUDA_BF16_H
#define SIM_CUDA_BF16_H
#include "../device/half.h"
typedef bfloat16 __nv_bfloat16;
#endif
