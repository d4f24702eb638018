#include "proto/net/ip_net.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "tests/lib/testlib.h"

static struct hsp_ip ip(const char *s)
{
    struct hsp_ip r = {.v6 = strchr(s, ':') != NULL};
    assert_int_equal(inet_pton(r.v6 ? AF_INET6 : AF_INET, s, r.b), 1);
    return r;
}

static bool have(const char *nets, const char *address)
{
    struct hsp_ipnets n;
    struct hsp_err err = {0};
    assert_ok(hsp_ipnets_parse(nets, &n, &err), &err);
    const struct hsp_ip a = ip(address);
    return hsp_ipnets_have(&n, &a);
}

static void networks_have_addresses(void **state)
{
    (void)state;
    assert_true(have("10.0.0.0/8", "10.255.0.1"));
    assert_false(have("10.0.0.0/8", "11.0.0.1"));
    assert_false(have("", "10.0.0.1"));
    assert_true(have("0.0.0.0/0", "192.0.2.1"));
    assert_false(have("0.0.0.0/0", "::1")); /* another family */
    assert_true(have("192.0.2.128/25", "192.0.2.200"));
    assert_false(have("192.0.2.128/25", "192.0.2.127"));
    assert_true(have("192.0.2.7/32", "192.0.2.7"));
    assert_false(have("192.0.2.7/32", "192.0.2.6"));
    assert_true(have("10.0.0.0/8, fd00::/8", "fdff::1"));
    assert_false(have("10.0.0.0/8, fd00::/8", "fe00::1"));
    assert_true(have("2001:db8:0:8000::/49", "2001:db8:0:ffff::1"));
    assert_false(have("2001:db8:0:8000::/49", "2001:db8:0:7fff::1"));
    assert_true(have("2001:db8::1/128", "2001:db8::1"));
    assert_false(have("2001:db8::1/128", "2001:db8::"));
    assert_false(have("a00::/8", "10.0.0.1")); /* the same first byte */
}

static void refused(const char *s, const char *why)
{
    struct hsp_ipnet n;
    struct hsp_err err = {0};
    assert_status(hsp_ipnet_parse(s, &n, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, why);
}

static void wrong_ones_are_named(void **state)
{
    (void)state;
    refused("", " is no network, as 10.0.0.0/8 is");
    refused("10.0.0.1", "10.0.0.1 is no network, as 10.0.0.0/8 is");
    refused("/8", "/8 is no network, as 10.0.0.0/8 is");
    refused("10.0.0/8", "10.0.0/8: 10.0.0 is no IP address");
    refused("fd00:/8", "fd00:/8: fd00: is no IP address");
    refused("fe80::%eth0/64", "fe80::%eth0/64: fe80::%eth0 is no IP address");
    refused("10.0.0.0/", "10.0.0.0/: the bits of the prefix are 0 to 32");
    refused("10.0.0.0/-1", "10.0.0.0/-1: the bits of the prefix are 0 to 32");
    refused("10.0.0.0/8 ", "10.0.0.0/8 : the bits of the prefix are 0 to 32");
    refused("fd00::/129", "fd00::/129: the bits of the prefix are 0 to 128");
    refused("10.1.2.3/8", "10.1.2.3/8 is an address in the network 10.0.0.0/8");
    refused("::ffff:10.0.0.0/104", "::ffff:10.0.0.0/104 is a network of IPv4: write it as one");
    refused("fd00::1/8", "fd00::1/8 is an address in the network fd00::/8");
}

static void a_list_reads_back(void **state)
{
    (void)state;
    struct hsp_ipnets n, back;
    struct hsp_err err = {0};
    char text[HSP_IPNETS_TEXT], again[HSP_IPNETS_TEXT], many[HSP_IPNETS_TEXT * 2] = "";
    for (unsigned i = 0; i < HSP_IPNETS + 1; i++) { /* the longest there are */
        assert_ok(hsp_ipnets_parse(many, &n, &err), &err);
        assert_int_equal(n.n, i);
        hsp_ipnets_text(&n, text);
        assert_ok(hsp_ipnets_parse(text, &back, &err), &err);
        assert_int_equal(back.n, i);
        hsp_ipnets_text(&back, again);
        assert_string_equal(again, text);
        (void)snprintf(many + strlen(many), sizeof many - strlen(many),
                       "%sffff:ffff:ffff:ffff:ffff:ffff:255.255.255.25%u/128", i > 0 ? ", " : "",
                       i % 6);
    }
    assert_status(hsp_ipnets_parse(many, &n, &err), HSP_ELIMIT);
    assert_status(hsp_ipnets_parse("10.0.0.0/8, ten", &n, &err), HSP_EINVAL);
}

static void link_local(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is;
    } c[] = {{"fe80::1", true},
             {"febf::1", true},
             {"fec0::1", false},
             {"fd80::1", false},
             {"254.128.0.1", false}};
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        const struct hsp_ip a = ip(c[i].text);
        assert_int_equal(hsp_ip_is_link_local6(&a), c[i].is);
    }
}

HSP_TEST_FILE(ip_net_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_have_addresses),
        cmocka_unit_test(wrong_ones_are_named),
        cmocka_unit_test(a_list_reads_back),
        cmocka_unit_test(link_local),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
