/* Tests segments: creates, opens, seals and verifies them, and fills them from
 * other segments. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

#include "proto/host/file_io.h"
#include "proto/layout/box.h"
#include "tests/unit/worker/state/shard_fill.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/segment.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_verify.h"
#include "worker/state/shards.h"

#define N_ROWS 3
#define AREA   8192

static const struct hsp_whose whose = {{11, 22}, 33};

static void make_rows(struct hsp_segment_row *r)
{
    static const struct hsp_segment_row rows[N_ROWS] = {
        {.tensor = 4,
         .kind = 0,
         .dtype = HSP_F32,
         .full = {10, 20},
         .offset = 0,
         .box = {.rank = 2, .lo = {2, 0}, .hi = {7, 20}}},
        {.tensor = 4,
         .kind = 1,
         .dtype = HSP_F64,
         .full = {10, 20},
         .offset = 448,
         .box = {.rank = 2, .lo = {2, 5}, .hi = {7, 15}}},
        {.tensor = 9,
         .kind = 0,
         .dtype = HSP_F32,
         .full = {7},
         .offset = 1024,
         .box = {.rank = 1, .lo = {3}, .hi = {3}}},
    };
    memcpy(r, rows, sizeof(rows));
}

static void fill(struct hsp_state_segment *s, uint64_t version)
{
    for (uint32_t i = 0; i < hsp_segment_n(s); i++) {
        const struct hsp_segment_row *r = hsp_segment_row_at(s, i);
        fill_box(r->dtype, r->tensor, r->kind, version, r->full, &r->box,
                 (uint8_t *)hsp_segment_area(s) + r->offset);
    }
}

static int64_t wrong(const struct hsp_state_segment *s, uint64_t version)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < hsp_segment_n(s); i++) {
        const struct hsp_segment_row *r = hsp_segment_row_at(s, i);
        n += wrong_in_box(r->dtype, r->tensor, r->kind, version, r->full, &r->box, &r->box,
                          (const uint8_t *)hsp_segment_area(s) + r->offset);
    }
    return n;
}

/* The segment has two boxes of one tensor and kind. */
static void a_part_is_found_in_its_row(void **state)
{
    struct hsp_segment_key k = segment_key(77, 0);
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    struct hsp_segment_row rows[2] = {
        {.tensor = 4, .dtype = HSP_F32, .full = {8}, .box = {.rank = 1, .lo = {0}, .hi = {2}}},
        {.tensor = 4, .dtype = HSP_F32, .full = {8}, .box = {.rank = 1, .lo = {4}, .hi = {7}}}};
    rows[1].offset = 64;
    assert_ok(hsp_segment_create(*state, &k, &whose, rows, 2, 128, NULL, &s, &err), &err);
    struct hsp_box part = {.rank = 1, .lo = {0}, .hi = {2}};
    assert_int_equal(hsp_segment_find(s, 4, 0, &part), 0);
    part = (struct hsp_box){.rank = 1, .lo = {5}, .hi = {6}};
    assert_int_equal(hsp_segment_find(s, 4, 0, &part), 1);
    part.lo[0] = 3;
    assert_int_equal(hsp_segment_find(s, 4, 0, &part), UINT32_MAX);
    hsp_segment_close(s);
}

static struct hsp_state_segment *create(const char *dir, const struct hsp_segment_key *k)
{
    struct hsp_segment_row rows[N_ROWS];
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    make_rows(rows);
    assert_ok(hsp_segment_create(dir, k, &whose, rows, N_ROWS, AREA, NULL, &s, &err), &err);
    return s;
}

/* Reads a segment of a program that knew of no clusters: job-4+0+0+e7+s0.seg, version 9. All fields
 * not set here are zero. */
