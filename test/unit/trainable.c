/* Merged and split tensors, what the user says about them, and what is said to the user. */
#include "passes/roles.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "roles_of.h"

/* ---- merged and split ---- */
#define MERGED                                                                                                                     \
    LINEAR "w n1.weight 4 =1\nw b 4 =0\nLayerNormalization /n1: h n1.weight b -> i\nIdentity id: n1.weight -> n2.weight\n"         \
           "LayerNormalization /n2: i n2.weight b -> j\nAdd /add: j b -> k\nout k\n"
static const char merged_table[] = "train w weight of \"m\" (MatMul)\n"
                                   "train n1.weight#/n1 gain of \"/n1\" (LayerNormalization)\n"
                                   "train n1.weight#/n2 gain of \"/n2\" (LayerNormalization)\n"
                                   "train b#/n1 bias of \"/n1\" (LayerNormalization)\n"
                                   "train b#/n2 bias of \"/n2\" (LayerNormalization)\n"
                                   "train b#/add bias of \"/add\" (Add)\n";

static void merged_tensors_are_separated(void **state)
{
    (void)state;
    wants(MERGED, merged_table);
    const OnnxGraph *g = last_model->graph;
    assert_string_equal(g->nodes[1]->inputs[1], "n1.weight#/n1");
    assert_string_equal(g->nodes[3]->inputs[1], "n1.weight#/n2");
    assert_string_equal(g->nodes[4]->inputs[1], "b#/add");
    assert_non_null(graph_initializer(g, "b#/n2"));
    says((Options){0}, MERGED, 0,
         "disc-gen: note: \"n1.weight\" holds one value and is used in 2 places, as exporters merge equal tensors of fresh models: "
         "separated into \"n1.weight#/n1\", \"n1.weight#/n2\" (--tie \"n1.weight\" keeps it one)\n"
         "disc-gen: note: \"b\" holds one value and is used in 3 places, as exporters merge equal tensors of fresh models: "
         "separated into "
         "\"b#/n1\", \"b#/n2\", \"b#/add\" (--tie \"b\" keeps it one)\n");
}

static Options with_tie(const char *entry)
{
    Options o = {0};
    vec_push(arena, &o.tie, entry);
    return o;
}
static Options with_untie(const char *entry)
{
    Options o = {0};
    vec_push(arena, &o.untie, entry);
    return o;
}

static void tie_keeps_a_merged_tensor(void **state)
{
    (void)state;
    Options o = with_tie("b");
    vec_push(arena, &o.tie, "n1.weight");
    wants_with(o, MERGED,
               "train w weight of \"m\" (MatMul)\n"
               "train n1.weight gain of \"/n1\" (LayerNormalization)\n"
               "train b bias of \"/n1\" (LayerNormalization)\n");
}

/* What does not train keeps the name: a filler, and the gain that was merged with it. */
static void rest_of_a_merged_tensor(void **state)
{
    (void)state;
    wants(LINEAR "w one 4 =1\nLayerNormalization n: h one -> i\nWhere q: c i one -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\n"
          "frozen one constant of \"q\" (Where)\n"
          "train one#n gain of \"n\" (LayerNormalization)\n");
    says((Options){0}, LINEAR "w one 4 =1\nLayerNormalization n: h one -> i\nWhere q: c i one -> y\nout y\n", 0,
         "disc-gen: note: \"one\" holds one value and trains in one of the places that use it: there it is \"one#n\" (--tie "
         "\"one\" keeps "
         "it one)\n");
}

static void separated_inside_a_branch(void **state)
{
    (void)state;
    wants("in x f32 batch,4\nin c bool 1\nw w 4,4 random\nw b 4 =0\nMatMul m: x w -> h\nAdd a: h b -> i\n"
          "if i: c -> y\nthen\nAdd p: i b -> p1\nelse\nRelu q: i -> q1\nend\nout y\n",
          "train w weight of \"m\" (MatMul)\n"
          "train b#a bias of \"a\" (Add)\n"
          "train b#p bias of \"p\" (Add)\n");
    const OnnxGraph *branch = attr_graph(last_model->graph->nodes[2], "then_branch");
    assert_string_equal(branch->nodes[0]->inputs[1], "b#p");
    assert_int_equal(branch->n_captures, 1);
    assert_string_equal(branch->captures[0].name, "b#p");
}

