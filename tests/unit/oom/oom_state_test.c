/* Fails allocations of worker/state: no damage, neither of checkpoints nor of segments. */
#include <stdio.h>
#include <unistd.h>

#include "proto/host/file_io.h"
#include "proto/base/size.h"
#include "proto/layout/box.h"
#include "tests/lib/oom.h"
#include "tests/unit/worker/state/shard_write.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/box_hash.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_found.h"
#include "worker/state/ckpt_read.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/ckpt_steps.h"
#include "worker/state/ckpt_verify.h"
#include "worker/state/final_folder.h"
#include "worker/state/safetensors_read.h"
#include "worker/state/safetensors_write.h"

enum { N_PARAMS = 2, N_KINDS = 2, N_RANKS = 2, STEP = 7 };
#define CONFIG "{\"family\":\"gpt\"}"

static const struct {
    const char *name;
    uint8_t rank;
    int64_t full[HSP_MAX_RANK];
} params[N_PARAMS] = {{"wte.weight", 2, {6, 4}}, {"bias", 1, {5}}};

/* Rank @rank's half of (param, kind): rows; the data are those of the whole tensor. */
static void make_piece(uint32_t rank, uint32_t param, uint8_t kind, double data[32],
                       struct hsp_ckpt_piece *ret)
{
    struct hsp_box whole = hsp_box_whole(params[param].rank, params[param].full), box = whole;
    box.lo[0] = rank == 0 ? 0 : 3;
    box.hi[0] = rank == 0 ? 3 : whole.hi[0];
    fill_box(HSP_F64, param, kind, STEP, params[param].full, &whole, data);
    *ret = (struct hsp_ckpt_piece){
        params[param].name, param, kind, HSP_F64, params[param].full, box, whole, data, 0};
}

static struct hsp_ckpt_info info_of(uint64_t step)
{
    return (struct hsp_ckpt_info){"gpt", step, 1, 3, N_RANKS, N_PARAMS, 5, {{1, 2}, 3}, false};
}

static enum hsp_status write_step(const char *dir, uint64_t step, struct hsp_err *err)
{
    struct hsp_ckpt_info info = info_of(step);
    struct hsp_data_cursor data = {.pass_samples = 17, .samples = step, .sequence = 4};
    enum hsp_status st = HSP_OK;
    for (uint32_t r = 0; st == HSP_OK && r < N_RANKS; r++) {
        struct hsp_ckpt_piece p[N_PARAMS * N_KINDS];
        double x[N_PARAMS * N_KINDS][32];
        for (uint32_t i = 0; i < N_PARAMS * N_KINDS; i++) {
            make_piece(r, i / N_KINDS, (uint8_t)(i % N_KINDS), x[i], &p[i]);
        }
        st = shard_write(dir, &info, r, p, HSP_ARRAY_LEN(p), NULL, err);
    }
    return st == HSP_OK ? hsp_ckpt_commit(dir, &info, &data, CONFIG, NULL, err) : st;
}

/* Everything an opened one says. */
static enum hsp_status describe(const struct hsp_ckpt *c, struct hsp_buf *out, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    hsp_buf_printf(out, "%s %ju %ju\n", hsp_ckpt_about(c)->job, (uintmax_t)hsp_ckpt_about(c)->step,
                   (uintmax_t)hsp_ckpt_content(c));
    for (size_t i = 0; st == HSP_OK && i < hsp_ckpt_count(c); i++) {
        const struct hsp_ckpt_tensor *t = hsp_ckpt_tensor_at(c, i);
        struct hsp_box whole = hsp_box_whole(t->rank, t->full);
        double x[32];
        st = hsp_ckpt_read(c, t, &whole, &whole, x, err);
        hsp_buf_printf(
            out, "%s %u %d\n", t->name, t->kind,
            (int)wrong_in_box(t->dtype, t->tensor, t->kind, STEP, t->full, &whole, &whole, x));
    }
    return st == HSP_OK ? hsp_ckpt_verify(c, err) : st;
}

static enum hsp_status open_step(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct hsp_ckpt *c = NULL;
    enum hsp_status st = hsp_ckpt_open(ctx, STEP, 0, &c, err);
    if (st == HSP_OK) {
        st = describe(c, out, err);
    }
    uint64_t content = st == HSP_OK ? hsp_ckpt_content(c) : 0;
    c = hsp_ckpt_close(c);
    st = st == HSP_OK ? hsp_ckpt_open_meant(ctx, STEP, 0, content, &c, err) : st;
    (void)hsp_ckpt_close(c);
    return st;
}

