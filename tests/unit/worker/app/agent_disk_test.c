/* Tests the agent's use of scans of its state folder. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"
#include "tests/unit/proto/wire/papers_sample.h"
#include "worker/app/agent_disk.h"
#include "worker/app/agent_shell.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_name.h"

static bool no_memory;
static uint32_t n_scanned, n_holdings, n_kept;
static bool kept_more;

/* The loop's side (agent_loop.c), as far as disk tasks go. */
static void feed(struct hsp_agent_shell *s, struct hsp_agent_event *ev)
{
    (void)s;
    assert_int_equal(ev->type, HSP_AEV_SCANNED);
    assert_int_equal(ev->scan, 7);
    n_scanned++;
    n_holdings = ev->n;
    n_kept = ev->n_kept;
    kept_more = ev->kept_more;
}

enum hsp_status __real_hsp_segname_scan(const char *dir, struct hsp_m_holding **ret,
                                        uint32_t *ret_n, struct hsp_err *err);
enum hsp_status __wrap_hsp_segname_scan(const char *dir, struct hsp_m_holding **ret,
                                        uint32_t *ret_n, struct hsp_err *err);

enum hsp_status __wrap_hsp_segname_scan(const char *dir, struct hsp_m_holding **ret,
                                        uint32_t *ret_n, struct hsp_err *err)
{
    return no_memory ? hsp_err_set(err, HSP_ENOMEM, 0, "no memory for a segment")
                     : __real_hsp_segname_scan(dir, ret, ret_n, err);
}

static uint64_t spares; /* bytes */

uint64_t __wrap_hsp_spare_bytes(const char *dir);

uint64_t __wrap_hsp_spare_bytes(const char *dir)
{
    (void)dir;
    return spares;
}

static int setup(void **state)
{
    struct hsp_agent_shell *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->feed = feed;
    s->dir = hsp_test_tmpdir();
    s->log = hsp_log_new(open("/dev/null", O_WRONLY | O_CLOEXEC), HSP_LOG_ERROR);
    assert_int_equal(uv_loop_init(&s->loop), 0);
    no_memory = false;
    n_scanned = n_holdings = 0;
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct hsp_agent_shell *s = *state;
    assert_int_equal(uv_loop_close(&s->loop), 0);
    (void)hsp_log_free(s->log);
    hsp_test_rmdir(s->dir);
    free((void *)(uintptr_t)s->dir);
    free(s);
    return 0;
}

/* A segment, sealed as version 4 or, as by a writer that died, not sealed. */
static void leave_of(const char *dir, uint32_t job, uint32_t device, uint64_t plan, bool sealed)
{
    const struct hsp_segname name = {.job = job, .device = device, .plan = plan};
    const struct hsp_segment_row row = {
        .dtype = HSP_F64, .full = {4}, .box = {.rank = 1, .hi = {4}}};
    struct hsp_segment_key key;
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    hsp_segname_key(&name, &key);
    assert_ok(hsp_segment_create(dir, &key, &(struct hsp_whose){0}, &row, 1, 64, NULL, &s, &err),
              &err);
    if (sealed) {
        hsp_segment_seal(s, 4);
    }
    (void)hsp_segment_close(s);
}

static void leave(const char *dir, uint32_t device, uint64_t plan, bool sealed)
{
    leave_of(dir, 1, device, plan, sealed);
}

static void leave_a_version(const char *dir)
{
    leave(dir, 0, 2, true);
}

static void leave_notes(const char *dir, uint32_t device)
{
    char path[PATH_MAX];
    hsp_segname_notes(dir, 1, device, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && close(fd) == 0);
}

static void scan(struct hsp_agent_shell *s)
{
    hsp_agent_scan(s, 7);
    assert_int_equal(uv_run(&s->loop, UV_RUN_DEFAULT), 0);
}

