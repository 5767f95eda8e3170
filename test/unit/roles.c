/* Roles: what a constant is to a model, as far as its nodes, names and elements tell. */
#include "passes/roles.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "roles_of.h"

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

/* Norms without gain or shift: the script exporter makes Constant nodes for them, dynamo numbered values; but what the exporter says is
 * a parameter, or a name of its own, trains. */
static void norms_without_parameters(void **state)
{
    (void)state;
    wants(LINEAR "const /n/Constant_output_0 4 =1\nconst /n/Constant_1_output_0 4 =0\nLayerNormalization n: h /n/Constant_output_0 "
                 "/n/Constant_1_output_0 -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\n"
          "frozen /n/Constant_output_0 no gain, ones in its place: operand of \"n\" (LayerNormalization)\n"
          "frozen /n/Constant_1_output_0 no shift, zeros in its place: operand of \"n\" (LayerNormalization)\n");
    wants(LINEAR "w val_3 4 =1\nw val_4 4 =2\nw n.bias 4 =0\nInstanceNormalization n: h val_3 n.bias -> i\nInstanceNormalization o: i val_4 n.bias -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\n"
          "frozen val_3 no gain, ones in its place: operand of \"n\" (InstanceNormalization)\n"
          "train val_4 gain of \"o\" (InstanceNormalization)\n"
          "train n.bias#n bias of \"n\" (InstanceNormalization)\n"
          "train n.bias#o bias of \"o\" (InstanceNormalization)\n");
    wants(LINEAR "w ones 4 =1\nLayerNormalization n: h ones -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\ntrain ones gain of \"n\" (LayerNormalization)\n");
    /* One tensor of ones for a norm that has a gain and one that has none. */
    wants(LINEAR "w n.weight 4 =1\nLayerNormalization n: h n.weight -> i\nmeta pkg.torch.onnx.fx_node=%layer_norm : f(args = (%h, [4], %p_n_weight))\n"
                 "LayerNormalization o: i n.weight -> y\nmeta pkg.torch.onnx.fx_node=%layer_norm_1 : f(args = (%layer_norm, [4]))\nout y\n",
          "train w weight of \"m\" (MatMul)\n"
          "frozen n.weight no gain, ones in its place: operand of \"o\" (LayerNormalization)\n"
          "train n.weight#n gain of \"n\" (LayerNormalization)\n");
    /* A group norm written out. */
    wants(LINEAR "w val_3 4 =1\nMul g: h val_3 -> y\nmeta pkg.torch.onnx.fx_node=%group_norm : f(args = (%h, 2))\nout y\n",
          "train w weight of \"m\" (MatMul)\n"
          "frozen val_3 a norm without gain or shift, filler in its place: operand of \"g\" (Mul)\n");
    wants(LINEAR "w val_3 4 =1\nMul g: h val_3 -> y\nmeta pkg.torch.onnx.fx_node=%group_norm : f(args = (%h, 2, %p_n_weight))\nout y\n",
          "train w weight of \"m\" (MatMul)\ntrain val_3 gain of \"g\" (Mul)\n");
    /* A gain that the exporter computed, 1 + g; counts and running statistics behind a gain and shift that are none. */
    wants(LINEAR "w add 4 =1\nLayerNormalization n: h add -> y\n"
                 "meta pkg.torch.onnx.fx_node=%layer_norm : f(args = (%h, [4], %add, None, 1e-05), kwargs = {})\nout y\n",
          "train w weight of \"m\" (MatMul)\ntrain add gain of \"n\" (LayerNormalization)\n");
    wants(LINEAR "w add 4 =1\nLayerNormalization n: h add -> y\n"
                 "meta pkg.torch.onnx.fx_node=%layer_norm : f(args = (%h, [4]), kwargs = {weight: %add})\nout y\n",
          "train w weight of \"m\" (MatMul)\ntrain add gain of \"n\" (LayerNormalization)\n");
    wants(LINEAR "w val_3 4 =1\nMul g: h val_3 -> y\n"
                 "meta pkg.torch.onnx.fx_node=%native_group_norm : f(args = (%h, None, None, %sym_size_int, 4, %mul, 2), kwargs = {})\nout y\n",
          "train w weight of \"m\" (MatMul)\n"
          "frozen val_3 a norm without gain or shift, filler in its place: operand of \"g\" (Mul)\n");
}

/* A convolution without bias, as dynamo writes it unless it optimises; and one whose bias is still zeros. */
static void convolutions_without_bias(void **state)
{
    (void)state;
    wants("in x f32 batch,3,9\nw c.weight 4,3,1 random\nw val_6 4 =0\nConv c: x c.weight val_6 -> y\nout y\n",
          "train c.weight weight of \"c\" (Conv)\nfrozen val_6 no bias, zeros in its place: operand of \"c\" (Conv)\n");
    wants("in x f32 batch,3,9\nw c.weight 4,3,1 random\nw val_6 4 =0\nConv c: x c.weight val_6 -> y\n"
          "meta pkg.torch.onnx.fx_node=%conv : f(args = (%x, %p_c_weight, %p_c_bias))\nout y\n",
          "train c.weight weight of \"c\" (Conv)\ntrain val_6 bias of \"c\" (Conv)\n");
    wants("in x f32 batch,3,9\nw c.weight 4,3,1 random\nw c.bias 4 =0\nConv c: x c.weight c.bias -> y\nout y\n",
          "train c.weight weight of \"c\" (Conv)\ntrain c.bias bias of \"c\" (Conv)\n");
}

