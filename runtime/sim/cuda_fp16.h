/* Stands in for CUDA's header of this name: the processor's own half. */
#ifndef SIM_CUDA_FP16_H
#define SIM_CUDA_FP16_H
#include "../device/half.h"
typedef half __half;
#endif
