/* For a model.cu whose canaries are measured (canaries.sh puts it behind the file's own headers): each kernel `update…`, which looks whether
 * what an element becomes is finite, once more as one that trusts it, and launches that take the one or the other, timed.
 * Both forms stand in one program, so that all else is the same code at the same places. */
#ifndef CANARIES_H
#define CANARIES_H
#include "runtime/device/clock.h"
#include <type_traits>

extern "C" {
extern bool canaries_off;
extern double canaries_update_seconds; /* of the launches of updates, added up */
}

/* An Index as wide as a kernel's own, but another type: `trusts<Index>` tells the two forms apart. */
typedef std::conditional_t<std::is_same<int64_t, long>::value, long long, long> TrustingIndex;
template <class Index> constexpr bool trusts = std::is_same<Index, TrustingIndex>::value;

constexpr bool is_update(const char *kernel)
{
    const char *const name = "update";
    for (int i = 0; name[i]; i++)
        if (kernel[i] != name[i]) return false;
    return true;
}
template <bool update> using FormOf = std::conditional_t<update, TrustingIndex, int64_t>;

template <class Looks, class Trusts> struct UpdateInTurn {
    Looks looks;
    Trusts trusts;
    template <class... A> void operator()(A... a) const
    {
        const double start = seconds_now();
        if (canaries_off)
            trusts(a...);
        else
            looks(a...);
        canaries_update_seconds += seconds_now() - start;
    }
};
template <bool update, class Looks, class Trusts> auto in_either_form(Looks looks, Trusts trusts)
{
    if constexpr (update)
        return UpdateInTurn<Looks, Trusts>{looks, trusts};
    else
        return looks;
}

#undef LAUNCH
#define LAUNCH(s, kernel, work, threads)                                                                                           \
    in_either_form<is_update(#kernel)>(launch_of(s, kernel<int64_t>, #kernel, work, threads),                                      \
                                       launch_of(s, kernel<FormOf<is_update(#kernel)>>, #kernel, work, threads))
#endif
