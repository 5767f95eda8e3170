/* Roles, merged and split tensors, what the user says about them, and what is said to the user: models of a few lines, and the
 * whole table that comes out. */
#include "passes/passes.h"
#include "passes/roles.h"
#include "support/diag.h"
#include "test/support/model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static Arena *arena;
static Map *tensors;
static const OnnxModel *last_model;

static int setup(void **state)
{
    (void)state;
    arena = arena_new();
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static const char *run(const char *text, const Options *options)
{
    OnnxModel *model = model_from_text(arena, text);
    tensors = map_new(arena);
    last_model = model;
    return pass_trainable(model, options, arena, tensors);
}

/* A line of the table as tests write it, type and padding left out: train w weight of "m" (MatMul) */
static const char *short_line(const char *line)
{
    const char *name = strchr(line, '"') + 1, *end = strchr(name, '"'), *reason = strchr(strchr(end, '['), ']');
    reason += 1 + strspn(reason + 1, " ");
    return arena_text(arena, "%.*s %.*s %.*s", (int)strcspn(line, " "), line, (int)(end - name), name, (int)strcspn(reason, "\n"),
                      reason);
}

static const char *short_table(const char *table)
{
    Buf out = {.arena = arena};
    for (const char *at = table; *at; at = strchr(at, '\n') + 1)
        if (*at != '#') buf_printf(&out, "%s\n", short_line(at));
    return buf_text(&out);
}

static void wants_with(Options options, const char *model, const char *table)
{
    const char *found = short_table(run(model, &options));
    if (strcmp(found, table)) fail_msg("wanted:\n%sfound:\n%s", table, found);
}
static void wants(const char *model, const char *table)
{
    wants_with((Options){0}, model, table);
}

/* ---- what is said ---- */
typedef struct Case {
    const char *model;
    Options options;
} Case;
static void run_case(void *with)
{
    const Case *c = with;
    run(c->model, &c->options);
}
static void says(Options options, const char *model, int status, const char *text)
{
    int found;
    const char *said = said_by(arena, run_case, &(Case){model, options}, &found);
    if (strcmp(said, text)) fail_msg("wanted:\n%sfound:\n%s", text, said);
    assert_int_equal(found, status);
}

#define LINEAR "in x f32 batch,4\nw w 4,4 random\nMatMul m: x w -> h\n"

/* ---- roles ---- */
static void weights_and_biases(void **state)
{
    (void)state;
    wants("in x f32 batch,3,9,9\nw c.weight 8,3,3,3 random\nw c.bias 8 random\nw f.weight 8,4 random\nw f.bias 4 random\n"
          "w slope 4 =0.25\n"
          "Conv c: x c.weight c.bias -> h\nReduceMean r: h -> p\nGemm f: p f.weight f.bias -> y\nPRelu s: y slope -> z\nout z\n",
          "train c.weight weight of \"c\" (Conv)\n"
          "train c.bias bias of \"c\" (Conv)\n"
          "train f.weight weight of \"f\" (Gemm)\n"
          "train f.bias bias of \"f\" (Gemm)\n"
          "train slope slope of \"s\" (PRelu)\n");
}

static void recurrent_operators(void **state)
{
    (void)state;
    /* PyTorch puts the gates in another order: slices, joined again.  A zero state is no parameter, a named one that holds numbers
     * is. */
    wants("in x f32 seq,batch,3\nw ih 16,3 random\nw R 1,16,4 random\nw b_ih 16 random\nw b_hh 16 random\nw h0 1,1,4 random\n"
          "const val_3 () =0\n"
          "Slice s1: ih a b c -> i\nSlice s2: ih b c d -> f\nConcat c1: i f -> g axis=0\nUnsqueeze u1: g -> W\n"
          "Concat c2: b_ih b_hh -> b2 axis=0\nUnsqueeze u2: b2 -> B\nExpand e: val_3 s -> c0\n"
          "LSTM l: x W R B - h0 c0 -> y\nout y\n",
          "train ih weight of \"l\" (LSTM)\n"
          "train R weight of \"l\" (LSTM)\n"
          "train b_ih bias of \"l\" (LSTM)\n"
          "train b_hh bias of \"l\" (LSTM)\n"
          "train h0 learned initial state of \"l\" (LSTM)\n"
          "frozen val_3 initial state or length of \"l\" (LSTM)\n");
}

static void norms_and_statistics(void **state)
{
    (void)state;
    wants("in x f32 batch,4,7\nw w 4,4,1 random\nw g 4 =1\nw b 4 =0\nw mean 4 random\nw var 4 random\nw g2 7 =1\nw r 7 =1\n"
          "Conv c: x w -> h\nBatchNormalization n: h g b mean var -> i\nLayerNormalization l: i g2 -> j axis=-1\nMul m: j r -> "
          "k\nout k\n",
          "train w weight of \"c\" (Conv)\n"
          "train g gain of \"n\" (BatchNormalization)\n"
          "train b bias of \"n\" (BatchNormalization)\n"
          "frozen mean running mean of \"n\" (BatchNormalization)\n"
          "frozen var running variance of \"n\" (BatchNormalization)\n"
          "train g2 gain of \"l\" (LayerNormalization)\n"
          "train r gain of \"m\" (Mul)\n");
    assert_true(((Tensor *)map_get(tensors, "mean"))->statistics);
    assert_false(((Tensor *)map_get(tensors, "g"))->statistics);
}

/* The ones and zeros of the InstanceNormalization are no parameters; the gain behind it is. */
static void group_norm_written_out(void **state)
{
    (void)state;
    wants("in x f32 batch,4,8\nw w 4,4,1 random\nw ones_g 2 =1\nw zeros_g 2 =0\nw gn.weight 4,1 =1\nw gn.bias 4,1 =0\n"
          "Conv c: x w -> h\nReshape r1: h s -> i\nInstanceNormalization n: i ones_g zeros_g -> j\nReshape r2: j s2 -> k\n"
          "Mul m: k gn.weight -> l\nAdd a: l gn.bias -> o\nout o\n",
          "train w weight of \"c\" (Conv)\n"
          "frozen ones_g group norm written out, gain and shift follow it: filler of \"n\" (InstanceNormalization)\n"
          "frozen zeros_g group norm written out, gain and shift follow it: filler of \"n\" (InstanceNormalization)\n"
          "train gn.weight gain of \"m\" (Mul)\n"
          "train gn.bias bias of \"a\" (Add)\n");
}

static void rotary_frequencies(void **state)
{
    (void)state;
    /* Positions from a Range, from an input of integers, from a constant: none makes a weight of the frequencies. */
    wants("in ids i64 batch,seq\nw emb 10,4 random\nw inv_freq 2 random\nGather g: emb ids -> h\n"
          "Shape s: h -> sh\nRange r: a b c -> p\nCast k: p -> pf\nUnsqueeze u: pf -> pu\nMul m: pu inv_freq -> f\nCos c: f -> co\n"
          "Mul q: h co -> y\nout y\n",
          "train emb table of embeddings of \"g\" (Gather)\n"
          "frozen inv_freq \"m\" (Mul) joins it with shapes, positions or constants\n");
    wants(
        "in ids i64 batch,seq\nin position_ids i64 batch,seq\nw emb 10,4 random\nw inv_freq 1,2,1 random\nGather g: emb ids -> h\n"
        "Cast k: position_ids -> p\nMatMul m: inv_freq p -> f\nSin c: f -> co\nMul q: h co -> y\nout y\n",
        "train emb table of embeddings of \"g\" (Gather)\n"
        "frozen inv_freq multiplied with positions or masks, not with data: operand of \"m\" (MatMul)\n");
    wants("in ids i64 batch,seq\nw emb 10,4 random\nw inv_freq 2 random\nw pos 6,1 random\nGather g: emb ids -> h\n"
          "Mul m: pos inv_freq -> f\nCos c: f -> co\nMul q: h co -> y\nout y\n",
          "train emb table of embeddings of \"g\" (Gather)\n"
          "frozen inv_freq constant of \"c\" (Cos)\n"
          "frozen pos constant of \"c\" (Cos)\n");
}

static void time_steps_and_pixels_are_data(void **state)
{
    (void)state;
    wants("in image u8 batch,1,8,8\nw w 4,1,3,3 random\nw b 4 random\nCast k: image -> f\nConv c: f w b -> y\nout y\n",
          "train w weight of \"c\" (Conv)\n"
          "train b bias of \"c\" (Conv)\n");
    wants("in t i64 batch,1\nw freq 8 random\nw w 8,4 random\nCast k: t -> f\nMul m: f freq -> a\nSin s: a -> e\nMatMul l: e w -> "
          "y\nout y\n",
          "frozen freq \"m\" (Mul) joins it with raw data\n"
          "train w weight of \"l\" (MatMul)\n");
}

static void spectra(void **state)
{
    (void)state;
    wants(
        "in x f32 batch,1,samples\nw basis 6,1,16 random\nw mel 6,4 filters\nw w 4,2 random\nw two () =2\nw floor () =0.01\n"
        "Conv c: x basis -> s\nCast k: s -> t\nPow p: t two -> q\nTranspose v: q -> r\nMatMul m: r mel -> f\nAdd a: f floor -> g\n"
        "MatMul l: g w -> y\nout y\n",
        "frozen basis Fourier basis over raw data: weight of \"c\" (Conv)\n"
        "frozen mel filter bank behind a spectrum: matrix of \"m\" (MatMul)\n"
        "train w weight of \"l\" (MatMul)\n"
        "frozen two constant of \"p\" (Pow)\n"
        "frozen floor \"a\" (Add) joins it with raw data\n");
}

/* A filter of what a layer gives, in its spectrum: learned, unlike mel filters over raw data. */
static void learned_spectra(void **state)
{
    (void)state;
    wants("in x f32 batch,1,6\nw w 6,6 random\nw filter 4,2 random\nconst axis () =2\nMatMul m: x w -> h\nCast c: axis -> a to=7\n"
          "DFT d: h - a -> f onesided=1\nMul p: f filter -> g\nw val_8 4,1 =0\nMul q: g val_8 -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\n"
          "train filter multiplied table of \"p\" (Mul)\n"
          "frozen val_8 zeros: operand of \"q\" (Mul)\n"
          "frozen axis constant of \"d\" (DFT)\n");
}

static void scalars_by_name(void **state)
{
    (void)state;
    wants(LINEAR "w temp () =1.5\nw val_7 () =8\nconst /Constant_3_output_0 () =2\nw gate.scale 1 =1\n"
                 "Mul a: h temp -> i\nDiv b: i val_7 -> j\nAdd c: j /Constant_3_output_0 -> k\nMul d: k gate.scale -> l\nout l\n",
          "train w weight of \"m\" (MatMul)\n"
          "train temp named scalar of \"a\" (Mul)\n"
          "frozen val_7 number of \"b\" (Div)\n"
          "train gate.scale named scalar of \"d\" (Mul)\n"
          "frozen /Constant_3_output_0 number of \"c\" (Add)\n");
}

static void tables_and_tokens(void **state)
{
    (void)state;
    wants("in x f32 batch,6,4\nw w 4,4 random\nw cls 1,1,4 random\nw pos 1,7,4 random\nw pe 1,7,4 sines\nw attn_mask 7,4 mask\n"
          "w val_9 7,4 random\nMatMul m: x w -> h\nConcat c: cls h -> i axis=1\nAdd a: i pos -> j\nAdd s: j pe -> k\n"
          "w onnx::Add_7 7,4 random\nw val_8 7,4 rising\n"
          "Add q: k attn_mask -> l\nMul v: l val_9 -> n\nAdd o: n onnx::Add_7 -> p\nAdd r: p val_8 -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\n"
          "train cls learned token of \"c\" (Concat)\n"
          "train pos added table of \"a\" (Add)\n"
          "frozen pe table of sines: operand of \"s\" (Add)\n"
          "frozen attn_mask mask of two values: operand of \"q\" (Add)\n"
          "frozen val_9 table with a made-up name: operand of \"v\" (Mul)\n"
          "train onnx::Add_7 added table of \"o\" (Add)\n"
          "frozen val_8 table with a made-up name: operand of \"r\" (Add)\n");
}

static void raw_data_normalised(void **state)
{
    (void)state;
    wants("in x f32 batch,4\nw mean 4 random\nw std 4 random\nw w 4,2 random\nw y_mean 2 random\nw y_std 2 random\nw b 2 random\n"
          "Sub s: x mean -> a\nDiv d: a std -> b2\nMatMul m: b2 w -> c\nAdd e: c b -> f\nMul p: f y_std -> g\nAdd q: g y_mean -> "
          "y\nout y\n",
          "frozen mean \"s\" (Sub) joins it with raw data\n"
          "frozen std \"d\" (Div) joins it with raw data\n"
          "train w weight of \"m\" (MatMul)\n"
          "frozen y_mean a statistic, by its name: operand of \"q\" (Add)\n"
          "frozen y_std a statistic, by its name: operand of \"p\" (Mul)\n"
          "train b bias of \"e\" (Add)\n");
}

/* A weight norm's v and g, an equalised learning rate, low-rank factors, learned queries; but not the mask of a masked layer. */
static void weights_made_of_constants(void **state)
{
    (void)state;
    wants("in x f32 batch,3,9\nw v 8,3,3 random\nw g 8,1,1 random\nw val_2 () =0.1\nReduceL2 n: v ax -> l\nAdd e: l val_2 -> "
          "l2\nDiv d: v l2 -> u\n"
          "Mul m: u g -> w\nConv c: x w -> y\nout y\n",
          "train v part of the weight of \"c\" (Conv)\n"
          "train g part of the weight of \"c\" (Conv)\n"
          "frozen val_2 \"e\" (Add) joins it with shapes, positions or constants\n");
    wants("in x f32 batch,4\nw w 3,4 random\nw u 3 random\nw v 4 random\nMatMul a: w v -> wv\nMatMul b: u wv -> sigma\n"
          "Div d: w sigma -> n\nTranspose t: n -> wt\nMatMul m: x wt -> y\nout y\n",
          "train w part of the weight of \"m\" (MatMul)\n"
          "frozen u multiplied with positions or masks, not with data: operand of \"b\" (MatMul)\n"
          "frozen v multiplied with positions or masks, not with data: operand of \"a\" (MatMul)\n");
    wants("in x f32 batch,4\nw w 4,4 random\nw keep 4,4 mask\nMul k: w keep -> v\nMatMul m: x v -> y\nout y\n",
          "train w part of the weight of \"m\" (MatMul)\n"
          "frozen keep \"k\" (Mul) joins it with shapes, positions or constants\n");
    wants("in x f32 batch,5,4\nw queries 3,4 random\nw wq 4,4 random\nw wk 4,4 random\nw bq 4 random\nMatMul q: queries wq -> "
          "a\nAdd b: a bq -> a2\n"
          "MatMul k: x wk -> c\nTranspose t: c -> d\nMatMul s: a2 d -> y\nout y\n",
          "train queries weight of \"q\" (MatMul)\n"
          "train wq weight of \"q\" (MatMul)\n"
          "train wk weight of \"k\" (MatMul)\n"
          "train bq bias of \"b\" (Add)\n");
}

/* What is learned as a logarithm, as weights of a mixture, as one element of a vector; but not a schedule, or frequencies. */
static void parameters_behind_functions(void **state)
{
    (void)state;
    wants(LINEAR "w A_log 4 random\nw logit_scale () =2.6\nw mix 3 random\nw log_var 2 random\n"
                 "Exp e: A_log -> a\nNeg n: a -> b\nMul m2: h b -> i\nExp e2: logit_scale -> s\nMul m3: i s -> j\n"
                 "Softmax s3: mix -> p\nReshape r3: p sh -> q\nMul m4: j q -> k\nconst zero () =0\nCast c5: zero -> at to=7\n"
                 "Gather g5: log_var at -> v\nNeg n5: v -> u\nExp e5: u -> t\nMul m5: k t -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\n"
          "train A_log part of a gain of \"m2\" (Mul)\n"
          "train logit_scale named scalar of \"m3\" (Mul)\n"
          "train mix part of a gain of \"m4\" (Mul)\n"
          "train log_var part of a gain of \"m5\" (Mul)\n"
          "frozen zero constant of \"g5\" (Gather)\n");
    wants("in t i64 batch\nin user i64 batch\nw alphas 4 rising\nw user_bias 4 random\nw val_3 4 random\nw e 4,4 random\n"
          "Gather g: e user -> h\nGather a: alphas t -> s\nSqrt r: s -> q\nMul m: h q -> i\nGather b: user_bias user -> u\n"
          "Add c: i u -> j\nExp x: val_3 -> k\nMul n: j k -> y\nout y\n",
          "frozen alphas constant of \"a\" (Gather)\n"
          "train user_bias table of embeddings of \"b\" (Gather)\n"
          "frozen val_3 part of a computed table: operand of \"n\" (Mul)\n"
          "train e table of embeddings of \"g\" (Gather)\n");
}

/* Exponents and thresholds that are learned, and what stands for masked tokens; but not what masks. */
static void parameters_that_shape(void **state)
{
    (void)state;
    wants(LINEAR "w p () =3\nw floor 4 random\nw mask_token 4 random\nw masked_bias () =-10000\nw val_2 () =2\n"
                 "Pow a: h p -> i\nMax b: i floor -> j\nWhere c: q mask_token j -> k\nWhere d: q k masked_bias -> l\n"
                 "Pow e: l val_2 -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\n"
          "train p learned operand of \"a\" (Pow)\n"
          "train floor learned operand of \"b\" (Max)\n"
          "train mask_token learned operand of \"c\" (Where)\n"
          "frozen masked_bias constant of \"d\" (Where)\n"
          "frozen val_2 constant of \"e\" (Pow)\n");
}

static void constants_in_nodes_and_branches(void **state)
{
    (void)state;
    wants("in x f32 batch,4\nin c bool 1\nconst linear.w_0 4,4 random\nMatMul m: x linear.w_0 -> h\n"
          "if i: c -> y\nthen\nconst weight 4,4 random\nMatMul a: h weight -> p\nelse\nconst weight 4,4 random\nMatMul b: h weight "
          "-> q\nend\n"
          "w bias 4 random\nAdd z: y bias -> o\nout o\n",
          "train bias bias of \"z\" (Add)\n"
          "train linear.w_0 weight of \"m\" (MatMul)\n"
          "train weight weight of \"a\" (MatMul)\n"
          "train weight_2 weight of \"b\" (MatMul)\n");
}

static void names_of_exporters(void **state)
{
    (void)state;
    static const char *const made_up[] = {"val_12",
                                          "_val_3",
                                          "onnx::Conv_17",
                                          "/m/Constant_3_output_0",
                                          "p2o.helper.constant.117",
                                          "42",
                                          "const_fold_opt__287",
                                          "model/lambda/mul/y:0",
                                          "Const_3:0",
                                          "Mul__34",
                                          "zeros",
                                          "scalar_tensor_2",
                                          "scalar_tensor_default",
                                          "full_default_3",
                                          "node_0_norm_Constant_1__0",
                                          "_tensor_constant0"},
                             *const given[] = {"model/dense/MatMul/ReadVariableOp:0",
                                               "StatefulPartitionedCall/a/BiasAdd/ReadVariableOp:0",
                                               "conv2d_0.w_0",
                                               "batch_norm_0.w_1",
                                               "temp",
                                               "value",
                                               "layer_2",
                                               "constraint_scale",
                                               "t",
                                               "h.0.ln_1.weight"};
    for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++)
        if (!name_is_generated(made_up[i])) fail_msg("%s is made up", made_up[i]);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (name_is_generated(given[i])) fail_msg("%s is a parameter's name", given[i]);
}

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
        T(weights_and_biases),
        T(recurrent_operators),
        T(norms_and_statistics),
        T(group_norm_written_out),
        T(rotary_frequencies),
        T(time_steps_and_pixels_are_data),
        T(spectra),
        T(learned_spectra),
        T(scalars_by_name),
        T(tables_and_tokens),
        T(raw_data_normalised),
        T(weights_made_of_constants),
        T(parameters_behind_functions),
        T(parameters_that_shape),
        T(constants_in_nodes_and_branches),
        T(names_of_exporters),
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