#define SPLIT_HEAD                                                                                                                 \
    "in ids i64 batch,seq\nw emb.weight 6,4 random\nw onnx::MatMul_27 4,6 turned=emb.weight\nGather g: emb.weight ids -> h\n"      \
    "MatMul m: h onnx::MatMul_27 -> y\nw bias 6 random\nAdd a: y bias -> z\nout z\n"
static void split_head_is_tied(void **state)
{
    (void)state;
    wants(SPLIT_HEAD, "train emb.weight table of embeddings of \"g\" (Gather)\ntrain bias bias of \"a\" (Add)\n");
    const OnnxGraph *g = last_model->graph;
    assert_string_equal(g->nodes[0]->op_type, "Transpose");
    assert_string_equal(g->nodes[0]->inputs[0], "emb.weight");
    assert_string_equal(g->nodes[2]->inputs[1], g->nodes[0]->outputs[0]);
    says((Options){0}, SPLIT_HEAD, 0,
         "disc-gen: note: \"onnx::MatMul_27\" equals \"emb.weight\" transposed: tied, trained as one (--untie \"onnx::MatMul_27\" "
         "keeps "
         "them apart)\n");
    wants_with(with_untie("onnx::MatMul_27"), SPLIT_HEAD,
               "train emb.weight table of embeddings of \"g\" (Gather)\ntrain onnx::MatMul_27 weight of \"m\" (MatMul)\n"
               "train bias bias of \"a\" (Add)\n");
    /* The name of what was tied still counts. */
    wants_with((Options){.freeze = "MatMul_27"}, SPLIT_HEAD,
               "frozen emb.weight --freeze (table of embeddings of \"g\" (Gather))\ntrain bias bias of \"a\" (Add)\n");
}

#define COPIES                                                                                                                     \
    "in x f32 batch,4\nw l.0.weight 4,4 random\nw l.1.weight 4,4 like=l.0.weight\nMatMul a: x l.0.weight -> h\nMatMul b: h "       \
    "l.1.weight -> y\nout y\n"
static void copies_of_a_layer_stay_apart(void **state)
{
    (void)state;
    says((Options){0}, COPIES, 0,
         "disc-gen: note: \"l.1.weight\" equals \"l.0.weight\", as copies of a layer do before training: trained apart (--tie "
         "\"l.0.weight=l.1.weight\" makes them one)\n");
    wants_with(with_tie("l.0.weight=l.1.weight"), COPIES, "train l.0.weight weight of \"a\" (MatMul)\n");
    assert_string_equal(last_model->graph->nodes[1]->inputs[1], "l.0.weight");
}

/* PyTorch's metadata tells copies from one parameter used twice, whatever the made-up names. */
static void metadata_tells_copies(void **state)
{
    (void)state;
#define TWICE(p, q)                                                                                                                \
    "in x f32 batch,4\nw val_2 4,4 random\nw val_4 4,4 like=val_2\nMatMul a: x val_2 -> h\nmeta pkg.torch.onnx.fx_node=%linear : " \
    "[x] = "                                                                                                                       \
    "f(args = (%x, %" p "))\nMatMul b: h val_4 -> y\nmeta pkg.torch.onnx.fx_node=%linear_1 : f(args = (%h, %" q "))\nout y\n"
    wants(TWICE("p_l_0_weight", "p_l_1_weight"), "train val_2 weight of \"a\" (MatMul), in PyTorch l_0_weight\ntrain val_4 weight "
                                                 "of \"b\" (MatMul), in PyTorch l_1_weight\n");
    wants(TWICE("p_l_weight", "p_l_weight"), "train val_2 weight of \"a\" (MatMul), in PyTorch l_weight\n");
    /* A decoder that reuses the encoder's weight, transposed by the exporter: of its operands only the bias is a parameter. */
    wants("in x f32 batch,4\nw w.weight 4,3 random\nw t 3,4 turned=w.weight\nw b 4 random\nMatMul a: x w.weight -> h\n"
          "meta pkg.torch.onnx.fx_node=%linear : f(args = (%x, %p_w_weight))\nGemm c: h t b -> y\n"
          "meta pkg.torch.onnx.fx_node=%linear_1 : f(args = (%linear, %t, %p_b))\nout y\n",
          "train w.weight weight of \"a\" (MatMul)\ntrain b bias of \"c\" (Gemm)\n");
}

