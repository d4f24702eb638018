/* Tests callers with another key: which are remembered, and how often people are told. */
#include "daemon/app/state/refusals.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/testlib.h"

static bool note(struct hsp_refusals *r, const char *name, enum hsp_net_role role, uint64_t source,
                 hsp_msec now)
{
    const struct hsp_net_peer peer = {.name = name, .role = role, .source = source};
    const struct hsp_refusal *x = NULL;
    bool due = hsp_refusals_note(r, &peer, now, &x);
    assert_true(x != NULL && x->last_ms == now && x->source == source);
    return due;
}

static void the_address_is_remembered(void **state)
{
    (void)state;
    struct hsp_refusals r = {.tell_ms = 0};
    char text[HSP_REFUSAL_TEXT];
    assert_true(note(&r, "10.0.0.7:4410", HSP_ROLE_WORKER, 7, 1000));
    const struct hsp_refusal *x = hsp_refusals_agent(&r, 7, 2000);
    assert_non_null(x);
    hsp_refusal_text(x, text);
    assert_string_equal(
        text, "an agent at 10.0.0.7 is refused: its worker key is not the one of hspmdd; copy the "
              "worker key of this host there, and restart hspmd-worker");
    assert_null(hsp_refusals_agent(&r, 8, 2000));
    assert_null(hsp_refusals_agent(&r, 0, 2000));   /* not known */
    assert_null(hsp_refusals_agent(&r, 7, 181000)); /* calls no more */
    assert_true(note(&r, "fd00::1:4411", HSP_ROLE_ADMIN, 9, 20000));
    assert_null(hsp_refusals_agent(&r, 9, 20000)); /* no agent */
    assert_string_equal(r.of[1].host, "fd00::1");
    hsp_refusal_text(&r.of[1], text);
    assert_non_null(strstr(text, "an administrator at fd00::1 is refused"));
}

static void people_are_told_now_and_then(void **state)
{
    (void)state;
    struct hsp_refusals r = {.tell_ms = 0};
    uint32_t told = 0, calls = 0;
    for (hsp_msec now = 1; now < 3600000;
         now += 20000, calls++) { /* one agent, another port each time */
        char name[40];
        (void)snprintf(name, sizeof name, "10.0.0.7:%u", 1000 + calls);
        told += note(&r, name, HSP_ROLE_WORKER, 7, now);
    }
    assert_int_equal(told, 6);
    told = 0;
    for (hsp_msec now = 4000000; now < 4060000; now++) { /* from everywhere */
        char name[40];
        (void)snprintf(name, sizeof name, "10.%u.%u.1:5", (unsigned)(now >> 8 & 255),
                       (unsigned)(now & 255));
        told += note(&r, name, HSP_ROLE_WORKER, now, now);
    }
    assert_int_equal(told, 6);
    assert_null(hsp_refusals_agent(&r, 7, 4060000)); /* others came later */
    assert_non_null(hsp_refusals_agent(&r, 4059999, 4060000));
}

/* One user, another process each time, is one caller. */
static void a_user_is_one_caller(void **state)
{
    (void)state;
    struct hsp_refusals r = {.tell_ms = 0};
    assert_true(note(&r, "uid 1000 pid 77", HSP_ROLE_ADMIN, 7, 1000));
    assert_false(note(&r, "uid 1000 pid 78", HSP_ROLE_ADMIN, 7, 20000));
    assert_string_equal(r.of[0].host, "uid 1000");
    assert_true(note(&r, "uid 1001 pid 79", HSP_ROLE_ADMIN, 8, 20000));
}

HSP_TEST_FILE(refusals_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_address_is_remembered),
        cmocka_unit_test(people_are_told_now_and_then),
        cmocka_unit_test(a_user_is_one_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
