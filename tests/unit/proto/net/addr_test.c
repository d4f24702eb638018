#include "proto/net/addr.h"

#include <stdio.h>

#include "tests/lib/testlib.h"

static void good(const char *s, bool local, const char *host, uint16_t port, bool loopback)
{
    struct hsp_addr a;
    struct hsp_err err;
    assert_ok(hsp_addr_parse(s, HSP_PORT, &a, &err), &err);
    assert_int_equal(a.local, local);
    assert_string_equal(local ? a.path : a.host, host);
    assert_int_equal(a.port, port);
    assert_int_equal(hsp_addr_is_loopback(&a), loopback);
}

static void bad(const char *s, const char *text)
{
    struct hsp_addr a;
    struct hsp_err err;
    assert_status(hsp_addr_parse(s, HSP_PORT, &a, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, text);
}

static void test_forms(void **state)
{
    (void)state;
    good("10.0.0.1:4000", false, "10.0.0.1", 4000, false);
    good("head", false, "head", 7071, false);
    good("localhost:0", false, "localhost", 0, true);
    good("127.8.9.1", false, "127.8.9.1", 7071, true);
    good("128.0.0.1", false, "128.0.0.1", 7071, false);
    good("[::1]:80", false, "::1", 80, true);
    good("::1", false, "::1", 7071, true);
    good("[fe80::1]", false, "fe80::1", 7071, false);
    good("0.0.0.0:1", false, "0.0.0.0", 1, false);
    good("/run/a.sock", true, "/run/a.sock", 0, true);
    good("unix:rel.sock", true, "rel.sock", 0, true);
    good("127.0.0.1.evil.example", false, "127.0.0.1.evil.example", 7071, false);
    bad("", "address : no host before the port, as in 10.0.0.1:7071");
    bad(":80", "address :80: no host before the port, as in 10.0.0.1:7071");
    char name[300], want[128];
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = '\0';
    (void)snprintf(want, sizeof want, "address %.64s...: its host is longer than 255 characters",
                   name);
    bad(name, want);
    bad("7071", "address 7071: no host before the port, as in 10.0.0.1:7071");
    bad("7:71", "address 7:71: no host before the port, as in 10.0.0.1:7071");
    bad("http://head:7071",
        "address http://head:7071 is a URL: wanted is HOST:PORT, or the path of a socket");
    bad("0x1b9f", "address 0x1b9f: no host before the port, as in 10.0.0.1:7071");
    bad("0X1B9F:80", "address 0X1B9F:80: no host before the port, as in 10.0.0.1:7071");
    good("0x1b9g", false, "0x1b9g", 7071, false);
    good("7.a", false, "7.a", 7071, false);
    bad("a:65536", "address a:65536: port is not 0 to 65535");
    bad("a:", "address a:: port is not 0 to 65535");
    bad("[::1", "address [::1: no closing bracket");
    bad("unix:", "socket path of 0 bytes, want 1 to 107");
}

static void test_what_can_be_dialled(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool any, plain, number;
    } c[] = {{"0.0.0.0", true, true, true},      {"[::]:1", true, true, true},
             {"0.0.0.1", false, true, true},     {"[fe80::1%eth0]:2", false, true, true},
             {"head-1.x_y", false, true, false}, {"a b", false, false, false},
             {"a,b", false, false, false},       {"a\nb", false, false, false},
             {"/run/x", false, false, false},    {"localhost:1", false, true, true},
             {"127.1", false, true, false}};
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct hsp_addr a;
        struct hsp_err err;
        assert_ok(hsp_addr_parse(c[i].text, HSP_PORT, &a, &err), &err);
        assert_int_equal(hsp_addr_is_any(&a), c[i].any);
        assert_int_equal(hsp_addr_is_plain(&a), c[i].plain);
        assert_int_equal(hsp_addr_is_number(&a), c[i].number);
    }
}

HSP_TEST_FILE(addr_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms),
                                       cmocka_unit_test(test_what_can_be_dialled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
