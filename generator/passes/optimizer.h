/* What is known of an optimizer besides its update: names and defaults of its settings. */
#ifndef PASSES_OPTIMIZER_H
#define PASSES_OPTIMIZER_H

typedef struct OptimizerDefault {
    const char *name; /* of a hyper: "lr", "beta1" */
    double value;     /* PyTorch's default */
} OptimizerDefault;

void optimizer_check(const char *name); /* a name nobody knows is the user's error */
double optimizer_default(const char *optimizer,
                         const char *hyper_name); /* 0 for what the trainer derives: bias_correction1, one_minus_beta1… */
#endif
