/* Tensors that are parts of others, what proves it, and what is said of it. */
#include "passes/roles.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "roles_of.h"

/* ---- what is a part ---- */
#define HEADS(part)                                                                                                                \
    "in x f32 batch,12\nw h.weight 7,12 random\n" part "Gemm a: x h.weight -> y transB=1\nGemm b: x slice_1 -> z transB=1\nout y\nout z\n"
static const char whole_table[] = "train h.weight weight of \"a\" (Gemm)\n";

static void check_read_through(const char *name, int rank)
{
    const OnnxGraph *g = last_model->graph;
    static const char *const chain[] = {"Reshape", "Slice", "Transpose", "Reshape"};
    for (int i = 0; i < 4; i++) assert_string_equal(g->nodes[i]->op_type, chain[i]);
    assert_string_equal(g->nodes[0]->inputs[0], "h.weight");
    const OnnxNode *reader = g->nodes[g->n_nodes - 1];
    assert_string_equal(reader->inputs[1], g->nodes[3]->outputs[0]);
    assert_string_equal(g->nodes[3]->outputs[0], name);
    assert_int_equal(graph_initializer(g, g->nodes[3]->inputs[1])->count, rank);
}

static void rows_are_a_part(void **state)
{
    (void)state;
    wants(HEADS("w slice_1 3,12 part:24:12:1=h.weight\n"), whole_table);
    check_read_through("slice_1 of h.weight", 2);
    const int64_t *from = graph_initializer(last_model->graph, last_model->graph->nodes[1]->inputs[1])->data;
    assert_int_equal(from[0], 2);
    assert_int_equal(from[1], 0);
    says((Options){0}, HEADS("w slice_1 3,12 part:24:12:1=h.weight\n"), 0,
         "disc-gen: note: \"slice_1\" holds 36 of the 84 elements of \"h.weight\": tied, trained as one (--untie \"slice_1\" keeps "
         "them apart)\n");
}

/* Columns, transposed columns, rows of heads seen as [heads, size, width], a matrix whose dims the exporter put in another order. */
static void views_are_parts(void **state)
{
    (void)state;
    wants(HEADS("w slice_1 7,12 part:0:12:1=h.weight\n"), whole_table); /* all of it: equal, and used for the same work */
    wants("in x f32 batch,12\nw h.weight 7,12 random\nw slice_1 5,7 part:3:1:12=h.weight\nGemm a: x h.weight -> y transB=1\n"
          "MatMul b: w5 slice_1 -> z\nin w5 f32 batch,5\nout y\nout z\n", whole_table);
    wants("in x f32 batch,3,4,8\nw h.weight 3,4,6 random\nw val_3 3,6,4 part:0:24:1:6=h.weight\nEinsum a: x h.weight -> y\nMatMul b: x val_3 -> z\n"
          "out y\nout z\n", "train h.weight weight of \"a\" (Einsum)\n");
    wants("in x f32 batch,8\nw h.weight 8,12 random\nw permute 8,3,2 part:0:12:4:1=h.weight\nMatMul a: x h.weight -> y\n"
          "MatMul b: x permute -> z\nout y\nout z\n", "train h.weight weight of \"a\" (MatMul)\n");
}

/* A row that begins with a number which stands in 75 rows before it: each of these is r[i], r[i + 1], … */
static void found_behind_many_of_its_first_number(void **state)
{
    (void)state;
    wants("in x f32 batch,100\nin v f32 batch,95\nw r 10,20 random\nw h.weight 90,100 part:0:1:1=r\nw slice_1 1,95 part:80:1:1=r\n"
          "Gemm a: x h.weight -> y transB=1\nGemm b: v slice_1 -> z transB=1\nout y\nout z\n",
          "frozen r no operation on data reads it\ntrain h.weight weight of \"a\" (Gemm)\n");
}

/* ---- what is none ---- */
static void what_is_no_part(void **state)
{
    (void)state;
    const char both[] = "train h.weight weight of \"a\" (Gemm)\ntrain slice_1 weight of \"b\" (Gemm)\n";
    wants(HEADS("w slice_1 3,12 random\n"), both);
    wants_with((Options){0}, "in x f32 batch,12\nw h.weight 7,12 random\nw g.weight 3,12 part:24:12:1=h.weight\nGemm a: x h.weight -> y transB=1\n"
               "Gemm b: x g.weight -> z transB=1\nout y\nout z\n",
               "train h.weight weight of \"a\" (Gemm)\ntrain g.weight weight of \"b\" (Gemm)\n"); /* a parameter by its name */
    /* Numbers that nobody drew: the same in many tensors. */
    wants("in x f32 batch,12\nw h.weight 7,12 =0.25\nw slice_1 3,12 =0.25\nGemm a: x h.weight -> y transB=1\nGemm b: x slice_1 -> z transB=1\nout y\nout z\n", both);
    wants("in x f32 batch,12\nw h.weight 7,12 rising\nw slice_1 3,12 part:24:12:1=h.weight\nGemm a: x h.weight -> y transB=1\n"
          "Gemm b: x slice_1 -> z transB=1\nout y\nout z\n", both);
    /* Every second of five rows: no dim of the whole can be seen so. */
    wants("in x f32 batch,12\nw h.weight 5,12 random\nw slice_1 3,12 part:0:24:1=h.weight\nGemm a: x h.weight -> y transB=1\n"
          "Gemm b: x slice_1 -> z transB=1\nout y\nout z\n", both);
}

