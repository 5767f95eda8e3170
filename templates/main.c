/* @MODEL@: the @PROGRAM@.  All it does stands in runtime/; all it knows of the model in controller.c and model.cu. */
#include "runtime/trainer/trainer.h"

int main(int argc, char **argv)
{
    return @PROGRAM@_main(&model, argc, argv);
}
