/* What the agent makes of scans of its state folder. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/lib/testlib.h"
#include "worker/app/agentshell.h"
#include "worker/app/segname.h"

static bool no_memory;
static uint32_t n_scanned, n_failed, n_holdings;

/* The loop's side (agentloop.c), as far as disk tasks go. */
void hsp_agent_feed(struct hsp_agent_shell *s, struct hsp_agent_event *ev)
{
    (void)s;
    assert_int_equal(ev->type, HSP_AEV_SCANNED);
    assert_int_equal(ev->scan, 7);
    n_scanned++;
    n_holdings = ev->n;
}

void hsp_agent_fail(struct hsp_agent_shell *s, const struct hsp_err *why)
{
    assert_int_equal(why->code, HSP_ENOMEM);
    s->ending = true;
    n_failed++;
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

static int setup(void **state)
{
    struct hsp_agent_shell *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->dir = hsp_test_tmpdir();
    s->log = hsp_log_new(open("/dev/null", O_WRONLY | O_CLOEXEC), HSP_LOG_ERROR);
    assert_int_equal(uv_loop_init(&s->loop), 0);
    no_memory = false;
    n_scanned = n_failed = n_holdings = 0;
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

/* Version 4 of job 1. */
static void leave_a_version(const char *dir)
{
    const struct hsp_segname name = {.job = 1, .plan = 2};
    const struct hsp_segment_row row = {
        .dtype = HSP_F64, .full = {4}, .box = {.rank = 1, .hi = {4}}};
    struct hsp_segment_key key;
    struct hsp_state_segment *s;
    struct hsp_err err = {0};
    hsp_segname_key(&name, &key);
    assert_ok(hsp_segment_create(dir, &key, (struct hsp_digest){0}, &row, 1, 64, &s, &err), &err);
    hsp_segment_seal(s, 4);
    (void)hsp_segment_close(s);
}

static void scan(struct hsp_agent_shell *s)
{
    hsp_agent_scan(s, 7);
    assert_int_equal(uv_run(&s->loop, UV_RUN_DEFAULT), 0);
}

static void what_is_there_is_told(void **state)
{
    struct hsp_agent_shell *s = *state;
    scan(s);
    assert_true(n_scanned == 1 && n_holdings == 0);
    leave_a_version(s->dir);
    scan(s);
    assert_true(n_scanned == 2 && n_holdings == 1 && n_failed == 0);
}

static void a_folder_that_cannot_be_read_counts_for_nothing(void **state)
{
    struct hsp_agent_shell *s = *state;
    const char *dir = s->dir;
    s->dir = "/dev/null";
    scan(s);
    assert_true(n_scanned == 1 && n_holdings == 0 && n_failed == 0);
    s->dir = dir;
}

/* "Nothing is here" would be believed, and what is here given up. */
static void without_memory_to_look_nothing_is_told(void **state)
{
    struct hsp_agent_shell *s = *state;
    leave_a_version(s->dir);
    no_memory = true;
    scan(s);
    assert_true(n_scanned == 0 && n_failed == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_there_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_that_cannot_be_read_counts_for_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(without_memory_to_look_nothing_is_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