/* Dropout of a constant is that constant, and a number that was computed is a number. */
static void dropped_tables_train(void **state)
{
    (void)state;
    wants("in x f32 batch,4\nw positions 5,4 random\nw w 4,4 random\nw sqrt_1 () =1.5\nDropout d: positions -> p\nMatMul m: p w -> h\n"
          "Div s: h sqrt_1 -> i\nAdd a: x i -> y\nout y\n",
          "train positions weight of \"m\" (MatMul)\n"
          "train w weight of \"m\" (MatMul)\n"
          "frozen sqrt_1 number of \"s\" (Div)\n");
    /* A table of positions, resized to the image. */
    wants(LINEAR "w pos 1,4,2,2 random\nw w2 4,4 random\nResize r: pos a b s -> q\nTranspose t: q -> u\nAdd a: h u -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\ntrain pos added table of \"a\" (Add)\nfrozen w2 no operation on data reads it\n");
}

/* A state space's decay, -exp(A_log), whose name the script exporter lost; and a table that is no more than scaled. */
static void bent_constants_train(void **state)
{
    (void)state;
    wants(LINEAR "w onnx::Exp_9 4,4 rising\nExp e: onnx::Exp_9 -> a\nNeg n: a -> b\nMul s: h b -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\ntrain onnx::Exp_9 part of a gain of \"s\" (Mul)\n");
    wants(LINEAR "w onnx::Neg_9 4,4 rising\nNeg n: onnx::Neg_9 -> b\nMul s: h b -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\nfrozen onnx::Neg_9 part of a computed table: operand of \"s\" (Mul)\n");
}

/* One module that is called three times, beside norms that the exporter merged: its weight is one. */
static void calls_share_a_weight(void **state)
{
    (void)state;
#define CALLS(a, b)                                                                                                                \
    "in x f32 batch,4\nw onnx::MatMul_9 4,4 random\nw n.weight 4 =2\nMatMul " a "/MatMul: x onnx::MatMul_9 -> h\n"                   \
    "LayerNormalization /n.0/LayerNormalization: h n.weight -> i\nMatMul " b "/MatMul: i onnx::MatMul_9 -> j\n"                       \
    "LayerNormalization /n.1/LayerNormalization: j n.weight -> y\nout y\n"
    const Options none = {0};
    assert_non_null(strstr(short_table(run(CALLS("/l_1", "/l_2"), &none)), "train onnx::MatMul_9 weight"));
    assert_non_null(strstr(short_table(run(CALLS("/l.1", "/l.2"), &none)), "train onnx::MatMul_9#/l.1/MatMul weight"));
}

/* What dynamo calls what it computed is a parameter's name with the script exporter, which calls nodes /Mul. */
static void words_of_arithmetic(void **state)
{
    (void)state;
    wants(LINEAR "w pow () =1.5\nw mul 4,4 random\nMul p: h pow -> i\nMul q: i mul -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\nfrozen pow number of \"p\" (Mul)\n"
          "frozen mul table with a made-up name: operand of \"q\" (Mul)\n");
    wants(LINEAR "w pow () =1.5\nw mul 4,4 random\nMul /Mul: h pow -> i\nMul /Mul_1: i mul -> y\nout y\n",
          "train w weight of \"m\" (MatMul)\ntrain pow named scalar of \"/Mul\" (Mul)\n"
          "train mul multiplied table of \"/Mul_1\" (Mul)\n");
}

/* What dynamo's metadata says goes before what the work says. */
static void exporter_knows_buffers(void **state)
{
    (void)state;
#define SAID(what) "meta pkg.torch.onnx.fx_node=%mul : f(args = (%linear, %" what "))\n"
    wants(LINEAR "w e.Scale () =5.5\nMul s: h e.Scale -> y\n" SAID("b_e_scale") "out y\n",
          "train w weight of \"m\" (MatMul)\nfrozen e.Scale a buffer in PyTorch (named scalar of \"s\" (Mul))\n");
    wants(LINEAR "w e.Scale () =5.5\nMul s: h e.Scale -> y\n" SAID("p_e_scale") "out y\n",
          "train w weight of \"m\" (MatMul)\ntrain e.Scale named scalar of \"s\" (Mul)\n");
    wants(LINEAR "w e.Scale () =5.5\nMul s: h e.Scale -> y\n" SAID("b_e_scale_2") "out y\n",
          "train w weight of \"m\" (MatMul)\ntrain e.Scale named scalar of \"s\" (Mul)\n");
    wants("in x f32 batch,4\nw g 4 random\nMul s: x g -> i\n" SAID("p_g") "w w 4,4 random\nMatMul m: i w -> y\nout y\n",
          "train g a parameter in PyTorch (\"s\" (Mul) joins it with raw data)\ntrain w weight of \"m\" (MatMul)\n");
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
        T(exporter_knows_buffers),
        T(norms_without_parameters),
        T(dropped_tables_train),
        T(convolutions_without_bias),
        T(bent_constants_train),
        T(words_of_arithmetic),
        T(calls_share_a_weight),
        T(names_of_exporters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
