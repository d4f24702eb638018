#include "proto/net/ip_net.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/str.h"

_Static_assert(INET6_ADDRSTRLEN == 46, "hsp_ip_text");
_Static_assert(HSP_IPNETS *(INET6_ADDRSTRLEN + 5) < HSP_IPNETS_TEXT, "a list fits");

void hsp_ip_text(const struct hsp_ip *ip, char ret[46])
{
    if (inet_ntop(ip->v6 ? AF_INET6 : AF_INET, ip->b, ret, INET6_ADDRSTRLEN) == NULL) {
        ret[0] = '\0'; /* cannot be: the family is known and there is room */
    }
}

bool hsp_ip_is_link_local6(const struct hsp_ip *ip)
{
    return ip->v6 && ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80;
}

/* The first @bits bits. */
static struct hsp_ip cut(const struct hsp_ip *ip, unsigned bits)
{
    struct hsp_ip r = {.v6 = ip->v6};
    for (unsigned i = 0; i < bits; i++) {
        r.b[i / 8] |= (uint8_t)(ip->b[i / 8] & (0x80u >> (i % 8)));
    }
    return r;
}

static bool same(const struct hsp_ip *a, const struct hsp_ip *b)
{
    return a->v6 == b->v6 && memcmp(a->b, b->b, sizeof a->b) == 0;
}

/* The first bytes of IPv4 addresses that are written as IPv6. */
static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

enum hsp_status hsp_ipnet_parse(const char *s, struct hsp_ipnet *ret, struct hsp_err *err)
{
    const char *slash = strchr(s, '/');
    size_t n = slash != NULL ? (size_t)(slash - s) : 0;
    struct hsp_ipnet r = {0};
    char host[46], meant[46];
    int64_t bits = 0;
    if (n == 0 || n >= sizeof host) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%.60s is no network, as 10.0.0.0/8 is", s);
    }
    memcpy(host, s, n);
    host[n] = '\0';
    r.ip.v6 = strchr(host, ':') != NULL;
    if (inet_pton(r.ip.v6 ? AF_INET6 : AF_INET, host, r.ip.b) != 1) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%.60s: %s is no IP address", s, host);
    }
    if (!hsp_parse_i64(slash + 1, &bits) || bits < 0 || bits > (r.ip.v6 ? 128 : 32)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%.60s: the bits of the prefix are 0 to %d", s,
                           r.ip.v6 ? 128 : 32);
    }
    if (r.ip.v6 && memcmp(r.ip.b, mapped, sizeof mapped) == 0) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%.60s is a network of IPv4: write it as one", s);
    }
    r.bits = (uint8_t)bits;
    const struct hsp_ip net = cut(&r.ip, r.bits);
    if (!same(&net, &r.ip)) {
        hsp_ip_text(&net, meant);
        return hsp_err_set(err, HSP_EINVAL, 0, "%.60s is an address in the network %s/%u", s, meant,
                           r.bits);
    }
    *ret = r;
    return HSP_OK;
}

enum hsp_status hsp_ipnets_parse(const char *s, struct hsp_ipnets *ret, struct hsp_err *err)
{
    struct hsp_ipnets r = {0};
    while (*s != '\0') {
        size_t n = strcspn(s, ",");
        char one[HSP_IPNETS_TEXT];
        if (r.n == HSP_IPNETS) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "more than %u networks", HSP_IPNETS);
        }
        hsp_str_printf(one, sizeof one, "%.*s", (int)(n < sizeof one ? n : sizeof one - 1), s);
        enum hsp_status st = hsp_ipnet_parse(one, &r.net[r.n++], err);
        if (st != HSP_OK) {
            return st;
        }
        s += n;
        s += strspn(s, ", ");
    }
    *ret = r;
    return HSP_OK;
}

void hsp_ipnets_text(const struct hsp_ipnets *n, char ret[HSP_IPNETS_TEXT])
{
    size_t at = 0;
    ret[0] = '\0';
    for (uint32_t i = 0; i < n->n; i++) {
        char ip[46];
        hsp_ip_text(&n->net[i].ip, ip);
        hsp_str_printf(ret + at, HSP_IPNETS_TEXT - at, "%s%s/%u", i > 0 ? ", " : "", ip,
                       n->net[i].bits);
        at += strlen(ret + at);
    }
}

bool hsp_ipnets_have(const struct hsp_ipnets *n, const struct hsp_ip *ip)
{
    bool have = false;
    for (uint32_t i = 0; i < n->n && !have; i++) {
        const struct hsp_ip net = cut(ip, n->net[i].bits);
        have = same(&net, &n->net[i].ip);
    }
    return have;
}
