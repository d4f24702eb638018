/* Fails allocations of worker/state: when memory runs out while a segment is read, the segment is
 * reported neither as damaged nor as absent. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/lib/testlib.h"
#include "tests/lib/oom.h"
#include "tests/unit/worker/state/shard_fill.h"
#include "tests/unit/worker/state/state_lib.h"
#include "tests/unit/proto/wire/papers_sample.h"
#include "worker/state/kept.h"
#include "worker/state/papers_file.h"
#include "worker/state/segment.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_name.h"
#include "worker/state/segment_verify.h"
#include "worker/state/shards.h"

enum { N_ROWS = 2, AREA = 512, SEALED = 4 };

static const struct hsp_whose whose = {{11, 22}, 33};

static struct hsp_segment_key key_of(uint64_t epoch, uint32_t slot)
{
    return (struct hsp_segment_key){.job = "t", .device = "n/0", .epoch = epoch, .slot = slot};
}

/* Creates a segment with rows @lo .. @hi - 1 of a tensor of 8 x 4, and their momentum. */
static enum hsp_status create(const char *dir, const struct hsp_segment_key *key, int64_t lo,
                              int64_t hi, struct hsp_state_segment **ret, struct hsp_err *err)
{
    struct hsp_segment_row rows[N_ROWS];
    for (uint8_t k = 0; k < N_ROWS; k++) {
        rows[k] = (struct hsp_segment_row){.tensor = 3,
                                           .kind = k,
                                           .dtype = HSP_F64,
                                           .full = {8, 4},
                                           .box = {.rank = 2, .lo = {lo, 0}, .hi = {hi, 4}},
                                           .offset = 256 * k};
    }
    return hsp_segment_create(dir, key, &whose, rows, N_ROWS, AREA, NULL, ret, err);
}

static void fill_and_seal(struct hsp_state_segment *s)
{
    for (uint32_t i = 0; i < hsp_segment_n(s); i++) {
        const struct hsp_segment_row *r = hsp_segment_row_at(s, i);
        fill_box(r->dtype, r->tensor, r->kind, SEALED, r->full, &r->box,
                 (uint8_t *)hsp_segment_area(s) + r->offset);
    }
    hsp_segment_seal(s, SEALED);
}

static int64_t wrong(const struct hsp_state_segment *s)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < hsp_segment_n(s); i++) {
        const struct hsp_segment_row *r = hsp_segment_row_at(s, i);
        n += wrong_in_box(r->dtype, r->tensor, r->kind, SEALED, r->full, &r->box, &r->box,
                          (const uint8_t *)hsp_segment_area(s) + r->offset);
    }
    return n;
}

/* By the threads of the host; those that cannot begin do without memory. */
static enum hsp_status verify_rows(const struct hsp_state_segment *s, struct hsp_buf *out,
                                   struct hsp_err *err)
{
    struct hsp_verify_row rows[N_ROWS] = {{.seg = s, .row = 0}, {.seg = s, .row = 1}};
    struct hsp_verify *v = NULL;
    size_t n = 0, m = 0;
    enum hsp_status st = hsp_verify_rows(rows, N_ROWS, &n, err);
    if (st == HSP_OK) {
        st = hsp_verify_begin(rows, N_ROWS, 1, &v, err);
    }
    if (st == HSP_OK) {
        hsp_verify_end(v, &m);
        hsp_verify_stop(v);
        hsp_buf_printf(out, "%zu %zu damaged\n", n, m);
    }
    (void)hsp_verify_free(v);
    return st;
}

/* Makes a segment, and a second one from its file. */
static enum hsp_status make_twice(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const char *dir = ctx;
    struct hsp_segment_key key = key_of(12, 1), next = key_of(13, 0);
    const struct hsp_segment_row row = {
        .tensor = 4, .dtype = HSP_F32, .full = {8}, .box = {.rank = 1, .hi = {8}}};
    struct hsp_state_segment *s = NULL;
    char spare[HSP_SEGMENT_PATH] = "";
    enum hsp_status st = hsp_segment_remove(dir, &next, err); /* of the run before */
    st = st == HSP_OK ? create(dir, &key, 2, 5, &s, err) : st;
    if (st == HSP_OK && !hsp_segment_make_spare(dir, s, spare)) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "it became no spare");
    }
    st = st == HSP_OK ? hsp_segment_reuse(dir, spare, &next, &whose, &row, 1, 64, s, err) : st;
    st = st == HSP_OK ? hsp_segment_check(s, err) : st;
    if (st == HSP_OK) {
        hsp_buf_printf(out, "%u %zu\n", hsp_segment_n(s), hsp_segment_bytes(s));
    }
    (void)hsp_spare_bytes(dir);
    hsp_spare_cut(dir);
    (void)hsp_segment_close(s);
    return st;
}

