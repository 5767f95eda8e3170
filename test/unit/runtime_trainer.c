/* The trainer end to end on a model written by hand (tiny.h): training, budget, anomalies, checkpoints, signals, evaluation, the
 * runner. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../runtime/trainer/files.h"
#include "../../runtime/trainer/init.h"
#include "../../runtime/trainer/session.h"
#include "../../runtime/trainer/trainer.h"
#include "tiny.h"

static char folder[] = "/tmp/trainer_test_XXXXXX";

/* A path in the test's folder; four may be in use at once. */
static const char *path(const char *name)
{
    static char paths[4][256];
    static int next;
    char *out = paths[next++ % 4];
    snprintf(out, sizeof paths[0], "%s/%s", folder, name);
    return out;
}

/* ---- data ---- */
static float noise(uint64_t i)
{
    return (float)(splitmix64(i) >> 40) / (float)(1 << 23) - 1;
}

static void example(int64_t i, float *x, int64_t *code, float *target)
{
    for (int j = 0; j < TINY_WIDTH; j++) x[j] = noise((uint64_t)(i * 8 + j));
    *code = (int64_t)(splitmix64((uint64_t)(i * 8 + 7)) % TINY_CODES);
    *target = x[0] - 2 * x[1] + 0.5f * x[2] + (float)*code;
}

static void put(FileWriter *w, const void *data, size_t bytes)
{
    Fault fault;
    assert_int_equal(file_writer_write(w, data, bytes, &fault), 0);
}

enum { SOUND = 0, CODE_TOO_HIGH = 1, TARGET_NOT_FINITE = 2, CODE_SHORT = 3, CODE_MATRIX = 4 };

/* n batches of sizes[k] samples as "step<k>.NAME" (named: samples of one batch as "NAME"); batch `bad` has the flaw. */
static void write_batches(const char *file, const int64_t *sizes, int n, int bad, int flaw, bool named)
{
    Entry entries[3 * 16];
    char names[3 * 16][32];
    static const char *const inputs[] = {"x", "code", "labels"};
    static const int dtypes[] = {F32, I64, F32};
    FileWriter w;
    Fault fault;
    assert_int_equal(file_writer_open(&w, path(file), &fault), 0);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < 3; i++) {
            Entry *e = &entries[3 * k + i];
            if (named)
                snprintf(names[3 * k + i], 32, "%s", inputs[i]);
            else
                snprintf(names[3 * k + i], 32, "step%d.%s", k, inputs[i]);
            *e = (Entry){names[3 * k + i], dtypes[i], i == 0 ? 2 : 1, {sizes[k], TINY_WIDTH}};
            if (k == bad && flaw == CODE_SHORT && i == 1) e->dims[0]--;
            if (k == bad && flaw == CODE_MATRIX && i == 1) e->rank = 2, e->dims[1] = 1;
        }
    assert_int_equal(safetensors_begin(&w, entries, 3 * n, NULL, NULL, 0, &fault), 0);
    int64_t first = 0;
    for (int k = 0; k < n; first += sizes[k++]) {
        float x[TINY_WIDTH], target;
        int64_t code;
        for (int64_t s = 0; s < sizes[k]; s++) example(first + s, x, &code, &target), put(&w, x, sizeof x);
        for (int64_t s = 0; s < sizes[k] - (k == bad && flaw == CODE_SHORT); s++) {
            example(first + s, x, &code, &target);
            if (k == bad && flaw == CODE_TOO_HIGH) code = TINY_CODES;
            put(&w, &code, 8);
        }
        for (int64_t s = 0; s < sizes[k]; s++) {
            example(first + s, x, &code, &target);
            if (k == bad && flaw == TARGET_NOT_FINITE) target = INFINITY;
            put(&w, &target, 4);
        }
    }
    assert_int_equal(file_writer_commit(&w, &fault), 0);
}

static const int64_t six[] = {4, 7, 2, 40, 4, 5}, hundred[] = {103};

/* ---- running ---- */
enum { MOST_ARGUMENTS = 40 };