static void tie_errors(void **state)
{
    (void)state;
    says(with_tie("l.0.wieght"), COPIES, 2,
         "disc-gen: error: --tie: the model has no float tensor \"l.0.wieght\"; near are \"l.0.weight\", \"l.1.weight\"\n");
    says(with_tie("w=b"), MERGED, 2,
         "disc-gen: error: --tie w=b: the two differ in shape or type; wanted equal shapes, or one the transposed of the other\n");
    says(with_untie("zzz"), MERGED, 2, "disc-gen: error: --untie: the model has no float tensor \"zzz\"\n");
}

/* ---- --train, --freeze ---- */
static void patterns(void **state)
{
    (void)state;
    wants_with((Options){.train = "^n1", .freeze = "n2$"}, MERGED,
               "frozen w not among --train\n"
               "train n1.weight#/n1 --train (gain of \"/n1\" (LayerNormalization))\n"
               "frozen n1.weight#/n2 --freeze (--train (gain of \"/n2\" (LayerNormalization)))\n"
               "frozen b#/n1 not among --train\n"
               "frozen b#/n2 not among --train\n"
               "frozen b#/add not among --train\n");
    wants_with((Options){.freeze = "^b$"}, MERGED,
               "train w weight of \"m\" (MatMul)\n"
               "train n1.weight#/n1 gain of \"/n1\" (LayerNormalization)\n"
               "train n1.weight#/n2 gain of \"/n2\" (LayerNormalization)\n"
               "frozen b#/n1 --freeze (bias of \"/n1\" (LayerNormalization))\n"
               "frozen b#/n2 --freeze (bias of \"/n2\" (LayerNormalization))\n"
               "frozen b#/add --freeze (bias of \"/add\" (Add))\n");
    says((Options){.train = "l.0.wieght"}, COPIES, 2,
         "disc-gen: note: \"l.1.weight\" equals \"l.0.weight\", as copies of a layer do before training: trained apart (--tie "
         "\"l.0.weight=l.1.weight\" makes them one)\n"
         "disc-gen: error: --train: \"l.0.wieght\" matches no float tensor of the model; near are \"l.0.weight\", \"l.1.weight\"; "
         "the table "
         "that disc-gen prints has all their names\n");
    says((Options){.freeze = "a("}, LINEAR "out h\n", 2,
         "disc-gen: error: --freeze: \"a(\" is no POSIX extended expression: Unmatched ( or \\(\n");
    says((Options){.train = "mean"},
         "in x f32 batch,4\nw g 4 =1\nw b 4 =0\nw mean 4 random\nw var 4 random\nBatchNormalization n: x g b mean var -> y "
         "training_mode=1\n",
         2, "disc-gen: error: --train: \"mean\" is a running statistic, which has no gradient\n");
}

static void nothing_trains(void **state)
{
    (void)state;
    says((Options){0}, "in x f32 batch,4\nw c 4 random\nAdd a: x c -> y\nout y\n", 2,
         "disc-gen: error: nothing trains: of the model's 1 float tensors none is the weight of an operation on data; --train "
         "REGEX trains "
         "what it matches, --inference makes a program that only runs the model; for example, \"c\" is: \"a\" (Add) joins it with "
         "raw data\n");
    wants_with((Options){.train = "c"}, "in x f32 batch,4\nw c 4 random\nAdd a: x c -> y\nout y\n",
               "train c --train (\"a\" (Add) joins it with raw data)\n");
    says((Options){.inference = true}, MERGED, 0, "");
}

/* ---- --trainable ---- */
static const char *file_of(const char *text)
{
    char *path = arena_text(arena, "/tmp/trainable_XXXXXX");
    const int f = mkstemp(path);
    assert_true(f >= 0);
    assert_int_equal(write(f, text, strlen(text)), (ssize_t)strlen(text));
    close(f);
    return path;
}

/* A table that is printed and given back says the same; edited, what was edited. */
static void table_round_trip(void **state)
{
    (void)state;
    const Options none = {0};
    Options o = {.trainable_file = file_of(run(MERGED, &none))};
    wants_with(o, MERGED, merged_table);
    Options tied = with_tie("b");
    vec_push(arena, &tied.tie, "n1.weight");
    const char *kept = run(MERGED, &tied);
    o.trainable_file = file_of(kept);
    wants_with(o, MERGED, short_table(kept));
    Options apart = with_untie("onnx::MatMul_27");
    const char *untied = run(SPLIT_HEAD, &apart);
    o.trainable_file = file_of(untied);
    wants_with(o, SPLIT_HEAD, short_table(untied));
    o.trainable_file = file_of("# mine\n\nfrozen \"w\"\n  frozen \"b#/n2\"   f32[4]  because\n");
    wants_with(o, MERGED,
               "frozen w --trainable (weight of \"m\" (MatMul))\n"
               "train n1.weight#/n1 gain of \"/n1\" (LayerNormalization)\n"
               "train n1.weight#/n2 gain of \"/n2\" (LayerNormalization)\n"
               "train b#/n1 bias of \"/n1\" (LayerNormalization)\n"
               "frozen b#/n2 --trainable (bias of \"/n2\" (LayerNormalization))\n"
               "train b#/add bias of \"/add\" (Add)\n");
}

