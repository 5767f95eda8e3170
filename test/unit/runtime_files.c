/* Tensor files: safetensors, npz, npy, TensorProto; conversions; and thousands of damaged files, none of which may do more than
 * fail. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>
#include <cmocka.h>
#include "../../runtime/trainer/data.h"
#include "../../runtime/trainer/files.h"
#include "../../runtime/trainer/tensors.h"
#include "tiny.h"

static char folder[] = "/tmp/files_test_XXXXXX";

static const char *path(const char *name)
{
    static char paths[4][256];
    static int next;
    char *out = paths[next++ % 4];
    snprintf(out, sizeof paths[0], "%s/%s", folder, name);
    return out;
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    FILE *out = fopen(path(name), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    fclose(out);
}

static size_t read_file(const char *name, unsigned char *out, size_t most)
{
    FILE *in = fopen(path(name), "rb");
    assert_non_null(in);
    size_t n = fread(out, 1, most, in);
    fclose(in);
    return n;
}

/* ---- making files ---- */
static void write_safetensors(const char *name)
{
    static const float w[6] = {1, 2, 3, 4, 5, 6};
    static const int64_t ids[2] = {-7, INT64_MAX};
    const Entry entries[] = {
        {"w \"quoted\"", F32, 2, {2, 3}}, {"ids", I64, 1, {2}}, {"empty", U8, 1, {0}}, {"scalar", F32, 0, {0}}};
    const char *keys[] = {"format"}, *values[] = {"a\nb"};
    FileWriter writer;
    Fault fault;
    assert_int_equal(file_writer_open(&writer, path(name), &fault), 0);
    assert_int_equal(safetensors_begin(&writer, entries, 4, keys, values, 1, &fault), 0);
    assert_int_equal(file_writer_write(&writer, w, sizeof w, &fault), 0);
    assert_int_equal(file_writer_write(&writer, ids, sizeof ids, &fault), 0);
    assert_int_equal(file_writer_write(&writer, w, 4, &fault), 0);
    assert_int_equal(file_writer_commit(&writer, &fault), 0);
}

/* An npy file as numpy writes it; returns its size. */
static size_t make_npy(unsigned char *out, const char *descr, const char *fortran, const char *shape, const void *data,
                       size_t bytes)
{
    char header[200];
    int length = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, fortran, shape);
    while ((10 + length + 1) % 64) header[length++] = ' ';
    header[length++] = '\n';
    memcpy(out, "\x93NUMPY\1\0", 8);
    out[8] = (unsigned char)length, out[9] = (unsigned char)(length >> 8);
    memcpy(out + 10, header, (size_t)length);
    memcpy(out + 10 + length, data, bytes);
    return 10 + (size_t)length + bytes;
}

static void write_npz(const char *name)
{
    static unsigned char files[3][512];
    static const double x[4] = {1, 2, 3, 4};
    static const uint8_t flags[3] = {1, 0, 1};
    int error;
    size_t sizes[3] = {make_npy(files[0], "<f8", "False", "(2, 2)", x, sizeof x),
                       make_npy(files[1], "|b1", "False", "(3,)", flags, 3),
                       make_npy(files[2], "<f8", "True", "(2, 2)", x, sizeof x)};
    static const char *const names[] = {"x.npy", "flags.npy", "turned.npy"};
    zip_t *archive = zip_open(path(name), ZIP_CREATE | ZIP_TRUNCATE, &error);
    for (int i = 0; i < 3; i++) {
        zip_int64_t at = zip_file_add(archive, names[i], zip_source_buffer(archive, files[i], sizes[i], 0), 0);
        zip_set_file_compression(archive, (zip_uint64_t)at, i ? ZIP_CM_STORE : ZIP_CM_DEFLATE, 0);
    }
    assert_int_equal(zip_close(archive), 0);
}

/* ---- tests ---- */
static void safetensors_round_trip(void **state)
{
    (void)state;
    TensorFile file;
    Fault fault;
    write_safetensors("a");
    assert_int_equal(tensor_file_open(&file, path("a"), &fault), 0);
    assert_int_equal(file.n, 4);
    assert_string_equal(tensor_metadata(&file, "format"), "a\nb");
    FileTensor *w = tensor_find(&file, "w \"quoted\""), *ids = tensor_find(&file, "ids");
    assert_true(w && w->rank == 2 && w->dims[1] == 3 && ((const float *)w->data)[5] == 6);
    assert_true(ids && ((const int64_t *)ids->data)[1] == INT64_MAX);
    assert_int_equal(tensor_find(&file, "scalar")->rank, 0);
    assert_int_equal(tensor_find(&file, "empty")->bytes, 0);
    assert_null(tensor_find(&file, "none"));
    tensor_file_close(&file);
}