static void a_segment_of_the_first_format_is_read(void **state)
{
    static const struct {
        size_t at;
        const char *hex;
    } runs[] = {
        {0,
         "48534d50534547310100000001000000001000000000000080100000000000000020000000000000400000000"
         "00000004020"},
        {72, "6a6f622d34"},
        {136, "302f30"},
        {296, "07"},
        {312, "107832c4e06af2b8"},
        {1024, "09000000000000002df838a9a7773084e202d7a3dcb2331bdec0dec0d01e5e9d"},
        {4112, "04"},
        {4144, "01"},
        {4184, "04"},
        {4224, "2df838a9a7773084"},
        {8194, "803f000000400000404000008040"}};
    const struct hsp_segment_key key = {.job = "job-4", .device = "0/0", .epoch = 7};
    uint8_t file[8256] = {0};
    struct hsp_err err = {0};
    struct hsp_state_segment *s;
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        for (size_t k = 0; runs[i].hex[2 * k] != '\0'; k++) {
            unsigned byte;
            assert_int_equal(sscanf(runs[i].hex + 2 * k, "%2x", &byte), 1);
            file[runs[i].at + k] = (uint8_t)byte;
        }
    }
    (void)snprintf(path, sizeof path, "%s/job-4+0+0+e7+s0.seg", (char *)*state);
    for (size_t i = 0; i < 320; i += 8) { /* damaged, at last whole */
        file[i] ^= i < 312;
        assert_ok(hsp_file_write(path, file, sizeof file, 0600, &err), &err);
        file[i] ^= i < 312;
        assert_status(hsp_segment_open(*state, &key, false, &s, &err),
                      i < 312 ? HSP_EDIGEST : HSP_OK);
    }
    struct hsp_whose is = hsp_segment_whose(s);
    assert_true(hsp_cluster_none(is.cluster) && is.generation == 0);
    assert_true(hsp_segment_version(s) == 9);
    assert_ok(hsp_segment_verify(s, &err), &err);
    assert_true(((float *)hsp_segment_area(s))[3] == 4.0f);
    hsp_segment_close(s);
}

static void sealed_state_comes_back(void **state)
{
    struct hsp_segment_key k = segment_key(3, 1);
    struct hsp_err err = {0};
    struct hsp_state_segment *s = create(*state, &k), *again;
    assert_true(hsp_segment_version(s) == HSP_NO_VERSION);
    assert_status(hsp_segment_verify(s, &err), HSP_ESTATE);
    fill(s, 41);
    hsp_segment_seal(s, 41);
    assert_true(hsp_segment_version(s) == 41);
    hsp_segment_close(s);
    assert_ok(hsp_segment_open(*state, &k, true, &again, &err), &err);
    assert_true(hsp_segment_version(again) == 41);
    struct hsp_whose is = hsp_segment_whose(again);
    assert_true(hsp_digest_equal(is.cluster, whose.cluster) && is.generation == 33);
    assert_int_equal(hsp_segment_n(again), N_ROWS);
    assert_int_equal(hsp_segment_area_bytes(again), AREA);
    struct hsp_box part = {.rank = 2, .lo = {3, 5}, .hi = {7, 6}};
    assert_int_equal(hsp_segment_find(again, 4, 1, &part), 1);
    assert_int_equal(hsp_segment_find(again, 5, 1, &part), UINT32_MAX);
    part.lo[1] = 4;
    assert_int_equal(hsp_segment_find(again, 4, 1, &part), UINT32_MAX);
    assert_int_equal(wrong(again, 41), 0);
    assert_ok(hsp_segment_verify(again, &err), &err);
    assert_true(hsp_segment_content(again) ==
                hsp_segment_row_hash(again, 0) + hsp_segment_row_hash(again, 1));
    assert_true(hsp_segment_row_hash(again, 2) == 0); /* an empty box */
    uint64_t known[N_ROWS], content = hsp_segment_content(again);
    for (uint32_t i = 0; i < N_ROWS; i++) {
        known[i] = hsp_segment_row_hash(again, i);
    }
    hsp_segment_unseal(again);
    hsp_segment_seal_known(again, 42, known);
    assert_true(hsp_segment_version(again) == 42);
    assert_true(hsp_segment_content(again) == content);
    assert_ok(hsp_segment_verify(again, &err), &err);
    known[0]++;
    hsp_segment_seal_known(again, 42, known);
    assert_status(hsp_segment_verify(again, &err), HSP_EDIGEST);
    hsp_segment_unseal(again);
    hsp_segment_close(again);
    assert_ok(hsp_segment_open(*state, &k, false, &again, &err), &err);
    assert_true(hsp_segment_version(again) == HSP_NO_VERSION);
    hsp_segment_close(again);
}

