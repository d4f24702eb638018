/* Notes of steps: one that trains nothing is JSON all the same, and says so; what is damaged is
 * left out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"
#include "worker/executor/executor.h"
#include "worker/executor/step_log.h"

/* Notes a step of job 3 in @dir. */
static void note(const char *dir, uint64_t step)
{
    struct hsp_err err = {0};
    struct hsp_exec_env env = {.state_dir = dir, .device = 1};
    const struct hsp_m_prepare prepare = {.job = 3};
    const struct hsp_ex_epoch e = {.env = &env, .p = &prepare, .number = 5};
    const struct hsp_vote v = {.step = step,
                               .loss = (double)NAN,
                               .norm = (double)INFINITY,
                               .tokens = 24,
                               .lr = 0.5,
                               .eval_loss = -(double)INFINITY,
                               .eval_tokens = 4};
    assert_ok(hsp_metrics_note(&e, &v, 0.25, 512, &err), &err);
}

/* The file of notes, free(). */
static char *noted(const char *dir, char path[512], size_t *ret_len)
{
    struct hsp_err err = {0};
    uint8_t *text = NULL;
    (void)snprintf(path, 512, "%s/job-3-1.metrics", dir);
    assert_ok(hsp_file_read(path, 65536, &text, ret_len, &err), &err);
    return (char *)text;
}