/* Runs a program with words parted by spaces; "@NAME" is a file in the test's folder. */
static int run_words(int (*program)(const Model *, int, char **), const char *words)
{
    char text[2000], *argv[MOST_ARGUMENTS] = {"program"};
    char files[MOST_ARGUMENTS][256];
    int argc = 1;
    snprintf(text, sizeof text, "%s", words);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        argv[argc] = word;
        if (*word == '@') snprintf(files[argc], 256, "%s/%s", folder, word + 1), argv[argc] = files[argc];
        argc++;
    }
    return program(&tiny, argc, argv);
}

static int trainer(const char *words)
{
    char all[2000];
    snprintf(all, sizeof all, "%s --progress never", words);
    return run_words(trainer_main, all);
}

static char *read_text(const char *name)
{
    FILE *in = fopen(path(name), "rb");
    assert_non_null(in);
    char *text = calloc(1, 1 << 20);
    size_t n = fread(text, 1, (1 << 20) - 1, in);
    fclose(in);
    text[n] = 0;
    return text;
}

/* The losses of a log, in order. */
static int read_losses(const char *name, double *out, int most)
{
    char *text = read_text(name);
    int n = 0;
    for (const char *at = text; (at = strstr(at, "\"loss\":")) && n < most; at += 7) out[n++] = atof(at + 7);
    free(text);
    return n;
}

static bool log_says(const char *name, const char *what)
{
    char *text = read_text(name);
    bool found = strstr(text, what) != NULL;
    free(text);
    return found;
}

static bool same_files(const char *a, const char *b)
{
    char *x = read_text(a), *y = read_text(b);
    bool same = !memcmp(x, y, 1 << 20);
    free(x);
    free(y);
    return same;
}

/* ---- tests ---- */
static void trains_and_saves(void **state)
{
    (void)state;
    double losses[200];
    assert_int_equal(trainer("--batch-file @six --steps 120 --log @log --save-weights @w --save-gradients @g --lr 0.05"), 0);
    assert_int_equal(read_losses("log", losses, 200), 120);
    assert_true(losses[119] < 0.01 * losses[0]);
    assert_true(log_says("log", "{\"step\":0,\"loss\":"));
    assert_true(log_says("log", ",\"dims\":{\"batch\":4},\"seconds\":"));
    TensorFile weights, gradients;
    Fault fault;
    assert_int_equal(tensor_file_open(&weights, path("w"), &fault), 0);
    assert_int_equal(weights.n, 3);
    const float *w = tensor_find(&weights, "w")->data;
    assert_true(fabsf(w[0] - 1) < 0.2f && fabsf(w[1] + 2) < 0.2f);
    assert_true(*(const float *)tensor_find(&weights, "count")->data == 121);
    tensor_file_close(&weights);
    assert_int_equal(tensor_file_open(&gradients, path("g"), &fault), 0);
    assert_non_null(tensor_find(&gradients, "table"));
    assert_null(tensor_find(&gradients, "count"));
    tensor_file_close(&gradients);
}

static void samples_are_shuffled_and_all_used(void **state)
{
    (void)state;
    double one[100], two[100], other[100];
    assert_int_equal(trainer("--data @hundred --batch-size 10 --epochs 2 --log @log"), 0);
    assert_int_equal(read_losses("log", one, 100), 22);
    assert_true(log_says("log", "\"dims\":{\"batch\":3}"));
    assert_int_equal(trainer("--data @hundred --batch-size 10 --epochs 2 --log @log"), 0);
    read_losses("log", two, 100);
    assert_memory_equal(one, two, 22 * sizeof *one);
    assert_int_equal(trainer("--data @hundred --batch-size 10 --epochs 2 --seed 1 --log @log"), 0);
    read_losses("log", other, 100);
    assert_true(one[0] != other[0]);
}