static void creation_is_refused(void **state)
{
    struct hsp_segment_row r[N_ROWS];
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    struct hsp_segment_key k = segment_key(1, 0), bad = k;
    hsp_segment_close(create(*state, &k));
    make_rows(r);
    assert_status(hsp_segment_create(*state, &k, &whose, r, N_ROWS, AREA, NULL, &s, &err),
                  HSP_EEXIST);
    k.slot = 7;
    r[1].offset = 384; /* inside row 0 */
    assert_status(hsp_segment_create(*state, &k, &whose, r, N_ROWS, AREA, NULL, &s, &err),
                  HSP_EINVAL);
    make_rows(r);
    r[1].offset = 449;
    assert_status(hsp_segment_create(*state, &k, &whose, r, N_ROWS, AREA, NULL, &s, &err),
                  HSP_EINVAL);
    make_rows(r);
    assert_status(hsp_segment_create(*state, &k, &whose, r, N_ROWS, 500, NULL, &s, &err),
                  HSP_EINVAL);
    r[0].box.hi[1] = 21;
    assert_status(hsp_segment_create(*state, &k, &whose, r, N_ROWS, AREA, NULL, &s, &err),
                  HSP_EINVAL);
    make_rows(r);
    (void)snprintf(bad.device, sizeof(bad.device), "%s", "node 1");
    assert_status(hsp_segment_create(*state, &bad, &whose, r, N_ROWS, AREA, NULL, &s, &err),
                  HSP_EINVAL);
    (void)snprintf(bad.job, sizeof(bad.job), "%s", "../x");
    assert_status(hsp_segment_create(*state, &bad, &whose, r, N_ROWS, AREA, NULL, &s, &err),
                  HSP_EINVAL);
    enum hsp_status st =
        hsp_segment_create(*state, &k, &whose, r, N_ROWS, (int64_t)1 << 60, NULL, &s, &err);
    assert_true(st == HSP_ENOSPC || st == HSP_ELIMIT); /* full; longer than a file may be */
    assert_status(hsp_segment_create("/nonexistent", &k, &whose, r, N_ROWS, AREA, NULL, &s, &err),
                  HSP_ENOENT);
    struct hsp_segment_info *info;
    size_t n;
    assert_ok(hsp_segment_scan(*state, &info, &n, &err), &err);
    assert_int_equal(n, 1); /* nothing left of the refused ones */
    free(info);
    assert_status(hsp_segment_open(*state, &k, false, &s, &err), HSP_ENOENT);
}

/* A damaged seal word of an open segment is noticed, too: damage is no reason to take it for
 * unsealed. A process that has the segment mapped also notices it. */
static void a_damaged_seal_word_is_noticed(void **state)
{
    struct hsp_segment_key k = segment_key(2, 0);
    struct hsp_state_segment *s = create(*state, &k), *other = NULL;
    struct hsp_err err = {0};
    const char *path = segment_file(*state, &k);
    fill(s, 5);
    for (int sealed = 0; sealed < 2; sealed++) {
        if (sealed) {
            hsp_segment_seal(s, 5);
        }
        for (uint64_t bit = 0; bit < 64; bit += 7) {
            flip_bit(path, 1024 + 24 + bit / 8, (int)(bit % 8));
            assert_status(hsp_segment_open(*state, &k, false, &other, &err), HSP_EDIGEST);
            assert_non_null(strstr(err.msg, "damaged seal"));
            assert_status(hsp_segment_verify(s, &err), HSP_EDIGEST);
            flip_bit(path, 1024 + 24 + bit / 8, (int)(bit % 8));
        }
        assert_status(hsp_segment_verify(s, &err), sealed ? HSP_OK : HSP_ESTATE);
    }
    hsp_segment_close(s);
}

