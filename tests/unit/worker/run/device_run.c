#include "tests/unit/worker/run/device_run.h"

#include <inttypes.h> /* PRIuFAST64 */
#include <stdatomic.h>
#include <stdio.h>

#include "proto/host/file_io.h"
#include "tests/lib/mockdev.h"
#include "tests/lib/testlib.h"

enum { MAX_BYTES = 1 << 26 };

static atomic_uint_fast64_t n_replayed, n_sums, n_apart;
static void (*close_mockdev)(struct hsp_backend *b);

static void close_counted(struct hsp_backend *b)
{
    struct hsp_mockdev_tally t = hsp_mockdev_tally(b);
    atomic_fetch_add(&n_replayed, t.replayed);
    atomic_fetch_add(&n_sums, t.sums);
    atomic_fetch_add(&n_apart, t.apart);
    close_mockdev(b);
}

enum hsp_status hsp_devicerun_open(void *ctx, uint32_t rank, int threads, struct hsp_backend **ret,
                                   struct hsp_err *err)
{
    static atomic_uint n;
    uint32_t k = atomic_fetch_add(&n, 1);
    struct hsp_mockdev_opts g = {.seed = hsp_test_rand("device", k),
                                 .max_delay_us = k % 4 == 0 ? 100 : 0,
                                 .replay = k % 3 != 0,
                                 .sums = k % 5 != 1};
    (void)ctx;
    (void)rank;
    (void)threads;
    enum hsp_status st = hsp_mockdev_open(&g, ret, err);
    if (st == HSP_OK) {
        close_mockdev = (*ret)->close;
        (*ret)->close = close_counted;
    }
    return st;
}

void hsp_devicerun_assert_used(void)
{
    print_message("%" PRIuFAST64 " runs replayed, %" PRIuFAST64 " sums made at once, %" PRIuFAST64
                  " refused\n",
                  n_replayed, n_sums, n_apart);
    assert_true(n_replayed > 0 && n_sums > 0);
}

/* The results of a run, in one piece: metrics without their times, gradients, model. */
struct left {
    uint8_t *data[3];
    size_t len[3];
};

static void drop_times(struct left *x)
{
    char *out = (char *)x->data[0], *end = out + x->len[0], *to = out;
    for (char *line = out; line < end;) {
        char *stop = memchr(line, '\n', (size_t)(end - line)),
             *cut = memmem(line, (size_t)(stop - line), ",\"seconds\":", 11);
        assert_non_null(cut);
        memmove(to, line, (size_t)(cut - line));
        to += cut - line;
        *to++ = '\n';
        line = stop + 1;
    }
    x->len[0] = (size_t)(to - out);
}

static void run(const char *dir, const char *sub, const struct hsp_run_opts *with, struct left *ret)
{
    char path[4][300];
    struct hsp_err err = {0};
    const char *const name[] = {"/metrics.jsonl", ".grads", "/final/model.safetensors", ""};
    for (int k = 0; k < 4; k++) {
        (void)snprintf(path[k], sizeof path[k], "%s/%s%s", dir, sub, name[k]);
    }
    struct hsp_run_opts o = *with;
    o.out = path[3];
    o.gradients = path[1];
    o.threads = 1;
    o.quiet = true;
    assert_ok(hsp_run_file(&o, &err), &err);
    for (int k = 0; k < 3; k++) {
        assert_ok(hsp_file_read(path[k], MAX_BYTES, &ret->data[k], &ret->len[k], &err), &err);
    }
    drop_times(ret);
}

void hsp_devicerun_compare(const char *dir, const char *file, uint64_t steps, const char *what)
{
    const struct hsp_run_opts o = {.file = file, .steps = steps, .open = hsp_devicerun_open};
    hsp_devicerun_compare_opts(dir, &o, what);
}

void hsp_devicerun_compare_opts(const char *dir, const struct hsp_run_opts *o, const char *what)
{
    static const char *const name[] = {"metrics", "gradients", "model"};
    const struct hsp_run_opts plain = {.file = o->file, .steps = o->steps};
    struct left cpu, device;
    run(dir, "cpu", &plain, &cpu);
    run(dir, "device", o, &device);
    for (int k = 0; k < 3; k++) {
        if (cpu.len[k] != device.len[k] || memcmp(cpu.data[k], device.data[k], cpu.len[k]) != 0) {
            fail_msg("%s: another %s on devices", what, name[k]);
        }
        free(cpu.data[k]);
        free(device.data[k]);
    }
}