static void budget_is_exact(void **state)
{
    (void)state;
    Session *s;
    Fault fault;
    SessionOptions options = {.training = true};
    int64_t dims[] = {40}, peak;
    assert_int_equal(session_open(&s, &tiny, &options, &fault), 0);
    assert_int_equal(session_peak(s, tiny.train, dims, &peak, &fault), 0);
    session_close(s);
    char words[200];
    snprintf(words, sizeof words, "--batch-file @six --log @log --memory-limit %lld", (long long)peak);
    assert_int_equal(trainer(words), 0);
    snprintf(words, sizeof words, ",\"peak_bytes\":%lld,", (long long)peak);
    assert_true(log_says("log", words));
    unlink(path("log"));
    snprintf(words, sizeof words, "--batch-file @six --log @log --memory-limit %lld", (long long)peak - 1);
    assert_int_equal(trainer(words), 3);
    assert_int_not_equal(access(path("log"), F_OK), 0); /* nothing ran */
}

/* The device's high-water mark is the largest peak so far; once the arena is large enough, no step allocates. */
static void memory_is_what_was_planned(void **state)
{
    (void)state;
    Session *s;
    Fault fault;
    SessionOptions options = {.training = true, .plan_again = true};
    StepResult result;
    Batch batch;
    float x[60 * TINY_WIDTH], target[60];
    int64_t code[60], largest = 0;
    for (int i = 0; i < 60; i++) example(i, x + i * TINY_WIDTH, code + i, target + i);
    assert_int_equal(session_open(&s, &tiny, &options, &fault), 0);
    assert_int_equal(session_load_weights(s, NULL, true, &fault), 0);
    assert_int_equal(batch_create(&batch, &tiny), 0);
    const void *data[] = {x, code, target};
    int64_t allocations = 0;
    static const int64_t sizes[] = {3, 50, 7, 50, 60, 1, 2};
    for (int k = 0; k < 7; k++) {
        for (int i = 0; i < 3; i++) {
            size_t bytes = (size_t)sizes[k] * (i == 0 ? 4 * TINY_WIDTH : i == 1 ? 8 : 4);
            assert_int_equal(batch_reserve(&batch.inputs[i], bytes), 0);
            memcpy(batch.inputs[i].data, data[i], bytes);
            batch.inputs[i].present = true;
            batch.inputs[i].rank = i == 0 ? 2 : 1;
            batch.inputs[i].dims[0] = sizes[k], batch.inputs[i].dims[1] = TINY_WIDTH;
        }
        allocations = device_allocations(s->device);
        assert_int_equal(session_run(s, tiny.train, &batch, &result, &fault), 0);
        if (result.peak_bytes > largest)
            largest = result.peak_bytes;
        else
            assert_int_equal(device_allocations(s->device), allocations);
        assert_int_equal(device_high_water(s->device), largest);
    }
    batch_destroy(&batch);
    session_close(s);
}

static void anomalies_stop(void **state)
{
    (void)state;
    static const int flaws[] = {CODE_TOO_HIGH, TARGET_NOT_FINITE, CODE_SHORT, CODE_MATRIX};
    static const char *const guards[] = {"code_in_table", "finite_loss", "code_shape", "code_rank"};
    assert_int_equal(trainer("--batch-file @six --steps 2 --save-weights @want"), 0);
    for (int i = 0; i < 4; i++) {
        char guard[64];
        snprintf(guard, sizeof guard, "{\"event\":\"stopped\",\"step\":2,\"guard\":\"%s\"", guards[i]);
        write_batches("bad", six, 6, 2, flaws[i], false);
        unlink(path("ck/checkpoint.safetensors"));
        assert_int_equal(trainer("--batch-file @bad --on-anomaly stop --checkpoint @ck --log @log"), 4);
        assert_true(log_says("log", guard));
        TensorFile want, have; /* the checkpoint has the weights of before that batch */
        Fault fault;
        assert_int_equal(tensor_file_open(&want, path("want"), &fault), 0);
        assert_int_equal(tensor_file_open(&have, path("ck/checkpoint.safetensors"), &fault), 0);
        for (int k = 0; k < want.n; k++)
            assert_memory_equal(want.tensors[k].data, tensor_find(&have, want.tensors[k].name)->data, want.tensors[k].bytes);
        tensor_file_close(&want);
        tensor_file_close(&have);
    }
}