static void any_damage_is_noticed(void **state)
{
    struct hsp_segment_key k = segment_key(2, 0);
    struct hsp_state_segment *s = create(*state, &k);
    struct hsp_err err = {0};
    fill(s, 5);
    hsp_segment_seal(s, 5);
    hsp_segment_close(s);
    const char *path = segment_file(*state, &k);
    uint64_t size = size_of(path);
    uint64_t used[] = {sizeof(struct hsp_segment_row) * N_ROWS + 8 * N_ROWS, 0};
    int refused = 0, contents = 0;
    for (uint64_t at = 0; at < size; at++) {
        bool table = at >= 4096 && at < 4096 + used[0];
        bool area = (at >= 8192 && at < 8192 + 400) || (at >= 8192 + 448 && at < 8192 + 848);
        if (!(at < 400 || (at >= 1024 && at < 1056) || table || area)) {
            continue; /* padding, empty parts */
        }
        flip_bit(path, at, (int)(at % 8));
        enum hsp_status st = hsp_segment_open(*state, &k, false, &s, &err);
        if (st != HSP_OK) {
            assert_false(area);
            refused++;
        } else {
            assert_true(hsp_segment_version(s) != HSP_NO_VERSION);
            if (hsp_segment_verify(s, &err) == HSP_EDIGEST) {
                assert_true(area);
                contents++;
            } else {
                /* a flip that is not noticed is after the end of the head */
                assert_true(at >= 300 && at < 400);
            }
            hsp_segment_close(s);
        }
        flip_bit(path, at, (int)(at % 8));
    }
    assert_int_equal(contents, 800);
    assert_true(refused > 300 + 32 + (int)used[0] - 1);
    for (uint64_t cut = 0; cut < size; cut += 509) {
        cut_file(path, size - 1 - cut);
        assert_status(hsp_segment_open(*state, &k, false, &s, &err), HSP_EDIGEST);
    }
}

static void a_file_under_another_name_is_refused(void **state)
{
    struct hsp_segment_key k = segment_key(2, 0), other = segment_key(2, 1);
    struct hsp_state_segment *s = create(*state, &k);
    struct hsp_err err = {0};
    hsp_segment_close(s);
    char from[4096];
    (void)snprintf(from, sizeof(from), "%s", segment_file(*state, &k));
    assert_int_equal(rename(from, segment_file(*state, &other)), 0);
    assert_status(hsp_segment_open(*state, &other, false, &s, &err), HSP_EINVAL);
}

/* A writer is killed at any moment. Any version sealed afterwards is whole, and one of the two
 * slots has the newest stable version. */
static void killed_writers_leave_whole_versions(void **state)
{
    struct hsp_segment_key k[2] = {segment_key(8, 0), segment_key(8, 1)};
    struct hsp_err err = {0};
    for (int i = 0; i < 2; i++) {
        struct hsp_state_segment *s = create(*state, &k[i]);
        fill(s, (uint64_t)i);
        hsp_segment_seal(s, (uint64_t)i);
        hsp_segment_close(s);
    }
    int unsealed = 0;
    for (uint64_t trial = 0; trial < 60; trial++) {
        int running[2];
        char byte;
        assert_int_equal(pipe(running), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct hsp_state_segment *s[2];
            uint64_t v[2];
            for (int i = 0; i < 2; i++) {
                if (hsp_segment_open(*state, &k[i], true, &s[i], NULL) != HSP_OK) {
                    _exit(1);
                }
                v[i] = hsp_segment_version(s[i]);
            }
            uint64_t now =
                v[0] != HSP_NO_VERSION && (v[1] == HSP_NO_VERSION || v[0] > v[1]) ? v[0] : v[1];
            for (int round = 0;; round++) {
                if (round == 1 && write(running[1], "r", 1) != 1) {
                    _exit(1);
                }
                now++;
                hsp_segment_unseal(s[now % 2]);
                fill(s[now % 2], now);
                hsp_segment_seal(s[now % 2], now);
            }
        }
        assert_int_equal(read(running[0], &byte, 1), 1);
        assert_int_equal(close(running[0]), 0);
        assert_int_equal(close(running[1]), 0);
        (void)usleep((useconds_t)hsp_test_range("kill", trial, 0, 1500));
        int status;
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        int whole = 0;
        for (int i = 0; i < 2; i++) {
            struct hsp_state_segment *s;
            assert_ok(hsp_segment_open(*state, &k[i], false, &s, &err), &err);
            uint64_t v = hsp_segment_version(s);
            if (v != HSP_NO_VERSION) {
                assert_int_equal(v % 2, i);
                assert_ok(hsp_segment_verify(s, &err), &err);
                assert_int_equal(wrong(s, v), 0);
                whole++;
            } else {
                unsealed++;
            }
            hsp_segment_close(s);
        }
        assert_true(whole >= 1);
    }
    assert_true(unsealed > 0); /* otherwise no writer was killed in the middle of a write */
}

