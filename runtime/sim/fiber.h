/* Fibers: threads of a block on stacks of their own, one running at a time, switched by hand.
 *
 *     fiber_start(&fiber, stack, bytes, run);   the first switch to it calls run(), which never returns
 *     fiber_switch(&from, &to);                 keeps what runs now in from, goes on with to
 *
 * On x86-64 a switch is a dozen instructions; elsewhere ucontext does it, with a system call a switch. */
#ifndef SIM_FIBER_H
#define SIM_FIBER_H
#include <stddef.h>
#include <stdint.h>

#if defined __x86_64__
struct Fiber {
    void *stack;
};
extern "C" void fiber_exchange(void **from, void *to);
asm(R"(
.text
.globl fiber_exchange
.type fiber_exchange, @function
fiber_exchange:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size fiber_exchange, .-fiber_exchange
)");
static inline void fiber_start(Fiber *fiber, char *stack, size_t bytes, void (*run)())
{
    void **top = (void **)(((uintptr_t)stack + bytes) & ~(uintptr_t)15);
    *--top = NULL; /* where run() would return to; leaves the stack as a call does */
    *--top = (void *)run;
    for (int i = 0; i < 6; i++) *--top = NULL;
    fiber->stack = top;
}
static inline void fiber_switch(Fiber *from, const Fiber *to)
{
    fiber_exchange(&from->stack, to->stack);
}
#else
#include <ucontext.h>
struct Fiber {
    ucontext_t context;
};
static inline void fiber_start(Fiber *fiber, char *stack, size_t bytes, void (*run)())
{
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = stack;
    fiber->context.uc_stack.ss_size = bytes;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, run, 0);
}
static inline void fiber_switch(Fiber *from, const Fiber *to)
{
    swapcontext(&from->context, &to->context);
}
#endif
#endif