static enum hsp_status list_and_prune(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct hsp_ckpt_place *steps = NULL;
    const struct hsp_ckpt_info us = info_of(STEP);
    size_t n = 0;
    enum hsp_status st = hsp_ckpt_list(ctx, &steps, &n, err);
    if (st == HSP_OK) {
        st = hsp_ckpt_prune(ctx, &us, 2, NULL, 0, err);
    }
    if (st == HSP_OK) {
        st = hsp_ckpt_sweep(ctx, &us, err);
    }
    if (st == HSP_OK) {
        hsp_buf_printf(out, "%zu\n", n);
    }
    free(steps);
    return st;
}

static enum hsp_status find_steps(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct hsp_ckpts_found l = {0};
    const uint64_t on_record[] = {STEP};
    const struct hsp_ckpts_asked q = {.us = info_of(STEP), .n = 1, .step = on_record, .max = 9};
    enum hsp_status st = hsp_ckpt_find_all(ctx, &q, &l, err);
    hsp_buf_printf(out, "%s%s", l.damage.msg, l.unread.msg);
    for (size_t i = 0; i < l.n; i++) {
        hsp_buf_printf(out, "%ju %ju\n", (uintmax_t)l.item[i].step, (uintmax_t)l.item[i].content);
    }
    free(l.item);
    return st;
}

/* The folder has a model of this job. */
static enum hsp_status open_final(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct hsp_ckpt_info us = info_of(STEP);
    char aside[HSP_CKPT_NAME];
    struct hsp_folder f;
    enum hsp_status st = hsp_final_open(ctx, &us, aside, &f, err);
    if (st == HSP_OK) {
        hsp_buf_printf(out, "kept as '%s'\n", aside);
        hsp_folder_close(&f);
    }
    return st;
}

static enum hsp_status write_and_open(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    enum hsp_status st = write_step(ctx, STEP, err);
    return st == HSP_OK ? open_step(ctx, out, err) : st;
}

static enum hsp_status tensor_file(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    char path[4300];
    double x[4] = {1, 2, 3, 4};
    struct hsp_st_entry e = {.name = "w", .dtype = HSP_F64, .rank = 1, .ext = {4}};
    struct hsp_st_meta meta = {"format", "pt"};
    struct hsp_st_writer *w = NULL;
    struct hsp_st_reader *r = NULL;
    (void)snprintf(path, sizeof path, "%s/model.safetensors", (const char *)ctx);
    enum hsp_status st = hsp_st_create(path, &e, 1, &meta, 1, &w, err);
    if (st == HSP_OK) {
        st = hsp_st_write(w, 0, 0, x, sizeof x, err);
        st = st == HSP_OK ? hsp_st_finish(w, err) : st;
    }
    if (st == HSP_OK) {
        st = hsp_st_open(path, &r, err);
    }
    if (st == HSP_OK) { /* a piece of a part */
        st = hsp_st_read(r, hsp_st_find(r, "w"), 8, x, 16, err);
        hsp_buf_printf(out, "%a %s\n", x[1], hsp_st_meta_value(r, "format"));
    }
    (void)hsp_st_close(r);
    return st;
}

struct verdict {
    const char *dir;
    FILE *file; /* with a buffer of its own */
};

static enum hsp_status verify(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct verdict *v = ctx;
    char text[4096] = {0};
    rewind(v->file);
    assert_int_equal(ftruncate(fileno(v->file), 0), 0);
    enum hsp_status st = hsp_ckpt_check(v->dir, 5, true, v->file, err);
    st = st == HSP_EDIGEST ? HSP_OK : st; /* one of them is damaged: the answer is whole */
    ssize_t n = pread(fileno(v->file), text, sizeof text - 1, 0);
    assert_true(n >= 0 && (st == HSP_OK) == (n > 0));
    hsp_buf_puts(out, text);
    return st;
}

