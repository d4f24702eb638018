/* Fails allocations of worker/data: data that lack memory are neither absent nor others. */
#include <fcntl.h> /* AT_FDCWD */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/le.h"
#include "tests/lib/oom.h"
#include "tests/lib/testlib.h"
#include "worker/data/data_cache.h"
#include "worker/data/data_watch.h"
#include "worker/data/documents.h"
#include "worker/data/load.h"
#include "worker/data/synthetic.h"

struct files {
    char *dir;
    char pattern[300];
    enum hsp_data_format format;
};

static void put_file(const char *dir, const char *name, const void *data, size_t n)
{
    char path[400];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
}

/* Three documents of 5 tokens each of two bytes. */
static void put_megatron(const char *dir)
{
    uint8_t bin[30] = {0}, idx[34 + 3 * 12 + 4 * 8] = "MMIDIDX";
    hsp_le_put(idx + 9, 1, 8);
    idx[17] = 8; /* uint16 */
    hsp_le_put(idx + 18, 3, 8);
    hsp_le_put(idx + 26, 4, 8);
    for (uint64_t i = 0; i < 4; i++) {
        hsp_le_put(idx + 34 + 36 + 8 * i, i, 8);
        if (i < 3) {
            hsp_le_put(idx + 34 + 4 * i, 5, 4);
            hsp_le_put(idx + 34 + 12 + 8 * i, 10 * i, 8);
        }
    }
    for (uint8_t i = 0; i < 15; i++) {
        bin[2 * i] = i;
    }
    put_file(dir, "m.bin", bin, sizeof bin);
    put_file(dir, "m.idx", idx, sizeof idx);
}

/* All that is said of a data set, and the labels of one window. */
static enum hsp_status describe(const struct hsp_dataset *d, const struct hsp_data_bind *b,
                                struct hsp_buf *out, struct hsp_err *err)
{
    struct hsp_digest digest = {0};
    uint64_t offset = 1;
    const struct hsp_micro micro = {.n_seq = 1, .offset = &offset};
    const struct hsp_load_spec spec = {
        .what = HSP_LOAD_LABELS, .data = b, .micro = &micro, .n_cols = b->sequence};
    int32_t labels[8] = {0};
    enum hsp_status st = hsp_dataset_read(d, b->vocab, NULL, &digest, err);
    if (st == HSP_OK) {
        st = hsp_dataset_load(d, &spec, labels, err);
    }
    hsp_buf_printf(out, "%u %ju %ju %jx\n", d->n_files, (uintmax_t)d->n_tokens,
                   (uintmax_t)d->n_bytes, (uintmax_t)digest.lo);
    hsp_buf_append(out, labels, sizeof labels);
    return st;
}

static const struct hsp_data_bind bind = {.sequence = 8, .vocab = 256};

static enum hsp_status open_files(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct files *f = ctx;
    struct hsp_dataset d = {0};
    const struct hsp_data_bind pieces = {.sequence = 8,
                                         .longest = 3,
                                         .vocab = 256,
                                         .samples = HSP_SAMPLES_DOCUMENTS,
                                         .packing = HSP_PACKING_END,
                                         .separator = 'i'};
    const struct hsp_data_cut cut = hsp_data_cut_of(&pieces);
    struct hsp_corpus corpus = {0};
    enum hsp_status st = hsp_dataset_open(f->pattern, f->format, &d, err);
    st = st == HSP_OK ? hsp_dataset_look(&d, err) : st;
    if (st == HSP_OK) {
        st = describe(&d, &bind, out, err);
    }
    if (st == HSP_OK) {
        st = hsp_dataset_cut(&d, &cut, NULL, err);
    }
    if (st == HSP_OK) {
        st = hsp_dataset_corpus(&d, &pieces, &corpus, err);
        hsp_buf_printf(out, "%ju\n", (uintmax_t)corpus.n_train);
    }
    hsp_dataset_close(&d);
    return st;
}

static enum hsp_status make_up(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct hsp_data_bind *b = ctx;
    struct hsp_dataset d = {0};
    enum hsp_status st = hsp_dataset_synthetic(b, 40, &d, err);
    if (st == HSP_OK) {
        st = describe(&d, b, out, err);
    }
    hsp_dataset_close(&d);
    return st;
}

static int64_t clock_ns(void)
{
    return INT64_C(4000000000) * 1000000000; /* long after all changes of files */
}

/* Read by a cache, and asked for again. */
static bool goes_on(void *ctx)
{
    (void)ctx;
    return false;
}