static void npz_reads(void **state)
{
    (void)state;
    TensorFile file;
    Fault fault;
    write_npz("a.npz");
    assert_int_equal(tensor_file_open(&file, path("a.npz"), &fault), 0);
    FileTensor *x = tensor_find(&file, "x"), *flags = tensor_find(&file, "flags"), *turned = tensor_find(&file, "turned");
    assert_int_equal(tensor_data(&file, x, &fault), 0);
    assert_true(x->dtype == F64 && x->rank == 2 && ((const double *)x->data)[3] == 4);
    assert_int_equal(tensor_data(&file, flags, &fault), 0);
    assert_true(flags->dtype == BOOL && ((const uint8_t *)flags->data)[2] == 1);
    assert_int_equal(tensor_data(&file, turned, &fault), 2);
    assert_non_null(strstr(fault.text, "Fortran"));
    tensor_file_close(&file);
}

static void npy_lists_read(void **state)
{
    (void)state;
    unsigned char bytes[512];
    static const int32_t ids[3] = {4, 5, 6};
    TensorFile file;
    Fault fault;
    char list[600];
    write_file("ids.npy", bytes, make_npy(bytes, "<i4", "False", "(3,)", ids, sizeof ids));
    snprintf(list, sizeof list, "ids=%s,again=%s", path("ids.npy"), path("ids.npy"));
    assert_int_equal(tensor_file_open(&file, list, &fault), 0);
    assert_int_equal(file.n, 2);
    assert_int_equal(((const int32_t *)tensor_find(&file, "again")->data)[2], 6);
    tensor_file_close(&file);
    assert_int_equal(tensor_file_open(&file, path("ids.npy"), &fault), 2);
    write_file("cut.npy", bytes, make_npy(bytes, "<i4", "False", "(400,)", ids, sizeof ids));
    snprintf(list, sizeof list, "ids=%s", path("cut.npy"));
    assert_int_equal(tensor_file_open(&file, list, &fault), 2);
    snprintf(list, sizeof list, "ids=%s,", path("nowhere.npy"));
    assert_int_equal(tensor_file_open(&file, list, &fault), 2);
}

/* dims 2, 3; int64; values as packed varints, then the same as raw data. */
static const unsigned char packed[] = {8, 2, 8, 3, 16, 7, 58, 6, 1, 2, 3, 4, 5, 6};
static const unsigned char claims[] = {8, 128, 128, 128, 128, 128, 16, 16, 7}; /* 2^39 elements, and holds none */
static const unsigned char floats[] = {10, 1, 2, 16, 1, 74, 8, 0, 0, 128, 63, 0, 0, 0, 64};

static void tensor_protos_read(void **state)
{
    (void)state;
    TensorFile file;
    Fault fault;
    mkdir(path("set"), 0777);
    write_file("set/input_0.pb", floats, sizeof floats);
    write_file("set/input_1.pb", packed, sizeof packed);
    assert_int_equal(onnx_folder_read(&file, path("set"), &tiny, &fault), 0);
    FileTensor *x = tensor_find(&file, "x"), *code = tensor_find(&file, "code");
    assert_true(x->rank == 2 && x->dims[0] == 1 && x->dims[1] == 2 && ((const float *)x->data)[1] == 2);
    assert_true(code->rank == 2 && code->dims[1] == 3 && ((const int64_t *)code->data)[5] == 6);
    tensor_file_close(&file);
    write_file("set/input_1.pb", claims, sizeof claims);
    assert_int_equal(onnx_folder_read(&file, path("set"), &tiny, &fault), 0);
    assert_non_null(tensor_find(&file, "code")->unusable);
    tensor_file_close(&file);
    mkdir(path("nothing"), 0777);
    assert_int_equal(onnx_folder_read(&file, path("nothing"), &tiny, &fault), 2);
}