static void anomalies_are_set_aside(void **state)
{
    (void)state;
    double losses[10];
    write_batches("bad", six, 6, 2, CODE_TOO_HIGH, false);
    assert_int_equal(trainer("--batch-file @bad --log @log --on-anomaly skip"), 4); /* one of six is more than 1 % */
    assert_int_equal(read_losses("log", losses, 10), 5);
    assert_true(log_says("log", "{\"event\":\"set_aside\",\"step\":2"));
    assert_int_equal(trainer("--batch-file @bad --max-skipped 20%"), 0);
    assert_int_equal(trainer("--batch-file @bad --max-skipped 0.16"), 4);
    assert_int_equal(trainer("--batch-file @bad --steps 1000 --log @log"), 4); /* judged at the hundredth */
    assert_true(log_says("log", "\"step\":99,") && !log_says("log", "\"step\":100,"));
}

static void wide_batches_are_planned_again(void **state)
{
    (void)state;
    assert_int_equal(trainer("--data @hundred --batch-size 80 --log @log"), 0);
    assert_true(log_says("log", "{\"event\":\"planned_again\",\"step\":0,\"guard\":\"batch_range\""));
    assert_int_equal(trainer("--data @hundred --batch-size 80 --on-anomaly stop"), 4);
}

static void resumes_bit_for_bit(void **state)
{
    (void)state;
    double whole[200], parts[200];
    static const char *const data[] = {"--data @hundred --batch-size 10 --seed 3", "--batch-file @six"};
    for (int i = 0; i < 2; i++) {
        char words[400];
        snprintf(words, sizeof words, "%s --steps 50 --log @log --save-weights @w1", data[i]);
        assert_int_equal(trainer(words), 0);
        assert_int_equal(read_losses("log", whole, 200), 50);
        snprintf(words, sizeof words, "%s --steps 17 --log @log --checkpoint @ck%d --lr 0.05", data[i], i);
        assert_int_equal(trainer(words), 0);
        snprintf(words, sizeof words, "%s --steps 50 --log @log --checkpoint @ck%d --resume --save-weights @w2",
                 i ? data[1] : "--data @hundred", i);
        assert_int_equal(trainer(words), 0);
        assert_int_equal(read_losses("log", parts, 200), 50);
        assert_memory_equal(whole, parts, 50 * sizeof *whole);
        assert_true(same_files("w1", "w2"));
    }
}

/* A run that was killed has logged more than its last checkpoint knows; going on from there leaves one line a step. */
static void resumed_logs_have_each_step_once(void **state)
{
    (void)state;
    double whole[200], parts[200];
    assert_int_equal(trainer("--data @hundred --steps 40 --log @log"), 0);
    read_losses("log", whole, 200);
    assert_int_equal(trainer("--data @hundred --steps 10 --checkpoint @killed"), 0);
    assert_int_equal(trainer("--data @hundred --steps 23 --log @log"), 0);
    FILE *out = fopen(path("log"), "a");
    fputs("{\"step\":23,\"loss\":1.2", out); /* cut short */
    fclose(out);
    assert_int_equal(trainer("--data @hundred --steps 40 --checkpoint @killed --resume --log @log"), 0);
    assert_int_equal(read_losses("log", parts, 200), 40);
    assert_memory_equal(whole, parts, 40 * sizeof *whole);
}

static void torn_checkpoints_are_refused(void **state)
{
    (void)state;
    assert_int_equal(trainer("--data @hundred --steps 3 --checkpoint @torn"), 0);
    assert_int_equal(truncate(path("torn/checkpoint.safetensors"), 500), 0);
    assert_int_equal(trainer("--data @hundred --steps 6 --checkpoint @torn --resume"), 2);
    write_batches("torn/checkpoint.safetensors", six, 6, -1, SOUND, false);
    assert_int_equal(trainer("--data @hundred --steps 6 --checkpoint @torn --resume"), 2);
    assert_int_equal(trainer("--data @hundred --steps 6 --checkpoint @nowhere --resume"), 2);
}

static void signals_end_with_a_checkpoint(void **state)
{
    (void)state;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGTERM); /* waits until the trainer asks */
    assert_int_equal(trainer("--data @hundred --steps 1000 --checkpoint @signalled --log @log"), 128 + SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    assert_int_equal(access(path("signalled/checkpoint.safetensors"), F_OK), 0);
    assert_int_equal(trainer("--data @hundred --steps 5 --checkpoint @signalled --resume"), 0);
}

