/* Reads small texts: numbers, sizes, durations, names, addresses, networks, patterns of names,
 * lines of the feed. A text that is read and printed reads back as the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/store/event_line.h"
#include "daemon/plan/plan_check.h"
#include "proto/base/hash.h"
#include "proto/base/str.h"
#include "proto/net/addr.h"
#include "proto/net/ip_net.h"
#include "proto/text/yaml.h"
#include "proto/text/yaml_parse.h"
#include "proto/text/yaml_read.h"
#include "proto/text/yaml_write.h"
#include "tests/fuzz/fuzz.h"

static void numbers(const char *s)
{
    struct hsp_buf b;
    int64_t i, i2;
    uint64_t u, u2;
    double d, d2;
    char text[32];
    if (hsp_parse_i64(s, &i)) {
        (void)snprintf(text, sizeof text, "%lld", (long long)i);
        HSP_ASSERT(hsp_parse_i64(text, &i2) && i2 == i);
    }
    if (hsp_parse_u64(s, &u)) {
        HSP_ASSERT(s[0] != '-' && s[0] != '+' && strlen(s) > 0);
    }
    hsp_buf_init(&b, 1 << 16);
    if (hsp_parse_f64(s, &d)) {
        HSP_ASSERT(isfinite(d));
        hsp_yaml_put_f64(&b, d);
        HSP_ASSERT(hsp_parse_f64(hsp_buf_cstr(&b), &d2) && d2 == d);
    }
    hsp_buf_reset(&b);
    if (hsp_parse_bytes(s, &u)) {
        hsp_yaml_put_bytes(&b, u);
        HSP_ASSERT(hsp_parse_bytes(hsp_buf_cstr(&b), &u2) && u2 == u);
    }
    hsp_buf_reset(&b);
    if (hsp_parse_ms(s, &u)) {
        hsp_yaml_put_ms(&b, u);
        HSP_ASSERT(hsp_parse_ms(hsp_buf_cstr(&b), &u2) && u2 == u);
    }
    hsp_buf_fini(&b);
}

static void names(const char *s)
{
    static const char *const list[] = {"layers", "hidden", "heads", "optimizer"};
    struct hsp_digest d;
    char hex[HSP_DIGEST_HEX];
    if (hsp_name_valid(s)) {
        HSP_ASSERT(strlen(s) <= 63 && strpbrk(s, "/ \n\"'") == NULL);
    }
    if (hsp_digest_parse(s, &d)) {
        hsp_digest_hex(d, hex);
        HSP_ASSERT(strcmp(s, hex) == 0);
    }
    (void)hsp_str_nearest(s, list, 4);
    if (strpbrk(s, "*?") == NULL) {
        HSP_ASSERT(hsp_plan_name_fits(s, s));
    } else {
        (void)hsp_plan_name_fits(s, "h.0.attn.weight");
    }
}

static void address(const char *s)
{
    struct hsp_addr a;
    struct hsp_err err = {0};
    if (hsp_addr_parse(s, HSP_PORT, &a, &err) != HSP_OK) {
        HSP_ASSERT(err.msg[0] != '\0');
        return;
    }
    HSP_ASSERT(memchr(a.path, '\0', sizeof a.path) != NULL);
    HSP_ASSERT(memchr(a.host, '\0', sizeof a.host) != NULL);
    HSP_ASSERT(a.local ? a.path[0] != '\0' : a.host[0] != '\0');
    HSP_ASSERT(!hsp_addr_is_loopback(&a) || !hsp_addr_is_any(&a));
    (void)hsp_addr_is_plain(&a);
}

static void networks(const char *s)
{
    struct hsp_ipnets n, back;
    struct hsp_err err = {0};
    char text[HSP_IPNETS_TEXT], again[HSP_IPNETS_TEXT];
    if (hsp_ipnets_parse(s, &n, &err) != HSP_OK) {
        HSP_ASSERT(err.msg[0] != '\0');
        return;
    }
    HSP_ASSERT(n.n <= HSP_IPNETS);
    hsp_ipnets_text(&n, text);
    HSP_ASSERT(hsp_ipnets_parse(text, &back, NULL) == HSP_OK && back.n == n.n);
    hsp_ipnets_text(&back, again);
    HSP_ASSERT(strcmp(again, text) == 0);
    for (uint32_t i = 0; i < n.n; i++) {
        HSP_ASSERT(hsp_ipnets_have(&n, &n.net[i].ip)); /* its first address */
    }
}

static void feed_line(const char *s)
{
    struct hsp_epoch_line l;
    if (!hsp_epoch_line_read(s, &l)) {
        return;
    }
    HSP_ASSERT(memchr(l.ts, '\0', sizeof l.ts) != NULL);
    HSP_ASSERT(memchr(l.cause, '\0', sizeof l.cause) != NULL);
    HSP_ASSERT(memchr(l.plan, '\0', sizeof l.plan) != NULL);
    cJSON *o = hsp_epoch_line_json(&l);
    char *text = cJSON_PrintUnformatted(o);
    HSP_ASSERT(text != NULL);
    cJSON *back = cJSON_Parse(text);
    HSP_ASSERT(cJSON_IsObject(back));
    cJSON_Delete(back);
    cJSON_free(text);
    cJSON_Delete(o);
}

static void quoted(const char *s)
{
    struct hsp_arena *arena = hsp_fuzz_arena();
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    for (int json = 0; json < 2; json++) {
        const struct hsp_yaml *y = NULL;
        const char *back = NULL;
        hsp_buf_reset(&b);
        (json ? hsp_yaml_put_json_str : hsp_yaml_put_str)(&b, s);
        if (hsp_utf8_valid((const uint8_t *)s, strlen(s))) {
            HSP_ASSERT(hsp_yaml_parse("x", b.data, b.len, arena, &y, NULL) == HSP_OK);
            HSP_ASSERT(hsp_yaml_str(y, &back, NULL) == HSP_OK);
            HSP_ASSERT(strcmp(back, s) == 0);
        }
    }
    hsp_buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *s = malloc(len + 1); /* exact: an overrun shows */
    HSP_ASSERT(s != NULL);
    memcpy(s, data, len);
    s[len] = '\0';
    numbers(s);
    names(s);
    address(s);
    networks(s);
    feed_line(s);
    quoted(s);
    free(s);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    static const char *const text[] = {
        "-9223372036854775808",
        "18446744073709551615",
        "1.5e-3",
        "1.5GiB",
        "1500ms",
        "node-7.example.org",
        "[::1]:7071",
        "unix:/run/hspmd/admin.sock",
        "10.0.0.0/8, fd00::/8, 192.0.2.7/32",
        "h.*.attn.?.weight",
        "0123456789abcdef0123456789abcdef",
        "line\n\ttab \"quote\" \\ \x7f ä",
        "{\"ts\":\"2026-01-01T00:00:00.000Z\",\"seq\":3,\"type\":\"switch.end\",\"epoch\":\"2\","
        "\"reason\":\"join\",\"data\":{\"first_step\":7,\"plan\":\"p\",\"prepare_s\":0.5}}",
    };
    bool more = i < sizeof text / sizeof text[0];
    hsp_buf_puts(out, more ? text[i] : "");
    return more;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "text", .seed = seed};