/* A scan during sealing never shows damage, since the agent deletes damaged segments. */
static void a_writer_at_work_is_no_damage(void **state)
{
    struct hsp_segment_key k = segment_key(8, 0);
    struct hsp_state_segment *s = create(*state, &k);
    struct hsp_err err = {0};
    int sealed = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    for (uint64_t v = 0; pid == 0 && v < UINT64_MAX; v++) { /* contents do not matter to the seal */
        uint64_t hash[N_ROWS] = {v, 3 * v, 5 * v};
        hsp_segment_unseal(s);
        hsp_segment_seal_known(s, v, hash);
    }
    for (int i = 0; i < 3000 || sealed < 100; i++) {
        struct hsp_state_segment *seen;
        enum hsp_status st = hsp_segment_open(*state, &k, false, &seen, &err);
        if (st != HSP_OK) {
            (void)kill(pid, SIGKILL);
            assert_ok(st, &err);
        }
        sealed += hsp_segment_version(seen) != HSP_NO_VERSION;
        (void)hsp_segment_close(seen);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)hsp_segment_close(s);
}

static void a_name_says_whose_it_is(void **state)
{
    (void)state;
    static const char *const others[] = {"",
                                         ".seg",
                                         "agent.lock",
                                         "job-4+0+2+e7+s1.tmp",
                                         "job-4+0+2+e7+s1",
                                         "job-4+0+2+e07+s1.seg",
                                         "job-4+0+e7+s1.seg",
                                         "job-4+0+2+of+e7+s1.seg",
                                         "job-4+0+2+e7+s4294967296.seg",
                                         "job-4+0+2+f7+s1.seg",
                                         "JOB 4+0+2+e7+s1.seg"};
    struct hsp_segment_key k = {.epoch = 1}, back;
    char path[HSP_SEGMENT_PATH], tmp[HSP_SEGMENT_PATH];
    struct hsp_err err = {0};
    (void)snprintf(k.job, sizeof(k.job), "%s", "gpt-2.small");
    for (int owned = 0; owned < 2; owned++) {
        (void)snprintf(k.device, sizeof(k.device), "%s", "node-1/0");
        (void)snprintf(k.owner, sizeof(k.owner), "%s", owned ? "node-2/13" : "");
        for (k.epoch = 1; k.epoch != 0; k.epoch *= 1 << 16) {
            k.slot = (uint32_t)(k.epoch % 7);
            assert_ok(hsp_segment_paths("/d", &k, path, tmp, &err), &err);
            assert_true(hsp_segment_key_parse(path + 3, &back));
            assert_memory_equal(&k, &back, sizeof(k));
        }
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(hsp_segment_key_parse(others[i], &back));
    }
}

/* Verifies rows of one and of many slabs by several threads: finds exactly the damaged rows. */
static void damaged_rows_are_found(void **state)
{
    enum { LARGE = 3 * 1024 * 1024, ROWS = 4 };
    struct hsp_segment_key k = segment_key(9, 0);
    struct hsp_segment_row rows[ROWS];
    struct hsp_verify_row what[ROWS];
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    size_t n;
    for (uint32_t i = 0; i < ROWS; i++) {
        int64_t count = i == 2 ? 0 : i == 1 ? 5 : LARGE;
        rows[i] = (struct hsp_segment_row){.tensor = i,
                                           .dtype = HSP_F32,
                                           .full = {LARGE, 2},
                                           .box = {.rank = 2, .hi = {count, 1}},
                                           .offset = (int64_t)i * LARGE * 4};
        what[i] = (struct hsp_verify_row){.row = i};
    }
    assert_ok(hsp_segment_create(*state, &k, &whose, rows, ROWS, (int64_t)ROWS * LARGE * 4, NULL,
                                 &s, &err),
              &err);
    fill(s, 3);
    hsp_segment_seal(s, 3);
    for (uint32_t i = 0; i < ROWS; i++) {
        what[i].seg = s;
    }
    assert_ok(hsp_verify_rows(what, ROWS, &n, &err), &err);
    assert_int_equal(n, 0);
    assert_ok(hsp_verify_rows(what, 0, &n, &err), &err);
    assert_int_equal(n, 0);
    uint8_t *area = hsp_segment_area(s);
    for (uint64_t round = 0; round < 6; round++) {
        uint32_t bad = (uint32_t[]){0, 1, 3}[round % 3];
        int64_t bytes = hsp_box_count(&rows[bad].box) * 4;
        uint8_t *at = area + rows[bad].offset + hsp_test_range("bad", round, 0, bytes - 1);
        struct hsp_verify *v;
        *at ^= 16;
        assert_ok(hsp_verify_begin(what, ROWS, (unsigned)round, &v, &err), &err);
        hsp_verify_end(v, &n);
        assert_null(hsp_verify_free(v));
        assert_int_equal(n, 1);
        for (uint32_t i = 0; i < ROWS; i++) {
            assert_true(what[i].damaged == (i == bad));
        }
        *at ^= 16;
    }
    struct hsp_verify *v; /* given up: no row counts as whole that was not hashed */
    assert_ok(hsp_verify_begin(what, ROWS, 1, &v, &err), &err);
    hsp_verify_stop(v);
    hsp_verify_end(v, &n);
    assert_true(n <= ROWS);
    (void)hsp_verify_free(v);
    (void)hsp_segment_close(s);
}

