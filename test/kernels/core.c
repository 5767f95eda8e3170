/* Prints the name of the kernels that OpenBLAS has taken, in a program that links blas_host.cpp; see core.sh. */
#include <stdio.h>
char *openblas_get_corename(void);
int record(void) /* blas_host.cpp asks for it; nothing is launched here */
{
    return 0;
}
int main(void)
{
    return puts(openblas_get_corename()) < 0;
}