static void evaluates(void **state)
{
    (void)state;
    assert_int_equal(trainer("--batch-file @six --steps 600 --save-weights @w"), 0);
    assert_int_equal(trainer("--evaluate --batch-file @six --load-weights @w --json"), 0);
    assert_int_equal(trainer("--evaluate --data @hundred --load-weights @w --json"), 0);
    write_batches("bad", six, 6, 2, CODE_TOO_HIGH, false);
    assert_int_equal(trainer("--evaluate --batch-file @bad --load-weights @w"), 4);
}

static void plans_without_data(void **state)
{
    (void)state;
    assert_int_equal(trainer("--plan --dim batch=7 --json"), 0);
    assert_int_equal(trainer("--plan"), 0);
    assert_int_equal(trainer("--plan --evaluate --memory-limit 1K"), 0);
    assert_int_equal(trainer("--plan --dim bach=7"), 2);
    assert_int_equal(trainer("--plan --dim batch=9223372036854775807"), 3);
    assert_int_equal(trainer("--plan --dim batch=-1"), 2);
}

static void wrong_input_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "--batch-file @nowhere",
        "--batch-file @six --stps 3",
        "--batch-file @six --steps 3x",
        "--batch-file @six --steps -3",
        "--batch-file @six --lr nan",
        "--batch-file @six --lr",
        "--batch-file @six --beta1 0.9",
        "--batch-file @six --batch-size 3",
        "--batch-file @six --data @hundred",
        "--batch-file @six --export @x",
        "--batch-file @six --row-blocks 0",
        "--batch-file @six --resume",
        "--batch-file @six --memory-limit 3Q",
        "--batch-file @six --memory-limit 0",
        "--batch-file @six --max-skipped 5",
        "--batch-file @six --on-anomaly panic",
        "--batch-file @six --dim batch=3",
        "--batch-file @six --save-weights @no/where",
        "--batch-file @six --log @no/where",
        "--batch-file @six --load-weights @six",
        "--batch-file @hundred",
        "--data @six",
        "--data @hundred --plan=yes",
        "six",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (trainer(wrong[i]) != 2) fail_msg("\"%s\": wanted exit status 2", wrong[i]);
    assert_int_equal(trainer("--help"), 0);
    assert_int_equal(trainer("--data=@hundred --steps=1 --memory-limit 1.5MiB"), 2); /* "=@" is no file here */
    assert_int_equal(trainer("--data @hundred --steps=1 --memory-limit 1.5MiB --row-blocks 1 --recompute off --offload auto"), 0);
}

static void faults_of_the_device(void **state)
{
    (void)state;
    setenv("DISC_FAULT", "allocation=1", 1);
    assert_int_equal(trainer("--batch-file @six"), 3);
    setenv("DISC_FAULT", "allocation=2", 1);
    assert_int_equal(trainer("--batch-file @six"), 3);
    setenv("DISC_FAULT", "allocation=3", 1); /* the larger arena of batch 3 */
    assert_int_equal(trainer("--batch-file @six --log @log"), 3);
    assert_true(log_says("log", "\"step\":2,"));
    setenv("DISC_FAULT", "allocation=3", 1);
    assert_int_equal(trainer("--batch-file @six --checkpoint @short"), 3);
    unsetenv("DISC_FAULT");
    assert_int_equal(trainer("--batch-file @six --checkpoint @short --resume"), 0);
}

static void full_disk_is_told(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK)) skip();
    assert_int_equal(trainer("--batch-file @six --save-weights /dev/full"), 2);
    assert_int_equal(trainer("--batch-file @six --log /dev/full"), 2);
    assert_int_equal(access("/dev/full", W_OK), 0); /* still there: devices are not renamed over */
}