static void conversions(void **state)
{
    (void)state;
    assert_int_equal(dtype_becomes(I32, I64), BECOMES_WIDER);
    assert_int_equal(dtype_becomes(U8, I16), BECOMES_WIDER);
    assert_int_equal(dtype_becomes(BOOL, I64), BECOMES_WIDER);
    assert_int_equal(dtype_becomes(I64, I32), BECOMES_NOT);
    assert_int_equal(dtype_becomes(I8, U16), BECOMES_NOT);
    assert_int_equal(dtype_becomes(F32, I64), BECOMES_NOT);
    assert_int_equal(dtype_becomes(I64, F32), BECOMES_NOT);
    assert_int_equal(dtype_becomes(F64, F32), BECOMES_ROUNDED);
    assert_int_equal(dtype_becomes(F16, F32), BECOMES_ROUNDED);
    assert_int_equal(dtype_becomes(F32, F64), BECOMES_WIDER);
    const int8_t small[] = {-1, 127};
    int64_t large[2];
    tensor_convert(large, I64, small, I8, 2);
    assert_true(large[0] == -1 && large[1] == 127);
    /* Every half goes to float and back unchanged, NaNs aside; so does every bfloat. */
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t in = (uint16_t)h, out;
        float f;
        tensor_convert(&f, F32, &in, F16, 1);
        tensor_convert(&out, F16, &f, F32, 1);
        assert_true(f != f || in == out);
        tensor_convert(&f, F32, &in, BF16, 1);
        tensor_convert(&out, BF16, &f, F32, 1);
        assert_true(f != f || in == out);
    }
    const float hard[] = {65519.99f, 65520, 0x1p-25f, 0x1.000002p-25f, 1 + 0x1p-11f, 1 + 0x1.8p-10f};
    uint16_t halves[6];
    static const uint16_t rounded[6] = {0x7bff, 0x7c00, 0, 1, 0x3c00, 0x3c02};
    tensor_convert(halves, F16, hard, F32, 6);
    assert_memory_equal(halves, rounded, sizeof rounded);
}

/* Opens whatever it is and reads all of it; only crashes would show. */
static void read_everything(const char *name)
{
    TensorFile file;
    Fault fault;
    if (tensor_file_open(&file, path(name), &fault)) {
        assert_true(fault.status == 2 && fault.text[0]);
        return;
    }
    unsigned sum = 0;
    for (int i = 0; i < file.n; i++) {
        FileTensor *t = &file.tensors[i];
        if (tensor_data(&file, t, &fault) == 0)
            for (size_t k = 0; k < t->bytes; k++) sum += ((const unsigned char *)t->data)[k];
    }
    tensor_file_close(&file);
    (void)sum;
}

static void damage(const char *name, int trials, uint64_t seed)
{
    static unsigned char bytes[8192], copy[8192];
    size_t n = read_file(name, bytes, sizeof bytes);
    for (int trial = 0; trial < trials; trial++) {
        memcpy(copy, bytes, n);
        size_t kept = n;
        for (int k = 0; k < 1 + trial % 4; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            copy[(seed >> 33) % n] = (unsigned char)(seed >> 24);
        }
        if (trial % 5 == 0) kept = (seed >> 40) % n;
        write_file("damaged", copy, kept);
        read_everything("damaged");
    }
}

static void damaged_files_only_fail(void **state)
{
    (void)state;
    write_safetensors("a");
    write_npz("a.npz");
    damage("a", 3000, 1);
    damage("a.npz", 2000, 2);
}

static void damaged_protos_only_fail(void **state)
{
    (void)state;
    uint64_t seed = 3;
    mkdir(path("hurt"), 0777);
    for (int trial = 0; trial < 3000; trial++) {
        unsigned char copy[64];
        const unsigned char *from = trial % 2 ? packed : floats;
        size_t n = trial % 2 ? sizeof packed : sizeof floats;
        memcpy(copy, from, n);
        for (int k = 0; k < 1 + trial % 3; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            copy[(seed >> 33) % n] = (unsigned char)(seed >> 24);
        }
        write_file("hurt/input_0.pb", copy, trial % 7 ? n : (seed >> 40) % n);
        TensorFile file;
        Fault fault;
        if (onnx_folder_read(&file, path("hurt"), &tiny, &fault)) continue;
        if (file.n && tensor_data(&file, &file.tensors[0], &fault) == 0) {
            volatile unsigned sum = 0;
            for (size_t k = 0; k < file.tensors[0].bytes; k++) sum += ((const unsigned char *)file.tensors[0].data)[k];
        }
        tensor_file_close(&file);
    }
}

static void an_abandoned_file_leaves_nothing(void **state)
{
    (void)state;
    FileWriter writer;
    Fault fault;
    write_file("old", "old", 3);
    assert_int_equal(file_writer_open(&writer, path("old"), &fault), 0);
    assert_int_equal(file_writer_write(&writer, "new", 3, &fault), 0);
    file_writer_abandon(&writer);
    unsigned char bytes[8];
    assert_int_equal(read_file("old", bytes, 8), 3);
    assert_memory_equal(bytes, "old", 3);
    assert_int_equal(file_writer_open(&writer, path("no/where"), &fault), 2);
    file_writer_abandon(&writer);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_round_trip),
        cmocka_unit_test(npz_reads),
        cmocka_unit_test(npy_lists_read),
        cmocka_unit_test(tensor_protos_read),
        cmocka_unit_test(conversions),
        cmocka_unit_test(damaged_files_only_fail),
        cmocka_unit_test(damaged_protos_only_fail),
        cmocka_unit_test(an_abandoned_file_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
