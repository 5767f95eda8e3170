/* The passes, in the order in which main.c runs them (fold and simplify run once more, after decompose).  Each takes what the one before
 * left, and leaves a graph that verifies.  A pass never reaches into another: they meet in the IR. */
#ifndef PASSES_H
#define PASSES_H
#include "ir/ir.h"
#include "ir/build.h"
#include "onnx/model.h"

/* What the user chose; filled by options.c. */
typedef struct Options {
    const char *model, *out;            /* MODEL.onnx, DIR */
    const char *loss;                   /* NULL: guess */
    const char *optimizer;              /* "adamw" */
    const char *train, *freeze;         /* POSIX extended expressions or NULL */
    const char *trainable_file;         /* NULL, or a table as DIR/trainable.txt has it */
    VEC(const char *) tie, untie, dims, name_dims; /* as given, one entry an option */
    const char *init;                   /* rule for weights whose data is missing, or NULL */
    const char *precision;              /* "fp32", "tf32", "bf16", "fp16", "fp64" */
    const char *dump;                   /* a pass's name or NULL */
    int batch_norm;                     /* onnx/import.h */
    bool inference, no_fuse, no_schedule, no_report;
} Options;

/* The loss that was asked for or guessed. */
typedef struct LossInfo {
    const char *kind;                   /* "cross_entropy", "mse", … or "model" where an output is the loss */
    const char *text;                   /* as the user would write it: cross_entropy(logits, axis=1) */
    const char *output;                 /* the output it looks at */
    Value *target;                      /* batch input, NULL for "model" */
    int axis;                           /* of classes */
    bool classifies;                    /* evaluation counts right answers */
    bool guessed; const char *why, *alternatives; /* for the user, when guessed */
} LossInfo;

/* dims      Facts about symbols from --dim and --name-dim; unnamed dims get names INPUT.AXIS; declared output dims are held against the
 *           derived ones.  Run on the model before import. */
void pass_dims(Symbols *symbols, OnnxModel *model, const Options *options, Arena *arena);

/* trainable Decides what trains, by role then by name; separates tensors that an exporter merged and ties those it split, by rewriting the model's
 *           nodes; fills tensors (name -> Tensor), which the importer uses.  Tells the user what it did.  Returns the table (DIR/trainable.txt).
 *           Runs on the model, before import: roles are clearest while operators are whole. */
const char *pass_trainable(OnnxModel *model, const Options *options, Arena *arena, Map *tensors);

/* precision Every float becomes a double (fp64).  Needs: the imported graph. */
void pass_precision(Graph *g, const Options *options);

/* loss      Adds the target input and the loss; outputs become [loss] for training, [loss, correct, counted, OUT…] for evaluation
 *           (correct and counted are i64 (); correct only where the loss classifies).  A final Softmax or Sigmoid is moved into the loss. */
LossInfo pass_loss(Graph *g, const Options *options, bool training);

/* fold      Operations on constants are computed; identities vanish; frozen small tensors become constants.  Nothing downstream of a trained
 *           weight is touched.  Needs: trainable.  Breaks: nothing. */
void pass_fold(Graph *g);

/* simplify  Common subexpressions, views of views, dead code.  Needs: nothing. */
void pass_simplify(Graph *g);

/* recognise Attention that an exporter wrote out, or an importer made, becomes one operation; report, which may be NULL, is told what was found, and
 *           of what looked like it why it was left.  Needs: simplified graph.  Breaks: nothing. */
void pass_recognise(Graph *g, Buf *report);

/* short     bf16 and fp16: dots and convolutions of trained weights and of what is made with them take and give the short type.  Needs: loss.
 *           pass_short_gradients runs right after gradient, so that gradients of weights are not rounded. */
void pass_short_products(Graph *g, const Options *options);
void pass_short_gradients(Graph *g, Value **gradients); /* may replace gradients */

/* scale     fp16: the first output becomes the loss times the hyper "loss_scale", for pass_gradient; returns the loss, which is to stand there
 *           again afterwards.  The optimizer divides gradients by that number. */
Value *pass_scale_loss(Graph *g, const Options *options);
bool loss_is_scaled(const Options *options);
/* No assign of the step is done where one of n gradients (some NULL) is not finite.  Needs: a commit. */
void loss_scale_check(Graph *g, Value *const *gradients, int n);

/* gradient  Appends the backward pass; returns for each weight input its gradient (NULL where it does not train or is not reached), indexed as g->inputs.
 *           Composites use their own rules.  Needs: trainable, loss as outputs[0].  Breaks: nothing. */
Value **pass_gradient(Graph *g);

/* optimizer Adds states, hypers, commit and assigns: PyTorch's definitions.  gradients as pass_gradient returns them; they become extra outputs named
 *           "gradient:NAME" so that the trainer can save them. */
void pass_optimizer(Graph *g, Value *const *gradients, const Options *options);

/* decompose Composites into primitives, but for attention, which has kernels of its own.  Needs: gradient. */
void pass_decompose(Graph *g);
/* Attention into primitives too: for an unfused program, and for units taken apart.  Needs: gradient. */
void pass_decompose_attention(Graph *g);

/* algebra   What the rules of gradients leave is written as a person would: a sum of complementary choices is one choice, a sum of what zeros surround a
 *           concat, a sum of what is centered 0.  Needs: simplified primitives.  Breaks: equal operations may stand twice until simplify.
 * conditions  What a condition chooses is computed as if the condition held.  Needs: primitives, after gradient. */
void pass_algebra(Graph *g);
void pass_conditions(Graph *g);

/* sink      What only updates need (running statistics) stands after the commit.  Needs: primitives. */
void pass_sink(Graph *g);

/* lay out   Results of attention lie as their transposes want them.  Needs: simplified graph, which must not be simplified again. */
void pass_lay_out(Graph *g);

/* accumulate  Sums of products are added up in place.  Needs: simplified graph. */
void pass_accumulate(Graph *g);

/* row_blocks  What is wide and row-wise (logits over a vocabulary, their loss and gradient) is computed over blocks of rows.  lean: products are
 *           done again where that lets more run so (MLPs); returns how many.  report, which may be NULL, is told of each candidate.
 *           Needs: simplified graph. */
int pass_row_blocks(Graph *g, bool lean, Buf *report);

/* stash     Chooses what is kept for the backward pass, by a minimum cut; what is not kept is remade there.  report, which may be NULL, is told
 *           what is kept, its bytes, and why.  Needs: simplified graph with a commit.  Breaks: equal operations stand twice, so simplify must
 *           not follow. */
void pass_stash(Graph *g, Buf *report);

/* When all programs are made: what --dim expects against what the model itself allows. */
void pass_dims_check(Symbols *symbols);
#endif