static void runner_runs(void **state)
{
    (void)state;
    assert_int_equal(trainer("--batch-file @six --steps 1 --save-weights @w"), 0);
    assert_int_equal(run_words(runner_main, "--inputs @hundred --outputs @out --load-weights @w"), 0);
    TensorFile out;
    Fault fault;
    assert_int_equal(tensor_file_open(&out, path("out"), &fault), 0);
    FileTensor *y = tensor_find(&out, "y");
    assert_true(y && y->dtype == F32 && y->rank == 1 && y->dims[0] == 103);
    tensor_file_close(&out);
    write_batches("one_bad", six, 1, 0, CODE_TOO_HIGH, true);
    assert_int_equal(run_words(runner_main, "--inputs @one_bad --outputs @out --load-weights @w"), 4);
    assert_int_equal(run_words(runner_main, "--inputs @six --outputs @out"), 2);
    assert_int_equal(run_words(runner_main, "--inputs @hundred"), 2);
}

static void two_sessions_do_not_meet(void **state)
{
    (void)state;
    Session *a, *b;
    Fault fault;
    SessionOptions options = {.training = true, .seed = 1}, other = {.seed = 2};
    assert_int_equal(session_open(&a, &tiny, &options, &fault), 0);
    assert_int_equal(session_open(&b, &tiny, &other, &fault), 0);
    assert_int_equal(session_load_weights(a, NULL, true, &fault), 0);
    assert_int_equal(session_load_weights(b, NULL, true, &fault), 0);
    assert_true(*(float *)a->weights[0] != *(float *)b->weights[0]);
    assert_true(a->state_bytes == 5 * 256 && b->state_bytes == 3 * 256);
    session_close(a);
    assert_true(*(float *)b->weights[2] == 1);
    session_close(b);
}

static void weights_by_rule(void **state)
{
    (void)state;
    InitRule normal, uniform, ones;
    Fault fault;
    double sum = 0, squares = 0, low = 9, high = -9;
    const int n = 100000;
    assert_int_equal(init_parse(&normal, "normal(0.02)", 5, "wte.weight", &fault), 0);
    assert_int_equal(init_parse(&uniform, "uniform(-0.5, 1.5)", 5, "wte.weight", &fault), 0);
    assert_int_equal(init_parse(&ones, "ones", 5, "wte.weight", &fault), 0);
    assert_int_equal(init_parse(&ones, "normal(0.02", 5, "w", &fault), 2);
    assert_int_equal(init_parse(&ones, "zero", 5, "w", &fault), 2);
    for (int i = 0; i < n; i++) {
        double x = init_element(&normal, i), u = init_element(&uniform, i);
        sum += x, squares += x * x;
        if (u < low) low = u;
        if (u > high) high = u;
    }
    assert_true(fabs(sum / n) < 3e-4 && fabs(sqrt(squares / n) - 0.02) < 3e-4);
    assert_true(low >= -0.5 && low < -0.49 && high <= 1.5 && high > 1.49);
    /* Known bits: every machine makes these. */
    assert_true(init_element(&normal, 0) == 0x1.eb12d4488de5p-8 && init_element(&normal, 12345) == -0x1.19bb1b032a27bp-7);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    write_batches("six", six, 6, -1, SOUND, false);
    write_batches("hundred", hundred, 1, -1, SOUND, true);
    return 0;
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
        cmocka_unit_test(trains_and_saves),
        cmocka_unit_test(samples_are_shuffled_and_all_used),
        cmocka_unit_test(budget_is_exact),
        cmocka_unit_test(memory_is_what_was_planned),
        cmocka_unit_test(anomalies_stop),
        cmocka_unit_test(anomalies_are_set_aside),
        cmocka_unit_test(wide_batches_are_planned_again),
        cmocka_unit_test(resumes_bit_for_bit),
        cmocka_unit_test(resumed_logs_have_each_step_once),
        cmocka_unit_test(torn_checkpoints_are_refused),
        cmocka_unit_test(signals_end_with_a_checkpoint),
        cmocka_unit_test(evaluates),
        cmocka_unit_test(plans_without_data),
        cmocka_unit_test(wrong_input_is_refused),
        cmocka_unit_test(faults_of_the_device),
        cmocka_unit_test(full_disk_is_told),
        cmocka_unit_test(runner_runs),
        cmocka_unit_test(two_sessions_do_not_meet),
        cmocka_unit_test(weights_by_rule),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