static enum hsp_status watch(struct hsp_data_cache *c, const struct hsp_held_data *d,
                             struct hsp_buf *out, struct hsp_err *err)
{
    const struct hsp_data_stop stop = {.asked = goes_on};
    struct hsp_data_watch *w = NULL;
    enum hsp_status st = hsp_data_watch_begin(c, d, &w, err);
    if (st == HSP_OK) {
        hsp_data_watch_ask(w);
        st = hsp_data_watch_answer(w, &stop, err);
        hsp_buf_puts(out, "watched\n");
    }
    (void)hsp_data_watch_end(w);
    return st;
}

static enum hsp_status hold(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct files *f = ctx;
    const struct hsp_data_wish wish = {.path = f->pattern, .format = f->format, .vocab = 256};
    const struct hsp_held_data *one = NULL, *two = NULL;
    struct hsp_data_cache *c = hsp_data_cache_new(clock_ns);
    if (c == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no cache");
    }
    enum hsp_status st = hsp_data_cache_get(c, &wish, &one, err);
    if (st == HSP_OK) {
        st = hsp_data_cache_get(c, &wish, &two, err);
        hsp_buf_printf(out, "%ju %jx\n", (uintmax_t)one->set.n_tokens, (uintmax_t)one->digest.lo);
    }
    if (st == HSP_OK) {
        hsp_buf_printf(out, "%jx\n", (uintmax_t)two->digest.lo);
        st = watch(c, two, out, err);
    }
    (void)hsp_data_cache_put(c, one);
    (void)hsp_data_cache_put(c, two);
    (void)hsp_data_cache_free(c);
    return st;
}

static int setup(void **state)
{
    struct files *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->dir = hsp_test_tmpdir();
    put_file(f->dir, "a.txt", "in the beginning", 16);
    put_file(f->dir, "b.txt", "and so on", 9);
    put_megatron(f->dir);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct files *f = *state;
    hsp_test_rmdir(f->dir);
    free(f->dir);
    free(f);
    return 0;
}

static void as(struct files *f, const char *name, enum hsp_data_format format)
{
    (void)snprintf(f->pattern, sizeof f->pattern, "%s/%s", f->dir, name);
    f->format = format;
}

static void files_are_not_absent_for_want_of_memory(void **state)
{
    struct files *f = *state;
    as(f, "a.txt", HSP_DATA_TEXT);
    hsp_oom_loop("file", open_files, f, 200);
    as(f, "[ab].txt", HSP_DATA_TEXT);
    hsp_oom_loop("pattern", open_files, f, 500);
    as(f, "m.bin", HSP_DATA_MEGATRON);
    hsp_oom_loop("megatron", open_files, f, 200);
}

/* "No" is as good as not knowing: the caller reads again. */
static void files_are_compared_or_others(void **state)
{
    struct files *f = *state;
    struct hsp_dataset d = {0};
    struct hsp_err err = {0};
    as(f, "?.txt", HSP_DATA_TEXT);
    assert_ok(hsp_dataset_open(f->pattern, f->format, &d, &err), &err);
    int64_t before = hsp_oom_live();
    bool failed = true, same = false;
    for (uint64_t n = 1; failed; n++) {
        hsp_oom_arm(n, false);
        same = hsp_dataset_is(&d, f->pattern, f->format);
        failed = hsp_oom_disarm();
        assert_int_equal(hsp_oom_live(), before);
    }
    assert_true(same);
    hsp_dataset_close(&d);
}

static void made_up_data_are_whole_or_not(void **state)
{
    struct hsp_data_bind b = bind;
    (void)state;
    hsp_oom_loop("made up", make_up, &b, 200);
    b.packing = HSP_PACKING_INDEX;
    hsp_oom_loop("made up, with an index", make_up, &b, 200);
}

static void a_cache_gives_data_or_says_why_not(void **state)
{
    struct files *f = *state;
    struct hsp_buf out;
    struct hsp_err err = {0};
    as(f, "?.txt", HSP_DATA_TEXT);
    hsp_buf_init(&out, 4096);
    assert_ok(hold(f, &out, &err), &err); /* leaves the memory of a thread to the next ones */
    hsp_buf_fini(&out);
    hsp_oom_loop("cache", hold, f, 500);
}

HSP_TEST_FILE(oom_data_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_not_absent_for_want_of_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(files_are_compared_or_others, setup, teardown),
        cmocka_unit_test(made_up_data_are_whole_or_not),
        cmocka_unit_test_setup_teardown(a_cache_gives_data_or_says_why_not, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