static enum hsp_status make_and_open(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const char *dir = ctx;
    struct hsp_segment_key key = key_of(9, 1);
    struct hsp_state_segment *s = NULL;
    enum hsp_status st = hsp_segment_remove(dir, &key, err); /* of the run before */
    if (st == HSP_OK) {
        st = create(dir, &key, 2, 5, &s, err);
    }
    if (st == HSP_OK) {
        fill_and_seal(s);
        s = hsp_segment_close(s);
        st = hsp_segment_open(dir, &key, false, &s, err);
    }
    if (st == HSP_OK) {
        const struct hsp_box box = hsp_segment_row_at(s, 1)->box;
        st = hsp_segment_verify(s, err);
        st = st == HSP_OK ? verify_rows(s, out, err) : st;
        hsp_buf_printf(out, "%s %ju %u %ju %d\n", hsp_segment_key_of(s)->device,
                       (uintmax_t)hsp_segment_version(s), hsp_segment_find(s, 3, 1, &box),
                       (uintmax_t)hsp_segment_content(s), (int)wrong(s));
    }
    (void)hsp_segment_close(s);
    return st;
}

static enum hsp_status scan(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct hsp_segment_info *info = NULL;
    size_t n = 0;
    enum hsp_status st = hsp_segment_scan(ctx, &info, &n, err);
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        hsp_buf_printf(out, "%s %s %ju\n", info[i].file, hsp_test_status_name(info[i].status),
                       (uintmax_t)info[i].version);
    }
    free(info);
    return st;
}

/* Makes a piece of job 1 and the notes of its device. The piece is sealed, or unsealed as if its
 * writer had died. */
static void leave(const char *dir, uint32_t device, uint64_t layout, bool sealed)
{
    const struct hsp_segname name = {.job = 1, .device = device, .owner = 2, .plan = layout};
    struct hsp_segname parsed;
    struct hsp_segment_key key;
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    char notes[PATH_MAX];
    hsp_segname_key(&name, &key);
    assert_true(hsp_segname_parse(&key, &parsed));
    assert_true(parsed.device == device && parsed.owner == 2 && parsed.plan == layout);
    assert_ok(create(dir, &key, 0, 2, &s, &err), &err);
    if (sealed) {
        fill_and_seal(s);
    }
    (void)hsp_segment_close(s);
    hsp_segname_notes(dir, 1, device, notes);
    int fd = open(notes, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && close(fd) == 0);
}

static enum hsp_status holdings(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct hsp_m_holding *h = NULL;
    uint32_t n = 0;
    enum hsp_status st = hsp_segname_scan(ctx, &h, &n, err);
    for (uint32_t i = 0; st == HSP_OK && i < n; i++) {
        hsp_buf_printf(out, "%u %u %ju %u %u %ju\n", h[i].job, h[i].device, (uintmax_t)h[i].plan,
                       h[i].rank, h[i].owner, (uintmax_t)h[i].version);
    }
    free(h);
    return st;
}

static enum hsp_status kept(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct hsp_m_kept *k = NULL;
    uint32_t n = 0;
    bool more = false;
    enum hsp_status st = hsp_kept_scan(ctx, &k, &n, &more, err);
    for (uint32_t i = 0; st == HSP_OK && i < n; i++) {
        hsp_buf_printf(out, "%u %ju\n", k[i].job, (uintmax_t)k[i].plan);
    }
    free(k);
    return st;
}

static enum hsp_status papers(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct hsp_papers p = papers_sample();
    struct hsp_buf b;
    uint8_t *data = NULL;
    size_t len = 0;
    hsp_buf_init(&b, 1 << 20);
    p.job = 1;
    hsp_papers_write(&p, &b);
    enum hsp_status st =
        b.failed ? hsp_err_nomem(err, "papers") : hsp_papers_file_write(ctx, 1, b.data, b.len, err);
    st = st == HSP_OK ? hsp_papers_file_read(ctx, 1, &data, &len, err) : st;
    hsp_buf_printf(out, "%zu\n", len);
    hsp_buf_fini(&b);
    free(data);
    return st;
}

static enum hsp_status tidy_papers(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    (void)out;
    enum hsp_status st = hsp_kept_tidy_job(ctx, 1, err);
    return st == HSP_OK ? hsp_kept_tidy(ctx, err) : st;
}

static enum hsp_status tidy(const char *dir, struct hsp_err *err)
{
    struct hsp_m_damaged *damaged = NULL;
    char copy[HSP_SEGMENT_FILE];
    uint32_t n = 0;
    enum hsp_status st = hsp_segname_tidy(dir, &damaged, &n, copy, err);
    free(damaged);
    return st;
}

static enum hsp_status tidy_device(const char *dir, struct hsp_err *err)
{
    return hsp_segname_tidy_device(dir, 1, err);
}

static enum hsp_status discard(const char *dir, struct hsp_err *err)
{
    return hsp_segname_discard(dir, 1, 0, 0, err);
}

static size_t n_segments(const char *dir)
{
    struct hsp_segment_info *info = NULL;
    struct hsp_err err = {0};
    size_t n = 0;
    assert_ok(hsp_segment_scan(dir, &info, &n, &err), &err);
    free(info);
    return n;
}

