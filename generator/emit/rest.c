/* Kinds of groups that have no kernel yet end with an internal fault. */
#include "emit/kernel.h"
#define NONE(class_)                                                                                                               \
    void emit_##class_(Emission *e)                                                                                                \
    {                                                                                                                              \
        bug("%s has no kernel", op_info(main_op(e->group)->kind)->name);                                                           \
    }
NONE(conv) NONE(pool)
