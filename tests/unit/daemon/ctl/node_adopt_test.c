/* Tests `hspmdctl node adopt`: it asks again after failures that pass with time, and after no
 * others. The test plays hspmdd. */
#include "tests/lib/testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/cmd_adopt.h"
#include "daemon/ctl/ctl_run.h"
#include "daemon/ctl/remote.h"

#define ANSWERS 8u

__typeof__(hsp_remote_ask) __real_hsp_remote_ask, __wrap_hsp_remote_ask;
__typeof__(hsp_remote_ask_json) __real_hsp_remote_ask_json, __wrap_hsp_remote_ask_json;

static struct {
    bool on;
    const char *doc[ANSWERS]; /* answers to STATUS; the last one stands */
    enum hsp_status st[ANSWERS];
    uint32_t n_doc, n_st, n_asked, n_adopted;
    char jobs[256];
} play;

enum hsp_status __wrap_hsp_remote_ask(struct hsp_ctl *ctl, struct hsp_msg *m, const char **ret,
                                      size_t *ret_len, struct hsp_err *err)
{
    if (!play.on) {
        return __real_hsp_remote_ask(ctl, m, ret, ret_len, err);
    }
    assert_int_equal(m->type, HSP_MSG_ADOPT);
    assert_true(play.n_adopted < play.n_st);
    enum hsp_status st = play.st[play.n_adopted++];
    size_t n = strlen(play.jobs);
    (void)snprintf(play.jobs + n, sizeof play.jobs - n, "%s ", m->u.adopt.job);
    *ret = "b (10.0.0.2:9)";
    *ret_len = strlen(*ret);
    return st == HSP_OK ? st : hsp_err_set(err, st, 0, "no");
}

enum hsp_status __wrap_hsp_remote_ask_json(struct hsp_ctl *ctl, struct hsp_msg *m,
                                           const char **ret_text, cJSON **ret, struct hsp_err *err)
{
    if (!play.on) {
        return __real_hsp_remote_ask_json(ctl, m, ret_text, ret, err);
    }
    assert_int_equal(m->type, HSP_MSG_STATUS);
    uint32_t i = play.n_asked++;
    const char *doc = play.doc[i < play.n_doc ? i : play.n_doc - 1];
    return hsp_doc_parse(doc, strlen(doc), ret, err);
}

#define KEEPS(name, jobs) "{\"name\": \"" name "\", \"keeps\": [" jobs "]}"
#define JOB(id)           "{\"id\": " id ", \"cluster\": \"ab\"}"
#define BOTH                                                                                       \
    "{\"nodes\": [" KEEPS("a", JOB("1") ", " JOB("2")) ", " KEEPS("b", JOB("1") ", " JOB("2")) "]" \
                                                                                               "}"
#define ONE_IS_BACK "{\"nodes\": [" KEEPS("a", JOB("2")) "]}"
#define BOTH_ARE    "{\"nodes\": [" KEEPS("a", JOB("2")) ", " KEEPS("b", JOB("2")) "]}"

/* Its standard output is in @out. */
static int node_adopt(char **out, size_t *len)
{
    char *msg = NULL;
    size_t n = 0;
    const char *argv[] = {"hspmdctl", "node", "adopt", "a"};
    free(*out);
    FILE *o = open_memstream(out, len), *e = open_memstream(&msg, &n);
    play.on = true;
    int rc = hsp_ctl_run(4, argv, o, e);
    play.on = false;
    (void)fclose(o);
    (void)fclose(e);
    free(msg);
    return rc;
}

static void agents_that_say_hello_again_are_awaited(void **state)
{
    (void)state;
    char *out = NULL;
    size_t len = 0;
    memset(&play, 0, sizeof play);
    play.doc[play.n_doc++] = BOTH;
    play.doc[play.n_doc++] = ONE_IS_BACK; /* the papers that it has alone would be refused */
    play.doc[play.n_doc++] = BOTH_ARE;
    const enum hsp_status st[] = {HSP_OK, HSP_ENODEV, HSP_ENOENT, HSP_OK};
    play.n_st = 4;
    memcpy(play.st, st, sizeof st);
    assert_int_equal(node_adopt(&out, &len), 0);
    assert_string_equal(out, "job 1 was adopted; job record of b (10.0.0.2:9)\n"
                             "job 2 was adopted; job record of b (10.0.0.2:9)\n");
    assert_string_equal(play.jobs, "1@ab 2@ab 2@ab 2@ab ");
    assert_int_equal(play.n_asked, 3);
    free(out);
}

static void a_refusal_that_waiting_does_not_mend_ends_it(void **state)
{
    (void)state;
    char *out = NULL;
    size_t len = 0;
    memset(&play, 0, sizeof play);
    play.doc[play.n_doc++] = BOTH;
    play.st[1] = HSP_ESTATE;
    play.n_st = 2;
    assert_int_equal(node_adopt(&out, &len), 7);
    assert_string_equal(play.jobs, "1@ab 2@ab ");
    free(out);
}

HSP_TEST_FILE(node_adopt_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agents_that_say_hello_again_are_awaited),
        cmocka_unit_test(a_refusal_that_waiting_does_not_mend_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