/* Checks that @f deletes @n segments and the notes of @device, or deletes nothing. */
static void deletes(enum hsp_status (*f)(const char *, struct hsp_err *), const char *dir, size_t n,
                    uint32_t device)
{
    size_t before = n_segments(dir);
    char notes[PATH_MAX];
    hsp_segname_notes(dir, 1, device, notes);
    struct hsp_oom_try t = {0};
    while (hsp_oom_again(&t)) {
        struct hsp_err err = {0};
        int64_t live = hsp_oom_live();
        t.st = f(dir, &err);
        live -= hsp_oom_live();
        hsp_oom_end(&t);
        assert_true(live == 0 && err.code == t.st && (err.msg[0] != '\0') == t.failed);
        assert_int_equal(n_segments(dir), t.failed ? before : before - n);
        assert_true((access(notes, F_OK) == 0) == t.failed);
    }
    assert_true(t.n > 2);
}

/* Two sources, which have rows 0 to 5 between them, and a target that wants 1 to 7. */
struct move {
    struct hsp_state_segment *from[2], *to;
};

static enum hsp_status fill(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    struct move *m = ctx;
    struct hsp_shards shards = {(const struct hsp_state_segment *const *)m->from, 2, SEALED};
    struct shard_gap *gaps = NULL;
    size_t n = 0;
    hsp_segment_unseal(m->to);
    enum hsp_status st = shards_fill(&shards, m->to, &gaps, &n, err);
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        hsp_buf_printf(out, "%u: %d-%d\n", gaps[i].row, (int)gaps[i].box.lo[0],
                       (int)gaps[i].box.hi[0]);
    }
    if (st == HSP_OK) {
        hsp_buf_printf(out, "%d wrong\n", (int)wrong(m->to)); /* in the gaps */
    }
    free(gaps);
    return st;
}

static int setup(void **state)
{
    struct hsp_err err = {0};
    *state = hsp_test_tmpdir();
    for (uint32_t slot = 0; slot < 2; slot++) {
        struct hsp_segment_key key = key_of(5, slot);
        struct hsp_state_segment *s;
        assert_ok(create(*state, &key, slot == 0 ? 0 : 3, slot == 0 ? 4 : 6, &s, &err), &err);
        fill_and_seal(s);
        (void)hsp_segment_close(s);
    }
    return 0;
}

static int teardown(void **state)
{
    hsp_test_rmdir(*state);
    free(*state);
    return 0;
}

static void a_segment_is_made_whole_or_not(void **state)
{
    struct hsp_buf out;
    struct hsp_err err;
    hsp_buf_init(&out, 4096);
    assert_ok(make_and_open(*state, &out, &err), &err); /* the C library keeps stacks of threads */
    hsp_buf_fini(&out);
    hsp_oom_loop("segment", make_and_open, *state, 200);
    hsp_oom_loop("spare", make_twice, *state, 200);
}

static void a_scan_finds_all_or_says_so(void **state)
{
    hsp_oom_loop("scan", scan, *state, 200);
}

static void pieces_are_told_all_or_none(void **state)
{
    leave(*state, 0, 2, true);
    leave(*state, 0, 3, false);
    leave(*state, 1, 2, true);
    hsp_oom_loop("holdings", holdings, *state, 200);
    hsp_oom_loop("papers", papers, *state, 200);
    hsp_oom_loop("kept", kept, *state, 200);
    hsp_oom_loop("tidy", tidy_papers, *state, 200);
}

static void nothing_goes_before_all_was_looked_at(void **state)
{
    leave(*state, 0, 2, true);
    leave(*state, 0, 3, false);
    leave(*state, 1, 3, false);
    deletes(tidy, *state, 2, 1);
    leave(*state, 0, 3, true);
    leave(*state, 1, 4, false);
    deletes(tidy_device, *state, 1, 1);
    leave(*state, 1, 3, true);
    deletes(discard, *state, 2, 0);
}

static void a_target_is_filled_or_not(void **state)
{
    struct move m = {0};
    struct hsp_segment_key key = key_of(7, 0);
    struct hsp_err err = {0};
    assert_ok(create(*state, &key, 1, 8, &m.to, &err), &err);
    for (uint32_t slot = 0; slot < 2; slot++) {
        key = key_of(5, slot);
        assert_ok(hsp_segment_open(*state, &key, false, &m.from[slot], &err), &err);
    }
    hsp_oom_loop("fill", fill, &m, 200);
    for (uint32_t slot = 0; slot < 2; slot++) {
        (void)hsp_segment_close(m.from[slot]);
    }
    (void)hsp_segment_close(m.to);
}

HSP_TEST_FILE(oom_segment_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_segment_is_made_whole_or_not, setup, teardown),
        cmocka_unit_test_setup_teardown(a_scan_finds_all_or_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(pieces_are_told_all_or_none, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_goes_before_all_was_looked_at, setup, teardown),
        cmocka_unit_test_setup_teardown(a_target_is_filled_or_not, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
