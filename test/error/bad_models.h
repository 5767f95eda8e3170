/* Files that are no model to train, each with the message that it must give.  One table: make_bad_models writes the files for tests
 * of the whole program, the reader's unit test reads them. */
#ifndef TEST_BAD_MODELS_H
#define TEST_BAD_MODELS_H
#include "model_maker.h"
#include <stdio.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- not a model at all ---- */

static Packed text_file(Arena *arena, const char *text)
{
    return (Packed){(uint8_t *)make_text(arena, text), strlen(text)};
}

static Packed bad_empty(Arena *arena)
{
    return text_file(arena, "");
}

static Packed bad_text(Arena *arena)
{
    return text_file(arena, "import torch\nprint('not a model')\n");
}

static Packed bad_lfs(Arena *arena)
{
    return text_file(arena, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n");
}

static Packed bad_zip(Arena *arena)
{
    return text_file(arena, "PK\3\4\24\6");
}

static Packed bad_garbage(Arena *arena)
{
    return text_file(arena, "\x08\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
}

static Packed bad_checkpoint(Arena *arena)
{
    return text_file(arena, "\x0c\1\1\1ODTC\1\1\1\1");
}

static Packed bad_truncated(Arena *arena)
{
    Packed good = pack_model(arena, make_good_model(arena));
    good.size /= 2;
    return good;
}

static Packed bad_no_graph(Arena *arena)
{
    Onnx__ModelProto *model = make_model(arena, 18);
    model->graph = NULL;
    return pack_model(arena, model);
}

static Packed bad_no_opset(Arena *arena)
{
    Onnx__ModelProto *model = make_good_model(arena);
    model->n_opset_import = 0;
    return pack_model(arena, model);
}

static Packed bad_nested(Arena *arena)
{
    Onnx__GraphProto *graph = make_graph(arena, "innermost");
    add_output(arena, graph, "y");
    add_node(arena, graph, "Relu", "", "x", "y");
    for (int i = 0; i < 5000; i++) {
        Onnx__GraphProto *outer = make_graph(arena, "body");
        add_output(arena, outer, "y");
        Onnx__NodeProto *node = add_node(arena, outer, "If", "", "c", "y");
        add_graph_attribute(arena, node, "then_branch", graph);
        graph = outer;
    }
    Onnx__ModelProto *model = make_model(arena, 18);
    model->graph = graph;
    add_input(arena, graph, "x");
    add_input(arena, graph, "c");
    return pack_model(arena, model);
}

/* ---- tensors ---- */

static Packed bad_shape_bytes(Arena *arena)
{
    Onnx__ModelProto *model = make_good_model(arena);
    set_raw(arena, model->graph->initializer[0], "0123456789", 10);
    return pack_model(arena, model);
}

static Packed bad_shape_items(Arena *arena)
{
    Onnx__ModelProto *model = make_good_model(arena);
    Onnx__TensorProto *w = model->graph->initializer[0];
    w->has_raw_data = 0;
    APPEND(arena, w, float_data, 1.0f);
    return pack_model(arena, model);
}

static Packed bad_negative_dim(Arena *arena)
{
    Onnx__ModelProto *model = make_good_model(arena);
    model->graph->initializer[0]->dims[0] = -4;
    return pack_model(arena, model);
}

static Packed bad_element_type(Arena *arena)
{
    Onnx__ModelProto *model = make_good_model(arena);
    model->graph->initializer[0]->data_type = 99;
    return pack_model(arena, model);
}

/* The good model with w at bytes `offset` on of a file. */
static Packed external(Arena *arena, const char *location, const char *offset)
{
    Onnx__ModelProto *model = make_good_model(arena);
    Onnx__TensorProto *w = model->graph->initializer[0];
    set_external(arena, w, "location", location);
    set_external(arena, w, "offset", offset);
    set_external(arena, w, "length", "16");
    return pack_model(arena, model);
}

static Packed bad_external_missing(Arena *arena)
{
    return external(arena, "missing.bin", "0");
}

static Packed bad_external_parent(Arena *arena)
{
    return external(arena, "data/../../weights.bin", "0");
}

static Packed bad_external_absolute(Arena *arena)
{
    return external(arena, "/etc/passwd", "0");
}

static Packed bad_external_link(Arena *arena)
{
    return external(arena, "link.bin", "0");
}

static Packed bad_external_linked_folder(Arena *arena)
{
    return external(arena, "linked/weights.bin", "0");
}

static Packed bad_external_past_end(Arena *arena)
{
    return external(arena, "weights.bin", "56");
}

static Packed bad_external_offset(Arena *arena)
{
    return external(arena, "weights.bin", "-8");
}

static Packed bad_external_length(Arena *arena)
{
    Onnx__ModelProto *model = make_good_model(arena);
    Onnx__TensorProto *w = model->graph->initializer[0];
    set_external(arena, w, "location", "weights.bin");
    set_external(arena, w, "length", "12");
    return pack_model(arena, model);
}

/* ---- names and order ---- */

static Packed bad_name_twice(Arena *arena)
{
    Onnx__ModelProto *model = make_good_model(arena);
    add_node(arena, model->graph, "Neg", "/neg", "x", "h");
    return pack_model(arena, model);
}

static Packed bad_cycle(Arena *arena)
{
    Onnx__ModelProto *model = make_good_model(arena);
    add_node(arena, model->graph, "Add", "/a", "x q", "p");
    add_node(arena, model->graph, "Neg", "/b", "p", "q");
    return pack_model(arena, model);
}

static Packed bad_undefined(Arena *arena)
{
    Onnx__ModelProto *model = make_good_model(arena);
    add_node(arena, model->graph, "Mul", "/mul", "weight ww", "z");
    return pack_model(arena, model);
}

static Packed bad_undefined_in_body(Arena *arena)
{
    Onnx__ModelProto *model = make_good_model(arena);
    Onnx__GraphProto *body = make_graph(arena, "body");
    add_node(arena, body, "Add", "/inner", "h nothing", "b");
    add_output(arena, body, "b");
    Onnx__NodeProto *node = add_node(arena, model->graph, "If", "/if", "x", "z");
    add_graph_attribute(arena, node, "then_branch", body);
    add_graph_attribute(arena, node, "else_branch", body);
    return pack_model(arena, model);
}

static Packed bad_output(Arena *arena)
{
    Onnx__ModelProto *model = make_good_model(arena);
    add_output(arena, model->graph, "logits");
    return pack_model(arena, model);
}

static Packed bad_recursive(Arena *arena)
{
    Onnx__ModelProto *model = make_model(arena, 18);
    add_input(arena, model->graph, "x");
    add_output(arena, model->graph, "y");
    APPEND(arena, model->graph, node, make_call(arena, "F", "/f", "x", "y"));
    Onnx__FunctionProto *f = add_function(arena, model, "F", "X", "Y"), *g = add_function(arena, model, "G", "X", "Y");
    APPEND(arena, f, node, make_call(arena, "G", "g", "X", "Y"));
    APPEND(arena, g, node, make_call(arena, "F", "f", "X", "Y"));
    return pack_model(arena, model);
}

/* ---- training artifacts ---- */

static Packed bad_training(Arena *arena)
{
    Onnx__ModelProto *model = make_good_model(arena);
    Onnx__NodeProto *node = add_node(arena, model->graph, "ReluGrad", "/relu_grad", "y h", "dh");
    node->domain = make_text(arena, "com.microsoft");
    return pack_model(arena, model);
}

static Packed bad_evaluation(Arena *arena)
{
    Onnx__ModelProto *model = make_model(arena, 18);
    add_input(arena, model->graph, "x");
    add_input(arena, model->graph, "fc.weight");
    add_input(arena, model->graph, "labels");
    Onnx__TensorShapeProto__Dimension *rows = model->graph->input[1]->type->tensor_type->shape->dim[0];
    rows->dim_param = NULL;
    rows->has_dim_value = 1;
    rows->dim_value = 4;
    add_output(arena, model->graph, "loss");
    add_node(arena, model->graph, "Gemm", "/fc", "x fc.weight", "logits");
    add_node(arena, model->graph, "SoftmaxCrossEntropyLoss", "/loss", "logits labels", "loss");
    return pack_model(arena, model);
}

/* ---- the table: what stands after "disc-gen: error: FOLDER/FILE: "; @ is the folder, \n parts several errors ---- */

#define EXPORT "export the model again"
#define DAMAGED "the file is damaged or cut short, or it is no ONNX file"
#define BESIDE                                                                                                                     \
    "wanted: a plain file in the model's folder or below it; " EXPORT                                                              \
    ", or put the file there and save the model with that location"
#define INSTEAD "give the forward model instead: \"good.onnx\" in the same folder"

static const struct {
    const char *file;
    Packed (*make)(Arena *arena);
    const char *message;
} bad_models[] = {
    {"empty.onnx", bad_empty, "is empty; give a model that was exported to ONNX"},
    {"text.onnx", bad_text, "is a text file, not an ONNX file; give a model that was exported to ONNX"},
    {"lfs.onnx", bad_lfs, "is a Git LFS pointer, not the model itself; fetch the file with: git lfs pull"},
    {"zip.onnx", bad_zip, "is a zip archive (a PyTorch .pt or an .npz file?), not an ONNX file; export the model to ONNX first"},
    {"garbage.onnx", bad_garbage, "a number has more than ten bytes at byte 12 of 13; " DAMAGED},
    {"truncated.onnx", bad_truncated, "a part is longer than what holds it at byte 5 of 69; " DAMAGED},
    {"no_graph.onnx", bad_no_graph, "holds no graph; it is no ONNX model, or it was cut short"},
    {"no_opset.onnx", bad_no_opset,
     "\"/relu\" (Relu, node 0): the file does not say which version of ONNX's operators it uses; wanted: an opset_import of the "
     "default "
     "domain; " EXPORT},
    {"nested.onnx", bad_nested, "graphs (bodies of If, Loop, Scan) are nested more than 64 deep; make the model flatter"},
    {"shape_bytes.onnx", bad_shape_bytes,
     "tensor \"w\": its shape, float[4], asks for 16 bytes, and the file holds 10; the file is damaged, or the tool that wrote it "
     "is at "
     "fault: " EXPORT},
    {"shape_items.onnx", bad_shape_items,
     "tensor \"w\": its shape, float[4], asks for 4 items of float_data, and the file holds 1; the file is damaged, or the tool "
     "that "
     "wrote it is at fault: " EXPORT},
    {"negative_dim.onnx", bad_negative_dim, "tensor \"w\": its shape, float[-4], has a negative dim; " EXPORT},
    {"element_type.onnx", bad_element_type,
     "tensor \"w\": its element type is number 99; wanted one of 1 to 28; the file is damaged, or newer than IR version 14"},
    {"external_missing.onnx", bad_external_missing,
     "tensor \"w\": its data should be in \"@/missing.bin\", and there is no such file; put the weights' file there, or start from "
     "fresh "
     "weights with --init \"normal(0.02)\""},
    {"external_parent.onnx", bad_external_parent,
     "tensor \"w\": its data should be in \"data/../../weights.bin\", which leads out of the model's folder by \"..\"; " BESIDE},
    {"external_absolute.onnx", bad_external_absolute,
     "tensor \"w\": its data should be in \"/etc/passwd\", which is an absolute path; " BESIDE},
    {"external_link.onnx", bad_external_link,
     "tensor \"w\": its data should be in \"link.bin\", which is or leads through a symbolic link; " BESIDE},
    {"external_linked_folder.onnx", bad_external_linked_folder,
     "tensor \"w\": its data should be in \"linked/weights.bin\", which is or leads through a symbolic link; " BESIDE},
    {"external_past_end.onnx", bad_external_past_end,
     "tensor \"w\": its data should be bytes 56 to 72 of \"@/weights.bin\", which has 64; the file is cut short or belongs to "
     "another "
     "model"},
    {"external_offset.onnx", bad_external_offset,
     "tensor \"w\": the offset of its external data is \"-8\"; wanted a number of bytes; " EXPORT},
    {"external_length.onnx", bad_external_length,
     "tensor \"w\": its shape asks for 16 bytes, and its external data has a length of 12; " EXPORT},
    {"name_twice.onnx", bad_name_twice,
     "\"h\" is defined twice: by \"/relu\" (Relu, node 0) and by \"/neg\" (Neg, node 2); each name may stand for one "
     "value; " EXPORT},
    {"cycle.onnx", bad_cycle,
     "nodes wait for each other in a cycle: \"/a\" (Add, node 2) needs \"/b\" (Neg, node 3) needs \"/a\" (Add, node 2); " EXPORT},
    {"undefined.onnx", bad_undefined,
     "\"/mul\" (Mul, node 2): it uses \"weight\", which no node makes and which is neither input nor initializer; the file is "
     "incomplete: " EXPORT "\n\"/mul\" (Mul, node 2): it uses \"ww\", which no node makes and which is neither input nor "
     "initializer (near to it: \"w\"); the "
     "file is incomplete: " EXPORT},
    {"undefined_in_body.onnx", bad_undefined_in_body,
     "\"/inner\" (Add, node 0): it uses \"nothing\", which no node makes and which is neither input nor initializer; the file is "
     "incomplete: " EXPORT},
    {"output.onnx", bad_output, "output \"logits\" of the graph is made by no node; the file is incomplete: " EXPORT},
    {"recursive.onnx", bad_recursive,
     "\"/f/g/f\" (F, node 0): the function calls itself (F, called by G, called by F); functions of a model must not be recursive"},
    {"artifacts/training.onnx", bad_training,
     "is a training graph that ONNX Runtime made, not a model: \"/relu_grad\" (ReluGrad, node 2) belongs to a training "
     "step; " INSTEAD},
    {"artifacts/evaluation.onnx", bad_evaluation,
     "is an evaluation graph that ONNX Runtime's training tools made: it has a loss, and its weights (\"fc.weight\", …) are inputs "
     "without "
     "values; " INSTEAD},
    {"artifacts/checkpoint.onnx", bad_checkpoint, "is a checkpoint of ONNX Runtime's training: weights without a model; " INSTEAD},
};
enum { N_BAD_MODELS = sizeof bad_models / sizeof *bad_models };

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void make_folder(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return;
    perror(path);
    exit(1);
}

static void link_beside(Arena *arena, const char *folder, const char *to, const char *name)
{
    const char *path = arena_text(arena, "%s/%s", folder, name);
    unlink(path);
    if (symlink(to, path) != 0) {
        perror(path);
        exit(1);
    }
}

/* Makes the folder.  Beside the files of the table: weights.bin (64 bytes), links to it and to the folder, artifacts/good.onnx. */
static void write_bad_models(Arena *arena, const char *folder)
{
    Packed good = pack_model(arena, make_good_model(arena));
    make_folder(folder);
    make_folder(arena_text(arena, "%s/artifacts", folder));
    write_file(arena_text(arena, "%s/artifacts/good.onnx", folder), good.bytes, good.size);
    write_file(arena_text(arena, "%s/weights.bin", folder), arena_alloc(arena, 64), 64);
    link_beside(arena, folder, "weights.bin", "link.bin");
    link_beside(arena, folder, ".", "linked");
    for (int i = 0; i < N_BAD_MODELS; i++) {
        Packed bad = bad_models[i].make(arena);
        write_file(arena_text(arena, "%s/%s", folder, bad_models[i].file), bad.bytes, bad.size);
    }
}

/* All that standard error must hold for file i. */
static const char *bad_model_errors(Arena *arena, const char *folder, int i)
{
    Buf out = {.arena = arena};
    const char *begin = arena_text(arena, "disc-gen: error: %s/%s: ", folder, bad_models[i].file);
    buf_put(&out, begin);
    for (const char *c = bad_models[i].message; *c; c++) {
        if (*c == '@')
            buf_put(&out, folder);
        else
            buf_write(&out, c, 1);
        if (*c == '\n') buf_put(&out, begin);
    }
    buf_put(&out, "\n");
    return buf_text(&out);
}
#endif