static void table_errors(void **state)
{
    (void)state;
    const char *path = file_of("trian \"w\"\ntrain w\n");
    says((Options){.trainable_file = path}, COPIES, 2,
         arena_text(arena,
                    "disc-gen: error: %s:1: wanted: train \"NAME\" or frozen \"NAME\"\n"
                    "disc-gen: error: %s:2: wanted: train \"NAME\" or frozen \"NAME\"\n",
                    path, path));
    path = file_of("train \"ww\"\n");
    says((Options){.trainable_file = path}, LINEAR "out h\n", 2,
         arena_text(arena, "disc-gen: error: %s:1: the model has no float tensor \"ww\"; near are \"w\"\n", path));
    says((Options){.trainable_file = "/nowhere.txt"}, LINEAR "out h\n", 2,
         "disc-gen: error: --trainable: cannot read \"/nowhere.txt\"\n");
}

/* ---- --init ---- */
#define WITHOUT_DATA                                                                                                               \
    "in x f32 batch,4\nw w 4,4 missing\nw g 4 missing\nw b 4 missing\nMatMul m: x w -> h\nLayerNormalization n: h g b -> y "       \
    "axis=-1\nout y\n"
static void missing_data(void **state)
{
    (void)state;
    wants_with((Options){.init = "normal(0.02)", .freeze = "g"}, WITHOUT_DATA,
               "train w weight of \"m\" (MatMul)\n"
               "frozen g --freeze (gain of \"n\" (LayerNormalization))\n"
               "train b bias of \"n\" (LayerNormalization)\n");
    assert_string_equal(((Tensor *)map_get(tensors, "w"))->init, "normal(0.02)");
    assert_string_equal(((Tensor *)map_get(tensors, "g"))->init, "ones");
    assert_string_equal(((Tensor *)map_get(tensors, "b"))->init, "zeros");
    says((Options){0}, "in x f32 batch,4\nw w 4,4 missing\nMatMul m: x w -> y\nout y\n", 2,
         "disc-gen: error: the data of \"w\" is not there (\"weights.bin\" is missing beside the model): give the file, or --init "
         "RULE, such "
         "as --init \"normal(0.02)\", to start from random weights\n");
    /* Random positions would be wrong without a word. */
    says((Options){.init = "normal(0.02)"},
         "in x f32 batch,4\nw c 4 missing\nw w 4,4 random\nAdd a: x c -> h\nMatMul m: h w -> y\nout y\n", 2,
         "disc-gen: error: the data of \"c\" is not there (\"weights.bin\" is missing beside the model), and --init makes weights "
         "alone; what "
         "it is: \"a\" (Add) joins it with raw data\n");
}

/* ---- what exporters lose ---- */
#define SCRIPT                                                                                                                     \
    "model.train(); torch.onnx.export(model, ..., dynamo=False, training=torch.onnx.TrainingMode.TRAINING, "                       \
    "do_constant_folding=False)"