/* The agent lists at most HSP_MSG_KEPT jobs, and reports that there are more. */
static void more_jobs_than_are_listed(void **state)
{
    struct hsp_agent_shell *s = *state;
    for (uint32_t job = 1; job <= HSP_MSG_KEPT + 1; job++) {
        leave_of(s->dir, job, 0, 2, true);
        scan(s);
        assert_int_equal(n_kept, job <= HSP_MSG_KEPT ? job : HSP_MSG_KEPT);
        assert_int_equal(kept_more, job > HSP_MSG_KEPT);
    }
}

static void what_is_there_is_told(void **state)
{
    struct hsp_agent_shell *s = *state;
    scan(s);
    assert_true(n_scanned == 1 && n_holdings == 0);
    leave_a_version(s->dir);
    scan(s);
    assert_true(n_scanned == 2 && n_holdings == 1 && !s->ending);
}

/* The room of the folder is known with the first scan, and looked at again when that is asked. */
static void room_is_measured(void **state)
{
    struct hsp_agent_shell *s = *state;
    struct statvfs fs;
    scan(s);
    assert_int_equal(statvfs(s->dir, &fs), 0);
    double free_bytes = (double)fs.f_bavail * (double)fs.f_frsize;
    assert_near((double)s->folder_free, free_bytes, 0.25 * free_bytes); /* others use it, too */
    s->folder_free = 0;
    hsp_agent_measure_folder(s);
    const struct hsp_agent_task *under_way = s->last_task;
    hsp_agent_measure_folder(s);
    assert_true(s->last_task == under_way); /* one is enough */
    assert_int_equal(uv_run(&s->loop, UV_RUN_DEFAULT), 0);
    assert_true(s->folder_free > 0 && !s->measures && n_scanned == 1);
    spares = 1ULL << 60; /* an agent that lacks room cuts them */
    hsp_agent_measure_folder(s);
    assert_int_equal(uv_run(&s->loop, UV_RUN_DEFAULT), 0);
    assert_true(s->folder_free > spares);
    spares = 0;
    const char *dir = s->dir;
    s->dir = "/nowhere";
    hsp_agent_measure_folder(s);
    assert_int_equal(uv_run(&s->loop, UV_RUN_DEFAULT), 0);
    s->dir = dir; /* which the teardown deletes, also after a failure */
    assert_true(s->folder_free == 0 && !s->ending);
}

/* "Nothing is here" would be believed, and the state given up. */
static void a_folder_that_cannot_be_read_ends_the_agent(void **state)
{
    struct hsp_agent_shell *s = *state;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/no_folder", s->dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && close(fd) == 0);
    const char *dir = s->dir;
    s->dir = path;
    scan(s);
    s->dir = dir; /* which the teardown deletes, also after a failure */
    assert_true(n_scanned == 0 && s->ending && s->rc == 1);
}

static void without_memory_to_look_nothing_is_told(void **state)
{
    struct hsp_agent_shell *s = *state;
    leave_a_version(s->dir);
    no_memory = true;
    scan(s);
    assert_true(n_scanned == 0 && s->ending && s->rc == 1);
}

/* Of device @device in layout @plan: a byte of the head, or of the words that name the format. */
static void spoil(const char *dir, uint32_t device, uint64_t plan, long at, int byte)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/job-1+%u+0+e%u+s0.seg", dir, device, (unsigned)plan);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fputc(byte, f), byte);
    assert_int_equal(fclose(f), 0);
}

/* An agent that begins deletes unsealed and unreadable segments. hspmdd is never told of such a
 * segment, so hspmdd would never release it. A segment of another format stays, since a newer
 * program may own it. */