static void scanning_and_removing(void **state)
{
    struct hsp_segment_info *info;
    struct hsp_err err = {0};
    size_t n;
    char path[4096];
    for (uint64_t e = 1; e <= 3; e++) {
        struct hsp_segment_key k = segment_key(e, 0);
        struct hsp_state_segment *s = create(*state, &k);
        if (e > 1) {
            hsp_segment_seal(s, 10 * e);
        }
        hsp_segment_close(s);
    }
    struct hsp_segment_key copy = segment_key(3, 0), other = segment_key(1, 0);
    (void)snprintf(copy.owner, sizeof(copy.owner), "%s", "node-2/1");
    hsp_segment_close(create(*state, &copy));
    (void)snprintf(other.job, sizeof(other.job), "%s", "gpt-2");
    hsp_segment_close(create(*state, &other));
    (void)snprintf(path, sizeof(path), "%s/gpt-2.small+node-1+0+e9+s0.tmp", (char *)*state);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
    const struct utimbuf old = {.actime = 1, .modtime = 1};
    assert_int_equal(utime(path, &old), 0);
    struct hsp_segment_key k2 = segment_key(2, 0);
    flip_bit(segment_file(*state, &k2), 4100, 3);
    assert_ok(hsp_segment_scan(*state, &info, &n, &err), &err);
    assert_int_equal(n, 5);
    assert_int_equal(access(path, F_OK), 0); /* its creator may be at work for long */
    assert_string_equal(info[0].key.job, "gpt-2");
    assert_true(info[1].version == HSP_NO_VERSION && info[1].key.epoch == 1);
    assert_int_equal(info[2].status, HSP_EDIGEST);
    assert_true(info[3].version == 30 && info[3].key.owner[0] == '\0');
    assert_string_equal(info[4].key.owner, "node-2/1");
    for (size_t i = 0; i < n; i++) { /* also the damaged one */
        assert_ok(hsp_segment_remove(*state, &info[i].key, &err), &err);
    }
    assert_ok(hsp_segment_remove(*state, &info[0].key, &err), &err);
    free(info);
    assert_ok(hsp_segment_scan(*state, &info, &n, &err), &err);
    assert_int_equal(n, 0);
    free(info);
    assert_status(hsp_segment_scan("/nonexistent", &info, &n, &err), HSP_ENOENT);
}

/* An error must not give an empty list: hspmdd would give the state up. */
static void without_descriptors_nothing_is_known(void **state)
{
    struct hsp_segment_key k = segment_key(3, 1);
    struct hsp_segment_info *list = NULL;
    struct hsp_err err = {0};
    size_t n = 0;
    struct hsp_state_segment *s = create(*state, &k);
    fill(s, 7);
    hsp_segment_seal(s, 7);
    hsp_segment_close(s);
    for (unsigned left = 0; left < 2; left++) { /* for the folder, for a file in it */
        starve_descriptors(left);
        enum hsp_status st = hsp_segment_scan(*state, &list, &n, &err);
        feed_descriptors();
        assert_int_equal(st, HSP_ENOMEM);
        assert_non_null(strstr(err.msg, "Too many open files"));
    }
    assert_ok(hsp_segment_scan(*state, &list, &n, &err), &err);
    assert_true(n == 1 && list[0].version == 7);
    free(list);
}