static void folded_norms(void **state)
{
    (void)state;
    says((Options){0},
         "producer pytorch 2.15.0\nin x f32 batch,3,9\nw onnx::Conv_17 4,3,1 random\nw onnx::Conv_18 4 random\nw r () =0.5\nw t () "
         "=1\n"
         "Conv /c/Conv: x onnx::Conv_17 onnx::Conv_18 -> h\nDropout /d: h r t -> y\nout y\n",
         0,
         "disc-gen: note: Conv \"/c/Conv\" has a BatchNormalization folded in: it trains as a weight and a bias, without the "
         "batch's "
         "statistics. To keep the BatchNormalization: " SCRIPT "\n"
         "disc-gen: note: Dropout \"/d\" drops in training, ratio 0.5; never in evaluation\n");
    says(
        (Options){0},
        "producer pytorch 2.15.0\nin x f32 batch,3,9\nw c.weight 4,3,1 random\nw d.weight 4,4,1 random\nw e.weight 4,4,1 random\n"
        "Conv node_Conv_2: x c.weight -> h\nmeta pkg.onnxscript.rewriter.rule_name=FuseBatchNormIntoConv\n"
        "Conv node_Conv_3: h d.weight -> i\nmeta pkg.torch.onnx.class_hierarchy=['Net', 'torch.nn.modules.batchnorm.BatchNorm1d']\n"
        "Conv node_Conv_4: i e.weight -> y\nmeta pkg.torch.onnx.class_hierarchy=['Net', 'torch.nn.modules.conv.Conv1d']\nout y\n",
        0,
        "disc-gen: note: 2 Conv nodes (the first is \"node_Conv_2\") have a BatchNormalization folded in: it trains as a weight "
        "and a bias, "
        "without the batch's statistics. To keep the BatchNormalization: " SCRIPT "\n"
        "disc-gen: note: no Dropout in the model: an export for inference leaves it out. If yours had one: model.train(); "
        "torch.onnx.export(model, ..., dynamo=True)\n");
    says((Options){0},
         "producer tf2onnx 1.16\nin x f32 batch,3,9\nw a/Conv2D_weights_fused_bn 4,3,1 random\nConv a/Conv2D: x "
         "a/Conv2D_weights_fused_bn -> y\nout y\n",
         0,
         "disc-gen: note: Conv \"a/Conv2D\" has a BatchNormalization folded in: it trains as a weight and a bias, without the "
         "batch's "
         "statistics. To keep the BatchNormalization: convert the Keras model with learning phase 1, and without tf2onnx's "
         "optimizer "
         "back_to_back_optimizer\n");
}

#define NORM(attributes)                                                                                                           \
    "producer pytorch 2.15.0\nin x f32 batch,4\nw g 4 =1\nw b 4 =0\nw m 4 random\nw v 4 random\n"                                  \
    "BatchNormalization /b: x g b m v -> y " attributes "\nout y\n"
static void norms_and_dropouts(void **state)
{
    (void)state;
    says((Options){0}, NORM("training_mode=0"), 0,
         "disc-gen: note: BatchNormalization \"/b\" was exported for inference: gain and bias train, the running statistics stay "
         "as they "
         "are. --batch-norm train uses the batch's statistics and updates the running ones. To export it so: " SCRIPT "\n"
         "disc-gen: note: no Dropout in the model: an export for inference leaves it out. If yours had one: " SCRIPT "\n");
    says((Options){0}, NORM("training_mode=1"), 0, "");
    says((Options){.batch_norm = 1}, NORM("training_mode=0"), 0,
         "disc-gen: note: no Dropout in the model: an export for inference leaves it out. If yours had one: " SCRIPT "\n");
    says((Options){0},
         "producer pytorch 2.15.0\n" LINEAR "w r () =0.1\nw t () =0\nDropout /d: h r -> i\nDropout /e: i r t -> y\nout y\n", 0,
         "disc-gen: note: 2 Dropout nodes (the first is \"/d\") do not drop, being exported for inference, ratio 0.1. To train "
         "with dropout: " SCRIPT "\n");
    says((Options){0}, "producer pytorch 1.3\nopset 11\n" LINEAR "Dropout /d: h -> y ratio=0.25\nout y\n", 0,
         "disc-gen: note: Dropout \"/d\" drops in training, ratio 0.25; never in evaluation\n");
    says((Options){0}, "producer pytorch 2.15.0\n" LINEAR "const r () =0\nconst t () =1\nDropout /d: h r t -> y\nout y\n", 0,
         "disc-gen: note: no Dropout in the model: an export for inference leaves it out. If yours had one: " SCRIPT "\n");
    says((Options){0}, "producer paddle\n" LINEAR "out h\n", 0, "");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(merged_tensors_are_separated),
        T(tie_keeps_a_merged_tensor),
        T(rest_of_a_merged_tensor),
        T(separated_inside_a_branch),
        T(split_head_is_tied),
        T(copies_of_a_layer_stay_apart),
        T(metadata_tells_copies),
        T(tie_errors),
        T(patterns),
        T(nothing_trains),
        T(table_round_trip),
        T(table_errors),
        T(missing_data),
        T(folded_norms),
        T(norms_and_dropouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