/* ---- what the user says ---- */
#define SLICED HEADS("w slice_1 3,12 part:24:12:1=h.weight\nw o 12,2 random\nMatMul c: x o -> q\nout q\n")
#define OTHER "train o weight of \"c\" (MatMul)\n"
#define TIED "disc-gen: note: \"slice_1\" holds 36 of the 84 elements of \"h.weight\": tied, trained as one (--untie \"slice_1\" keeps them apart)\n"
static void options_about_parts(void **state)
{
    (void)state;
    Options apart = {0};
    vec_push(arena, &apart.untie, "slice_1");
    wants_with(apart, SLICED, "train h.weight weight of \"a\" (Gemm)\ntrain slice_1 weight of \"b\" (Gemm)\n" OTHER);
    wants_with((Options){.freeze = "^h"}, SLICED, "frozen h.weight --freeze (weight of \"a\" (Gemm))\n" OTHER);
    /* A part alone is neither frozen nor trained. */
    wants_with((Options){.freeze = "slice_1"}, SLICED, "train h.weight weight of \"a\" (Gemm)\n" OTHER);
    says((Options){.freeze = "slice_1"}, SLICED, 0,
         TIED "disc-gen: note: --freeze: \"slice_1\" is a part of \"h.weight\" and goes with it (--untie \"slice_1\" keeps them apart)\n");
    wants_with((Options){.freeze = "h.weight|slice_1"}, SLICED, "frozen h.weight --freeze (weight of \"a\" (Gemm))\n" OTHER);
}

/* ---- copies of a layer ---- */
#define LAYERS(first, second)                                                                                                      \
    "in x f32 batch,4\nw onnx::MatMul_7 4,4 random\nw onnx::MatMul_9 4,4 like=onnx::MatMul_7\nMatMul " first                       \
    ": x onnx::MatMul_7 -> h\nMatMul " second ": h onnx::MatMul_9 -> y\nout y\n"
static void modules_tell_copies(void **state)
{
    (void)state;
    wants(LAYERS("/l/0/MatMul", "/l/1/MatMul"),
          "train onnx::MatMul_7 weight of \"/l/0/MatMul\" (MatMul)\ntrain onnx::MatMul_9 weight of \"/l/1/MatMul\" (MatMul)\n");
    /* One module that is called twice, or none that is known. */
    wants(LAYERS("/l/MatMul", "/l/MatMul_1"), "train onnx::MatMul_7 weight of \"/l/MatMul\" (MatMul)\n");
    wants(LAYERS("m_1", "m_2"), "train onnx::MatMul_7 weight of \"m_1\" (MatMul)\n");
    /* The same from dynamo's scopes. */
#define SCOPES(p, q)                                                                                                               \
    "in x f32 batch,4\nw val_7 4,4 random\nw val_9 4,4 like=val_7\nMatMul a: x val_7 -> h\nmeta pkg.torch.onnx.name_scopes=['', '" p \
    "', 'linear']\nMatMul b: h val_9 -> y\nmeta pkg.torch.onnx.name_scopes=['', '" q "', 'linear_1']\nout y\n"
    wants(SCOPES("l.0", "l.11"), "train val_7 weight of \"a\" (MatMul)\ntrain val_9 weight of \"b\" (MatMul)\n");
    wants(SCOPES("l", "l"), "train val_7 weight of \"a\" (MatMul)\n");
}