static void what_is_of_no_use_goes(void **state)
{
    struct hsp_agent_shell *s = *state;
    struct hsp_segment_info *info = NULL;
    struct hsp_m_damaged *damaged = NULL;
    struct hsp_err err = {0};
    char notes[2][PATH_MAX], copy[HSP_SEGMENT_FILE];
    size_t n = 0;
    uint32_t n_damaged = 0;
    leave(s->dir, 0, 2, true);
    leave(s->dir, 0, 3, false);
    leave(s->dir, 1, 3, false);
    for (uint32_t d = 0; d < 2; d++) {
        leave_notes(s->dir, d);
        hsp_segname_notes(s->dir, 1, d, notes[d]);
    }
    leave(s->dir, 0, 5, true);
    spoil(s->dir, 0, 5, 0, 'X'); /* of the magic */
    leave(s->dir, 2, 6, true);
    spoil(s->dir, 2, 6, 8, 9); /* the format, and more than that is different */
    spoil(s->dir, 2, 6, 100, 9);
    assert_ok(hsp_segname_tidy(s->dir, &damaged, &n_damaged, copy, &err), &err);
    assert_string_equal(copy, "");
    assert_ok(hsp_segment_scan(s->dir, &info, &n, &err), &err);
    assert_true(n == 2 && info[0].version == 4 && info[1].status == HSP_EVERSION);
    free(info);
    assert_true(access(notes[0], F_OK) == 0 && access(notes[1], F_OK) != 0);
    assert_int_equal(n_damaged, 1);
    assert_true(damaged[0].job == 1 && damaged[0].device == 0 && damaged[0].plan == 5);
    assert_true(damaged[0].version == HSP_NO_VERSION);
    free(damaged);
    leave(s->dir, 0, 7, true);
    spoil(s->dir, 0, 7, 16, 'X');
    assert_ok(hsp_segname_discard(s->dir, 1, 0, 0, &err), &err);
    assert_ok(hsp_segment_scan(s->dir, &info, &n, &err), &err);
    assert_int_equal(n, 1); /* the other device's */
    free(info);
}

static bool has_file(const char *dir, const char *name)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void leave_file(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct hsp_err err = {0};
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_ok(hsp_file_write(path, "", 0, 0600, &err), &err);
}

/* Of executors that were killed while they made segments; each has the room of one. */
static void unfinished_segments_go_when_their_device_begins(void **state)
{
    static const char *const mine[] = {"job-1+1+0+e2+s1.tmp", "job-1+1+2+of+1+0+e9+s0.tmp"};
    static const char other[] = "job-1+0+0+e2+s1.tmp", strange[] = "notes.tmp";
    struct hsp_agent_shell *s = *state;
    struct hsp_m_damaged *damaged = NULL;
    struct hsp_err err = {0};
    char copy[HSP_SEGMENT_FILE];
    uint32_t n_damaged = 0;
    leave_file(s->dir, mine[0]);
    leave_file(s->dir, mine[1]);
    leave_file(s->dir, other);
    leave_file(s->dir, strange);
    leave(s->dir, 1, 3, true);
    assert_ok(hsp_segname_tidy_device(s->dir, 1, &err), &err);
    assert_false(has_file(s->dir, mine[0]) || has_file(s->dir, mine[1]));
    assert_true(has_file(s->dir, other)); /* that executor may be at work */
    assert_ok(hsp_segname_tidy(s->dir, &damaged, &n_damaged, copy, &err), &err);
    free(damaged);
    assert_false(has_file(s->dir, other));
    assert_true(has_file(s->dir, strange) && has_file(s->dir, "job-1+1+0+e3+s0.seg"));
}

/* An executor deletes the segments of a job while papers of it wait for the disk. */
static void papers_that_come_late_go(void **state)
{
    struct hsp_agent_shell *s = *state;
    struct hsp_papers p = papers_sample();
    struct hsp_err err = {0};
    struct hsp_buf b;
    p.job = 1;
    hsp_buf_init(&b, 1 << 20);
    hsp_papers_write(&p, &b);
    struct hsp_msg keep = {.blob = b.data, .blob_len = (uint32_t)b.len, .u.papers.job = 1};
    for (uint32_t other = 0; other < 2; other++) {
        leave(s->dir, 0, 2, true);
        if (other == 1) {
            leave(s->dir, 1, 2, true);
        }
        hsp_agent_keep_papers(s, &keep);
        hsp_agent_drop_papers(s, 1);
        assert_ok(hsp_segname_discard(s->dir, 1, 0, 0, &err), &err);
        assert_int_equal(uv_run(&s->loop, UV_RUN_DEFAULT), 0);
        assert_int_equal(has_file(s->dir, "job-1.papers"), other == 1);
    }
    hsp_buf_fini(&b);
}

