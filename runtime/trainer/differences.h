/* One element of a gradient against differences of the loss.  Needs mathematics alone: the trainer's --check-gradients and the
 * tests share it.
 *
 * Numeric: central differences over h and h / 2, extrapolated (Richardson), so that the error falls with h^4; once more with
 * smaller h where the loss bends too much for the first.  Where none agrees, one-sided differences tell why: at a kink (ReLU at 0,
 * a tie of max) or a jump they stay apart however small h gets, and any slope between the two is a right gradient there. */
#ifndef DIFFERENCES_H
#define DIFFERENCES_H

typedef enum {
    DIFFERENCE_AGREES,
    DIFFERENCE_ROUNDING, /* the same as far as the loss has digits to tell; those are too few for the tolerance */
    DIFFERENCE_KINK,     /* at a kink, a jump, or the edge of where the loss is finite; the gradient lies between the slopes */
    DIFFERENCE_WRONG
} Verdict;

typedef struct {
    double epsilon;   /* of the loss's type: 2^-52, 2^-23 */
    double step;      /* the first h, as a share of the element's scale */
    int levels;       /* how many h, each an eighth of the one before */
    double tolerance; /* relative to the larger of gradient and numeric */
} Precision;
extern const Precision precision_double, precision_float; /* tolerances 1e-6, 2e-2 */

/* The loss with the element at x; 0, or a status that ends the search. */
typedef int LossAt(void *context, double x, double *loss);

typedef struct {
    double x, scale;   /* scale: what h is a share of, if it is larger than |x| */
    double loss;       /* at x */
    double analytic;   /* what is judged */
    double least_size; /* errors are relative to this where both gradients are smaller */
} Element;
typedef struct {
    Verdict verdict;
    double numeric, error; /* error: relative; of the h that agrees best */
} Difference;

/* 0, or the status of `at`. */
int difference_judge(const Element *element, const Precision *precision, LossAt *at, void *context, Difference *difference);
#endif
