#include "proto/net/strangers.h"

#include <arpa/inet.h>

#include "proto/base/size.h"
#include "tests/lib/testlib.h"

static struct hsp_source ip(const char *s)
{
    struct sockaddr_in a4 = {.sin_family = AF_INET};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, s, &a4.sin_addr) == 1) {
        return hsp_source_of_ip((const struct sockaddr *)&a4);
    }
    assert_int_equal(inet_pton(AF_INET6, s, &a6.sin6_addr), 1);
    return hsp_source_of_ip((const struct sockaddr *)&a6);
}

/* Returns true if @a and @b count as one source. A stranger from @a has the only place of a source;
 * so a newcomer from the same source takes the place of that stranger. */
static bool one(struct hsp_source a, struct hsp_source b)
{
    const struct hsp_stranger s = {.from = a};
    return hsp_strangers_victim(&s, 1, 4, &b, 0) == 0;
}

static void sources(void **state)
{
    (void)state;
    assert_true(one(ip("10.0.0.1"), ip("10.0.0.1")));
    assert_false(one(ip("10.0.0.1"), ip("10.0.0.2")));
    assert_true(one(ip("10.0.0.1"), ip("::ffff:10.0.0.1")));
    assert_true(one(ip("2001:db8::1"), ip("2001:db8::ffff:1:2")));
    assert_false(one(ip("2001:db8::1"), ip("2001:db8:0:1::1")));
    assert_true(one(hsp_source_of_user(7), hsp_source_of_user(7)));
    assert_false(one(hsp_source_of_user(7), hsp_source_of_user(8)));
    const struct sockaddr odd = {.sa_family = AF_UNSPEC};
    assert_true(one(hsp_source_of_ip(&odd), hsp_source_of_ip(&odd)));
    const struct hsp_source all[] = {
        ip("10.0.0.1"),        ip("10.0.0.2"),
        ip("2001:db8::1"),     ip("2001:db8:0:1::1"),
        hsp_source_of_user(7), hsp_source_of_user(0x0100000a) /* the bytes of 10.0.0.1 */,
        hsp_source_of_ip(&odd)};
    for (size_t i = 0; i < HSP_ARRAY_LEN(all); i++) {
        for (size_t k = 0; k < i; k++) {
            assert_true(hsp_source_number(&all[i]) != hsp_source_number(&all[k]));
        }
    }
    assert_int_equal(hsp_source_number(&all[6]), 0);
}

/* Models the places of a server. Callers come one after the other and take the places that they
 * get. */
struct yard {
    struct hsp_stranger s[64];
    uint32_t n, places;
    uint64_t came;
    uint64_t now, kept; /* ms */
};

#define SENT_AWAY UINT64_MAX

/* Lets a caller come from @from. Returns the number of the caller that lost its place, counted from
 * 1 in the order of coming; 0 if no caller lost its place. */
static uint64_t come(struct yard *y, struct hsp_source from)
{
    uint32_t i = hsp_strangers_victim(y->s, y->n, y->places, &from, y->now - y->kept);
    if (i == HSP_NEWCOMER) {
        return SENT_AWAY;
    }
    uint64_t gone = i == HSP_NO_STRANGER ? 0 : y->s[i].since;
    i = i == HSP_NO_STRANGER ? y->n++ : i;
    y->s[i] = (struct hsp_stranger){.from = from, .since = ++y->came};
    assert_true(y->n <= y->places);
    return gone;
}

static void a_source_has_its_share(void **state)
{
    (void)state;
    struct yard y = {.places = 32};
    struct hsp_source bad = ip("10.0.0.1"), good = ip("10.0.0.2");
    for (uint64_t i = 1; i <= 100; i++) {
        assert_int_equal(come(&y, bad), i <= 8 ? 0 : i - 8); /* its oldest */
    }
    assert_int_equal(y.n, 8);
    assert_int_equal(come(&y, good), 0);
    assert_int_equal(y.n, 9);
    assert_int_equal(hsp_strangers_share(1), 1);
    assert_int_equal(hsp_strangers_share(1024), 256);
}

static void many_sources_share_all(void **state)
{
    (void)state;
    struct yard y = {.places = 32};
    for (uint32_t i = 1; i <= 200; i++) {
        struct hsp_source s = hsp_source_of_user(i);
        assert_int_equal(come(&y, s), i <= 32 ? 0 : i - 32);
    }
    assert_int_equal(come(&y, ip("10.0.0.2")), 169);
    assert_int_equal(y.n, 32);
}

/* A caller that has proved a key stays as long as there is another caller that has not proved a
 * key. */
static void a_key_is_a_merit(void **state)
{
    (void)state;
    struct yard y = {.places = 16, .now = 1000};
    struct hsp_source a = ip("10.0.0.1");
    for (uint32_t i = 1; i <= 4; i++) {
        (void)come(&y, a);
    }
    y.s[0].proved_ms = y.s[1].proved_ms = 1000;
    assert_int_equal(come(&y, a), 3);
    assert_int_equal(come(&y, a), 4);
    y.s[2].proved_ms = y.s[3].proved_ms = 1000;
    assert_int_equal(come(&y, a), 1);
    for (uint32_t i = 1; i <= 12; i++) {
        (void)come(&y, hsp_source_of_user(i));
    }
    assert_int_equal(y.n, 16);
    assert_int_equal(come(&y, ip("10.0.0.9")), 7); /* the number 1 gave its place to 7 */
}

/* A caller that has proved a key stays until the proof is 500 ms old. Until that time newer callers
 * are sent away, also if the places of all sources are taken. After that the caller with the oldest
 * proof is closed first, not the oldest caller. */
static void a_new_proof_keeps_the_place(void **state)
{
    (void)state;
    struct yard y = {.places = 16, .now = 1000, .kept = 500};
    struct hsp_source a = ip("10.0.0.1");
    for (uint32_t i = 1; i <= 4; i++) {
        assert_int_equal(come(&y, a), 0);
    }
    /* no caller has proved a key, so the caller can lose its place */
    assert_int_equal(come(&y, a), 1);
    for (uint32_t i = 0; i < 4; i++) {
        y.s[i].proved_ms = i == 2 ? 1000 : 1001;
    }
    y.now = 1499;
    assert_int_equal(come(&y, a), SENT_AWAY);
    for (uint32_t i = 1; i <= 12; i++) {
        assert_int_equal(come(&y, hsp_source_of_user(i)), 0);
        y.s[y.n - 1].proved_ms = 1499;
    }
    assert_int_equal(come(&y, ip("10.0.0.2")), SENT_AWAY);
    y.now = 1500;
    assert_int_equal(come(&y, a), 3);
    assert_int_equal(come(&y, a), 18); /* the one that has just come, and proved nothing */
    assert_int_equal(y.n, 16);
}

HSP_TEST_FILE(strangers_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources),
        cmocka_unit_test(a_source_has_its_share),
        cmocka_unit_test(many_sources_share_all),
        cmocka_unit_test(a_key_is_a_merit),
        cmocka_unit_test(a_new_proof_keeps_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