/* ---- layers whose matrices an exporter merged ---- */
static void merged_matrices_are_separated(void **state)
{
    (void)state;
#define MERGED(p, q)                                                                                                               \
    "in x f32 batch,4\nw l.0.weight 4,4 random\nMatMul a: x l.0.weight -> h\nmeta pkg.torch.onnx.fx_node=%linear : f(args = (%x, %" p \
    "))\nMatMul b: h l.0.weight -> y\nmeta pkg.torch.onnx.fx_node=%linear_1 : f(args = (%h, %" q "))\nout y\n"
    wants(MERGED("p_l_0_weight", "p_l_1_weight"),
          "train l.0.weight#a weight of \"a\" (MatMul)\ntrain l.0.weight#b weight of \"b\" (MatMul)\n");
    says((Options){0}, MERGED("p_l_0_weight", "p_l_1_weight"), 0,
         "disc-gen: note: \"l.0.weight\" is used in 2 places by modules of their own, as exporters merge equal tensors of fresh models: "
         "separated into \"l.0.weight#a\", \"l.0.weight#b\" (--tie \"l.0.weight\" keeps it one)\n");
    wants(MERGED("p_l_weight", "p_l_weight"), "train l.0.weight weight of \"a\" (MatMul)\n");
    /* One parameter of one value, used twice, is one. */
    wants("in x f32 batch,4\nw w 4,4 random\nw d 4 =1\nMatMul m: x w -> h\nMul a: h d -> i\nmeta pkg.torch.onnx.fx_node=%mul : f(args = (%h, %p_d))\n"
          "Mul b: i d -> y\nmeta pkg.torch.onnx.fx_node=%mul_1 : f(args = (%i, %p_d))\nout y\n",
          "train w weight of \"m\" (MatMul)\ntrain d gain of \"a\" (Mul)\n");
    /* Without metadata, modules that differ in a number tell, where gains show that the exporter merged. */
#define SCRIPT(first, second, gain)                                                                                                \
    "in x f32 batch,4\nw onnx::MatMul_9 4,4 random\nw n.weight 4 " gain "\nMatMul " first                                        \
    "/MatMul: x onnx::MatMul_9 -> h\nLayerNormalization /n.0/L: h n.weight -> i\nMatMul " second                                  \
    "/MatMul: i onnx::MatMul_9 -> j\nLayerNormalization /n.1/L: j n.weight -> y\nout y\n"
    wants(SCRIPT("/l.0", "/l.1", "=1"),
          "train onnx::MatMul_9#/l.0/MatMul weight of \"/l.0/MatMul\" (MatMul)\n"
          "train onnx::MatMul_9#/l.1/MatMul weight of \"/l.1/MatMul\" (MatMul)\n"
          "train n.weight#/n.0/L gain of \"/n.0/L\" (LayerNormalization)\n"
          "train n.weight#/n.1/L gain of \"/n.1/L\" (LayerNormalization)\n");
    wants(SCRIPT("/l.0", "/l.1", "random"),
          "train onnx::MatMul_9 weight of \"/l.0/MatMul\" (MatMul)\ntrain n.weight gain of \"/n.0/L\" (LayerNormalization)\n");
    wants(SCRIPT("/l", "/l", "=1"),
          "train onnx::MatMul_9 weight of \"/l/MatMul\" (MatMul)\n"
          "train n.weight#/n.0/L gain of \"/n.0/L\" (LayerNormalization)\n"
          "train n.weight#/n.1/L gain of \"/n.1/L\" (LayerNormalization)\n");
}

/* ---- what is said of tensors that exporters computed or left out ---- */
static void notes_of_tensors(void **state)
{
    (void)state;
#define PYTORCH "producer pytorch 2.15.0\n"
#define NO_DROPOUT(line) "disc-gen: note: no Dropout in the model: an export for inference leaves it out. If yours had one: " line "\n"
#define SCRIPT_LINE                                                                                                                \
    "model.train(); torch.onnx.export(model, ..., dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)"
    says((Options){0}, PYTORCH LINEAR "w exp () =2.5\nMul s: h exp -> y\nout y\n", 0,
         NO_DROPOUT(SCRIPT_LINE)
         "disc-gen: note: \"exp\": computed by the exporter from parameters that the file does not have; what was computed trains instead, "
         "by other steps than theirs. To keep the parameters: torch.onnx.export(model, ..., dynamo=True, optimize=False)\n");
    says((Options){0}, PYTORCH "in x f32 batch,4\nw onnx::Gemm_7 4,4 random\nGemm g: x onnx::Gemm_7 -> y transB=1\nout y\n", 0,
         NO_DROPOUT(SCRIPT_LINE)
         "disc-gen: note: \"onnx::Gemm_7\": computed by the exporter from parameters that the file does not have; what was computed trains "
         "instead, by other steps than theirs. To keep the parameters: torch.onnx.export(model, ..., dynamo=False, "
         "do_constant_folding=False)\n");
    says((Options){0},
         PYTORCH "in x f32 batch,4\nw l.weight 4,4 random\nGemm g: x l.weight -> y transB=1\n"
                 "meta pkg.torch.onnx.fx_node=%linear : f(args = (%x, %p_l_weight, %p_l_bias))\nout y\n",
         0,
         NO_DROPOUT("model.train(); torch.onnx.export(model, ..., dynamo=True)")
         "disc-gen: note: \"l_bias\": left out by the exporter, as zeros add nothing, and not trained. To keep it: "
         "torch.onnx.export(model, ..., dynamo=True, optimize=False)\n");
    says((Options){0}, PYTORCH "in i i64 batch\nw e.weight 3,4 padded\nGather g: e.weight i -> y\nout y\n", 0,
         NO_DROPOUT(SCRIPT_LINE)
         "disc-gen: note: row 0 of \"e.weight\" is zeros, as Embedding(padding_idx=0) keeps it; a file cannot say so, and the row trains "
         "where it is looked up. To keep it: multiply what is looked up with (ids != 0)\n");
    says((Options){0}, "producer paddle\n" LINEAR "w exp () =2.5\nMul s: h exp -> y\nout y\n", 0, "");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(rows_are_a_part), T(views_are_parts),
        T(found_behind_many_of_its_first_number), T(what_is_no_part), T(options_about_parts), T(modules_tell_copies),
        T(merged_matrices_are_separated), T(notes_of_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