static int setup(void **state)
{
    struct hsp_err err = {0};
    *state = hsp_test_tmpdir();
    assert_ok(write_step(*state, STEP, &err), &err);
    assert_ok(write_step(*state, STEP - 1, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    hsp_test_rmdir(*state);
    free(*state);
    return 0;
}

/* As an earlier version wrote it: the key of the sums is another one. */
static void take_sums(const char *dir, uint32_t rank)
{
    struct hsp_err err = {0};
    uint8_t *data;
    char path[4300];
    size_t n;
    (void)snprintf(path, sizeof path, "%s/step-%010d/shard-%05u-model-00001-of-00001.safetensors",
                   dir, STEP, rank + 1);
    assert_ok(hsp_file_read(path, (size_t)1 << 20, &data, &n, &err), &err);
    char *key = memmem(data, n, "hspmd.sums", 10);
    assert_non_null(key);
    key[9] = 'S';
    assert_ok(hsp_file_write(path, data, n, 0600, &err), &err);
    free(data);
}

static void a_checkpoint_without_sums_is_not_damaged_either(void **state)
{
    take_sums(*state, 0);
    take_sums(*state, 1);
    hsp_oom_loop("without sums", open_step, *state, 2000);
}

static void a_checkpoint_is_not_damaged_for_want_of_memory(void **state)
{
    hsp_oom_loop("open", open_step, *state, 2000);
}

/* Nor is an older one taken in its place. */
static void the_newest_stays_the_newest(void **state)
{
    hsp_oom_loop("prune", list_and_prune, *state, 2000);
}

static void all_steps_are_found_or_none(void **state)
{
    hsp_oom_loop("find", find_steps, *state, 4000);
}

/* Nor is the final model of this job taken for another's. */
static void the_final_model_stays(void **state)
{
    const struct hsp_ckpt_info us = info_of(STEP);
    char path[4300], id[16], cluster[HSP_DIGEST_HEX];
    double x = 1;
    struct hsp_buf out;
    struct hsp_err err = {0};
    struct hsp_st_writer *w = NULL;
    struct hsp_st_entry e = {.name = "w", .dtype = HSP_F64, .rank = 1, .ext = {1}};
    const struct hsp_st_meta meta[] = {{HSP_FINAL_JOB, id}, {HSP_FINAL_CLUSTER, cluster}};
    hsp_buf_init(&out, 1000);
    assert_ok(open_final(*state, &out, &err), &err);
    hsp_buf_fini(&out);
    (void)snprintf(id, sizeof id, "%u", us.job_id);
    hsp_digest_hex(us.whose.cluster, cluster);
    (void)snprintf(path, sizeof path, "%s/final/" HSP_FINAL_MODEL, (const char *)*state);
    assert_ok(hsp_st_create(path, &e, 1, meta, HSP_ARRAY_LEN(meta), &w, &err), &err);
    assert_ok(hsp_st_write(w, 0, 0, &x, sizeof x, &err), &err);
    assert_ok(hsp_st_finish(w, &err), &err);
    hsp_oom_loop("final", open_final, *state, 300);
}

static void a_step_is_written_whole_or_not(void **state)
{
    hsp_oom_loop("write", write_and_open, *state, 500);
}

static void a_file_of_tensors_is_written_whole_or_not(void **state)
{
    hsp_oom_loop("file of tensors", tensor_file, *state, 300);
}

static void a_verdict_is_whole_or_none(void **state)
{
    static char buffer[4096];
    char path[4200];
    struct verdict v = {.dir = *state};
    (void)snprintf(path, sizeof path, "%s/step-%010d/manifest.json", v.dir, STEP);
    cut_file(path, 30);
    (void)snprintf(path, sizeof path, "%s/verdict", v.dir);
    v.file = fopen(path, "w+");
    assert_non_null(v.file);
    assert_int_equal(setvbuf(v.file, buffer, _IOFBF, sizeof buffer), 0);
    hsp_oom_loop("verdict", verify, &v, 3000);
    assert_int_equal(fclose(v.file), 0);
}

HSP_TEST_FILE(oom_state_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_checkpoint_is_not_damaged_for_want_of_memory, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_checkpoint_without_sums_is_not_damaged_either, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_newest_stays_the_newest, setup, teardown),
        cmocka_unit_test_setup_teardown(all_steps_are_found_or_none, setup, teardown),
        cmocka_unit_test_setup_teardown(the_final_model_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(a_step_is_written_whole_or_not, setup, teardown),
        cmocka_unit_test_setup_teardown(a_verdict_is_whole_or_none, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_of_tensors_is_written_whole_or_not, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