static void numbers_that_are_none_are_texts(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[512];
    struct hsp_notes_damage d;
    size_t len;
    note(dir, 8);
    char *text = noted(dir, path, &len);
    text[hsp_metrics_check(3, text, len, &d)] = '\0';
    assert_true(d.n == 0 && text[len - 1] == '\n');
    assert_string_equal(
        text, "5 8 {\"step\":8,\"loss\":\"nan\",\"tokens\":24,\"grad_norm\":\"inf\",\"lr\":0.5,"
              "\"val_loss\":\"-inf\",\"seconds\":0.250000,\"sequence\":512,\"epoch\":5}\n");
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

/* Lines that are there, by the steps they begin with: "8 9 ". */
static void assert_steps(const char *text, size_t n, const char *steps)
{
    char got[256] = "";
    for (const char *at = text; at < text + n; at = (const char *)memchr(at, '\n', 4096) + 1) {
        size_t used = strlen(got);
        unsigned epoch, step;
        assert_int_equal(sscanf(at, "%u %u {\"step\":", &epoch, &step), 2);
        assert_int_equal(epoch, 5);
        (void)snprintf(got + used, sizeof got - used, "%u ", step);
    }
    assert_string_equal(got, steps);
}

/* No bit of a note can flip, and no note be taken for another job's, without being told. */
static void a_damaged_note_is_left_out_and_told(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[512];
    struct hsp_notes_damage d;
    size_t len;
    for (uint64_t step = 8; step < 11; step++) {
        note(dir, step);
    }
    char *text = noted(dir, path, &len), *copy = malloc(len);
    assert_non_null(copy);
    const char *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1;
    for (size_t bit = 0; bit < 8 * (size_t)(third - second); bit++) {
        size_t at = (size_t)(second - text) + bit / 8;
        memcpy(copy, text, len);
        copy[at] = (char)(copy[at] ^ (1 << bit % 8));
        bool joined = at + 1 == (size_t)(third - text); /* its end is gone, and with it the third */
        bool cut = copy[at] == '\n';                    /* into two */
        size_t n = hsp_metrics_check(3, copy, len, &d);
        assert_steps(copy, n, joined ? "8 " : "8 10 ");
        assert_true(d.first == 2 && d.n == (cut ? 2 : 1) && d.unproven == 0);
    }
    memcpy(copy, text, len);
    assert_int_equal(hsp_metrics_check(4, copy, len, &d), 0);
    assert_true(d.n == 3 && d.first == 1);
    free(copy);
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

/* kill -9 may leave half a line at the end: it is dropped without a word, by a reader and by the
 * next process that writes. One that is whole but for its end is kept, or told. */
static void half_a_line_at_the_end_is_dropped(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_notes_damage d;
    char *dir = hsp_test_tmpdir(), path[512];
    size_t len;
    note(dir, 8);
    note(dir, 9);
    char *text = noted(dir, path, &len), *copy = malloc(len);
    assert_non_null(copy);
    size_t first = (size_t)(strchr(text, '\n') + 1 - text);
    for (size_t n = first; n <= len; n++) {
        memcpy(copy, text, n);
        size_t kept = hsp_metrics_check(3, copy, n, &d);
        assert_true(d.n == 0);
        assert_steps(copy, kept, n >= len - 1 ? "8 9 " : "8 ");
        if (n % 7 == 0 || n >= len - 1) {
            size_t now;
            assert_ok(hsp_file_write(path, text, n, 0600, &err), &err);
            note(dir, 10);
            char *then = noted(dir, path, &now);
            kept = hsp_metrics_check(3, then, now, &d);
            assert_true(d.n == 0);
            assert_steps(then, kept, n >= len - 1 ? "8 9 10 " : "8 10 ");
            free(then);
        }
    }
    text[len - 1] = 'x'; /* the end of the last line is damaged */
    assert_ok(hsp_file_write(path, text, len, 0600, &err), &err);
    note(dir, 10);
    free(text);
    text = noted(dir, path, &len);
    assert_steps(text, hsp_metrics_check(3, text, len, &d), "8 10 ");
    assert_true(d.n == 1 && d.first == 2);
    free(copy);
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

/* A job goes on over an upgrade: the first of its lines have no sums, and are no damage. One that is not as it
 * was written is, and so is half of one. */
static void notes_of_an_earlier_version_are_kept(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_notes_damage d;
    char *dir = hsp_test_tmpdir(), path[512], both[1024];
    size_t len;
    note(dir, 8);
    char *text = noted(dir, path, &len);
    len = hsp_metrics_check(3, text, len, &d);
    (void)snprintf(both, sizeof both, "%.*s4%.*s", (int)len, text, (int)len, text);
    assert_ok(hsp_file_write(path, both, 2 * len + 1, 0600, &err), &err);
    free(text);
    note(dir, 9);
    text = noted(dir, path, &len);
    assert_steps(text, hsp_metrics_check(3, text, len, &d), "8 9 ");
    assert_true(d.unproven == 1 && d.n == 1 && d.first == 2); /* epoch 45 is none */
    free(text);
    hsp_test_rmdir(dir);
    free(dir);
}

/* Many devices have noted the same steps: together they may be more than there is room for. */
static void notes_of_many_devices_need_the_room_of_one(void **state)
{
    static const char mine[] = "1 0 {\"step\":0}\n1 1 {\"step\":1}\n1 2 {\"step\":2}\n";
    static const char later[] = "2 2 {\"step\":2,\"again\":1}\n2 3 {\"step\":3}\n";
    struct hsp_buf all;
    struct hsp_err err = {0};
    (void)state;
    hsp_buf_init(&all, 2 * sizeof mine + sizeof later);
    for (int device = 0; device < 100; device++) {
        assert_ok(hsp_metrics_add(&all, mine, sizeof mine - 1, &err), &err);
        assert_ok(hsp_metrics_add(&all, later, sizeof later - 1, &err), &err);
    }
    char big[512];
    memset(big, 'x', sizeof big);
    assert_status(hsp_metrics_add(&all, big, sizeof big, &err), HSP_ELIMIT);
    assert_string_equal(hsp_buf_cstr(&all), "1 0 {\"step\":0}\n"
                                            "1 1 {\"step\":1}\n"
                                            "2 2 {\"step\":2,\"again\":1}\n"
                                            "2 3 {\"step\":3}\n");
    hsp_buf_fini(&all);
}

HSP_TEST_FILE(step_log_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_are_none_are_texts),
        cmocka_unit_test(a_damaged_note_is_left_out_and_told),
        cmocka_unit_test(half_a_line_at_the_end_is_dropped),
        cmocka_unit_test(notes_of_an_earlier_version_are_kept),
        cmocka_unit_test(notes_of_many_devices_need_the_room_of_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