/* Sources have random parts of two versions. Every box of a target is filled or reported. */
static void filling_a_new_layout(void **state)
{
    enum { PARTS = 6 };
    const int64_t full[] = {12, 17};
    struct hsp_err err = {0};
    struct hsp_box whole = hsp_box_whole(2, full);
    for (uint64_t trial = 0; trial < 25; trial++) {
        struct hsp_box part[PARTS];
        struct hsp_state_segment *src[PARTS], *target;
        size_t n = random_cuts(&whole, PARTS, "fill", trial, part);
        for (size_t i = 0; i < n; i++) {
            struct hsp_segment_key k = segment_key(trial * 2, (uint32_t)i);
            struct hsp_segment_row r = {
                .tensor = 3, .kind = 2, .dtype = HSP_F32, .full = {12, 17}, .box = part[i]};
            assert_ok(hsp_segment_create(*state, &k, &whose, &r, 1, AREA, NULL, &src[i], &err),
                      &err);
            fill(src[i], 6);
            if (hsp_test_rand("sealed", trial * 10 + i) % 4 != 0) { /* some are not to be used */
                hsp_segment_seal(src[i], hsp_test_rand("v", trial * 10 + i) % 4 != 0 ? 6 : 5);
            }
        }
        struct hsp_segment_row r[2] = {{.tensor = 3,
                                        .kind = 2,
                                        .dtype = HSP_F32,
                                        .full = {12, 17},
                                        .offset = 0,
                                        .box = random_inside(&whole, "target", trial)},
                                       {.tensor = 3,
                                        .kind = 0,
                                        .dtype = HSP_F32,
                                        .full = {12, 17},
                                        .offset = 2048,
                                        .box = {.rank = 2, .lo = {1, 1}, .hi = {3, 3}}}};
        struct hsp_segment_key k = segment_key(trial * 2 + 1, 0);
        assert_ok(hsp_segment_create(*state, &k, &whose, r, 2, AREA, NULL, &target, &err), &err);
        struct hsp_shards shards = {(const struct hsp_state_segment *const *)src, n, 6};
        struct shard_gap *gap;
        size_t n_gaps;
        assert_ok(shards_fill(&shards, target, &gap, &n_gaps, &err), &err);
        int64_t missing = 0, usable = 0, other = 0;
        struct hsp_box cut;
        for (size_t i = 0; i < n_gaps; i++) {
            if (gap[i].row == 0) {
                missing += hsp_box_count(&gap[i].box);
            } else {
                other += hsp_box_count(&gap[i].box);
            }
        }
        for (size_t i = 0; i < n; i++) {
            if (hsp_segment_version(src[i]) == 6 && hsp_box_cut(&part[i], &r[0].box, &cut)) {
                usable += hsp_box_count(&cut);
                assert_int_equal(
                    wrong_in_box(HSP_F32, 3, 2, 6, full, &cut, &r[0].box, hsp_segment_area(target)),
                    0);
            }
        }
        assert_int_equal(missing + usable, hsp_box_empty(&r[0].box) ? 0 : hsp_box_count(&r[0].box));
        assert_int_equal(other, 4); /* a kind that no source has */
        free(gap);
        hsp_segment_close(target);
        for (size_t i = 0; i < n; i++) {
            hsp_segment_close(src[i]);
        }
    }
}

HSP_TEST_FILE(segment_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_segment_of_the_first_format_is_read, in_folder,
                                        folder_gone),
        cmocka_unit_test_setup_teardown(sealed_state_comes_back, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(a_part_is_found_in_its_row, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(creation_is_refused, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(a_damaged_seal_word_is_noticed, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(any_damage_is_noticed, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(a_file_under_another_name_is_refused, in_folder,
                                        folder_gone),
        cmocka_unit_test_setup_teardown(killed_writers_leave_whole_versions, in_folder,
                                        folder_gone),
        cmocka_unit_test_setup_teardown(a_writer_at_work_is_no_damage, in_folder, folder_gone),
        cmocka_unit_test(a_name_says_whose_it_is),
        cmocka_unit_test_setup_teardown(damaged_rows_are_found, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(scanning_and_removing, in_folder, folder_gone),
        cmocka_unit_test_setup_teardown(without_descriptors_nothing_is_known, in_folder,
                                        folder_gone),
        cmocka_unit_test_setup_teardown(filling_a_new_layout, in_folder, folder_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
