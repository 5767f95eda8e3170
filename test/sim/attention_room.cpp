/* Blocks of attention on CUDA lie in shared memory, whatever the size of heads that passes/recognise.c lets through: 1 KB. */
#include "../kernels/alone.h"
#include "device/attention.h"

template <class T, int D, int E> constexpr bool has_room()
{
    return sizeof(AttentionForward<T, D, E, true>) <= SHARED_BYTES && sizeof(AttentionGradient<T, D, E, false>) <= SHARED_BYTES &&
           sizeof(AttentionGradient<T, D, E, true>) <= SHARED_BYTES;
}
template <class T, int... D> constexpr bool all_have_room(std::integer_sequence<int, D...>)
{
    constexpr int MOST = sizeof...(D);
    return (has_room<T, D + 1, D + 1>() && ...) && (has_room<T, D + 1, MOST>() && ...) && (has_room<T, MOST, D + 1>() && ...);
}
static_assert(all_have_room<float>(std::make_integer_sequence<int, 256>()), "floats");
static_assert(all_have_room<double>(std::make_integer_sequence<int, 128>()), "doubles");