/* Copies file @from of @dir to @to. */
static void copy_file(const char *dir, const char *from, const char *to)
{
    char path[2][PATH_MAX];
    uint8_t *data = NULL;
    size_t len = 0;
    struct hsp_err err = {0};
    (void)snprintf(path[0], sizeof path[0], "%s/%s", dir, from);
    (void)snprintf(path[1], sizeof path[1], "%s/%s", dir, to);
    assert_ok(hsp_file_read(path[0], 1 << 20, &data, &len, &err), &err);
    assert_ok(hsp_file_write(path[1], data, len, 0600, &err), &err);
    free(data);
}

/* An administrator's copies, of a file that was not sealed yet, name the original in their
 * heads. */
static void a_copy_is_not_taken_for_the_original(void **state)
{
    static const char original[] = "job-1+0+0+e2+s0.seg";
    static const char *const copies[] = {"job-1+0+0+e2+s0.seg (copy).seg", "job-1+0+0+e1+s0.seg",
                                         "old.seg"};
    struct hsp_agent_shell *s = *state;
    struct hsp_m_damaged *damaged = NULL;
    struct hsp_err err = {0};
    struct hsp_state_segment *seg = NULL;
    char path[PATH_MAX], copy[HSP_SEGMENT_FILE];
    uint32_t n_damaged = 0;
    leave(s->dir, 0, 2, false);
    for (int i = 0; i < 3; i++) {
        copy_file(s->dir, original, copies[i]);
    }
    (void)snprintf(path, sizeof path, "%s/%s", s->dir, original);
    assert_ok(hsp_segment_open_path(path, true, &seg, &err), &err);
    hsp_segment_seal(seg, 4);
    (void)hsp_segment_close(seg);
    assert_ok(hsp_segname_tidy(s->dir, &damaged, &n_damaged, copy, &err), &err);
    free(damaged);
    assert_int_equal(n_damaged, 0);
    assert_string_equal(copy, "old.seg");
    assert_ok(hsp_segname_tidy_device(s->dir, 0, &err), &err);
    assert_true(has_file(s->dir, original));
    scan(s);
    assert_true(n_holdings == 1 && n_kept == 1);
    assert_ok(hsp_segname_discard(s->dir, 1, 0, 0, &err), &err);
    assert_false(has_file(s->dir, original));
    for (int i = 0; i < 3; i++) {
        assert_true(has_file(s->dir, copies[i]));
    }
    scan(s);
    assert_true(n_holdings == 0 && n_kept == 0);
}

/* Files are listed in another order than jobs: job-10 comes before job-9. */
static void the_newest_pieces_come_first(void **state)
{
    static const struct {
        uint32_t job;
        uint64_t plan;
    } order[] = {{10, 11}, {10, 9}, {9, 12}, {1, 1}};
    struct hsp_agent_shell *s = *state;
    struct hsp_m_holding *h = NULL;
    struct hsp_err err = {0};
    uint32_t n = 0;
    for (int i = 4; i-- > 0;) {
        leave_of(s->dir, order[i].job, 0, order[i].plan, true);
    }
    assert_ok(hsp_segname_scan(s->dir, &h, &n, &err), &err);
    assert_int_equal(n, 4);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(h[i].job == order[i].job && h[i].plan == order[i].plan);
    }
    free(h);
}

HSP_TEST_FILE(agent_disk_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_there_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(room_is_measured, setup, teardown),
        cmocka_unit_test_setup_teardown(more_jobs_than_are_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_cannot_be_read_ends_the_agent, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_of_no_use_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(unfinished_segments_go_when_their_device_begins, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_copy_is_not_taken_for_the_original, setup, teardown),
        cmocka_unit_test_setup_teardown(papers_that_come_late_go, setup, teardown),
        cmocka_unit_test_setup_teardown(the_newest_pieces_come_first, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory_to_look_nothing_is_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
