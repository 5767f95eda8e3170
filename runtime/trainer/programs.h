/* What trainer_main and runner_main are made of. */
#ifndef PROGRAMS_H
#define PROGRAMS_H
#include "data.h"
#include "options.h"
#include "session.h"

int train_program(const Model *m, const Options *options, const char *folder,
                  Fault *fault); /* folder: where weights.safetensors lies */
int evaluate_program(const Model *m, const Options *options, const char *folder, Fault *fault);
/* Gradients of the first batch against differences; a gradient that is off is a fault of the program. */
int check_gradients_program(const Model *m, const Options *options, const char *folder, Fault *fault);
int plan_program(const Model *m, const Options *options, const char *folder, Fault *fault);
int run_program_once(const Model *m, const Options *options, const char *folder, Fault *fault);

/* Weights from --load-weights, else weights.safetensors in the folder, else by the model's rules. */
int load_initial_weights(Session *session, const Options *options, const char *folder, Fault *fault);
/* --offload, by default where the device has memory of its own. */
bool may_offload(const Options *options);
/* Where the device cannot do what the program's precision asks for, says what it does instead. */
void tell_precision(const Session *session);
/* Dims of batch `number`, and whether it would pass the guards that see shapes alone. */
bool shapes_pass(const Session *session, const Data *data, int64_t number, Arrived *arrived, int64_t *dims);
/* Under a memory limit: plans every shape that batches 0 to n - 1 will have; the largest must fit before anything runs. */
int check_budget(Session *session, const Program *program, const Data *data, int64_t first, int64_t n, Fault *fault);
/* Says on standard error what happened to the budget as a step was planned, if anything did. */
void tell_budget(const Session *session, const char *what, int64_t number, const StepResult *result);
/* The fault of a batch that contradicts the model. */
int anomaly_fault(int64_t batch, const Breach *breach, Fault *fault);
/* Before hours of work: a file of that name can be made.  path NULL: none is asked for. */
int check_writable(const char *option, const char *path, Fault *fault);
/* No file that a run writes is one that it reads, or writes besides; only weights may be trained further in their place. */
int check_apart(const Options *o, Fault *fault);
/* Makes the folder that an option names, where it is missing; it can be written to. */
int make_folder(const char *option, const char *folder, Fault *fault);
/* Too many set aside: judged from the hundredth batch on, and at the end. */
bool too_many_skipped(const Options *options, int64_t skipped, int64_t seen, bool end);
#endif
