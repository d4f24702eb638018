#include "proto/net/addr.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/str.h"

static enum hsp_status parse_path(const char *s, struct hsp_addr *ret, struct hsp_err *err)
{
    size_t n = strlen(s);
    if (n == 0 || n >= sizeof ret->path) {
        return hsp_err_set(err, HSP_EINVAL, 0, "socket path of %zu bytes, want 1 to %zu", n,
                           sizeof ret->path - 1);
    }
    *ret = (struct hsp_addr){.local = true};
    memcpy(ret->path, s, n);
    return HSP_OK;
}

/* True for "", and for "7071" and "0x1b9f", which resolvers would take for an address of 32
 * bits. */
static bool is_one_number(const char *host)
{
    struct in_addr v4;
    bool digits = host[strspn(host, "0123456789")] == '\0';
    return digits || (strchr(host, '.') == NULL && inet_aton(host, &v4) != 0);
}

enum hsp_status hsp_addr_parse(const char *s, uint16_t port, struct hsp_addr *ret,
                               struct hsp_err *err)
{
    if (strncmp(s, "unix:", 5) == 0 || s[0] == '/') {
        return parse_path(s[0] == '/' ? s : s + 5, ret, err);
    }
    struct hsp_addr a = {.port = port};
    const char *host = s, *end = s + strlen(s), *colon = strrchr(s, ':');
    if (strstr(s, "://") != NULL) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "address %s is a URL: wanted is HOST:PORT, or the path of a socket", s);
    }
    if (s[0] == '[') {
        const char *close = strchr(s, ']');
        if (close == NULL || (close[1] != 0 && close[1] != ':')) {
            return hsp_err_set(err, HSP_EINVAL, 0, "address %s: no closing bracket", s);
        }
        host = s + 1;
        end = close;
        colon = close[1] == ':' ? close + 1 : NULL;
    } else if (colon != NULL && strchr(s, ':') == colon) {
        end = colon;
    } else {
        colon = NULL; /* none, or a bare v6 address */
    }
    size_t n = (size_t)(end - host);
    if (n >= sizeof a.host) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "address %.64s...: its host is longer than %zu characters", s,
                           sizeof a.host - 1);
    }
    memcpy(a.host, host, n);
    if (is_one_number(a.host)) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "address %s: no host before the port, as in 10.0.0.1:%u", s, port);
    }
    int64_t v = 0;
    if (colon != NULL) {
        if (!hsp_parse_i64(colon + 1, &v) || v < 0 || v > UINT16_MAX) {
            return hsp_err_set(err, HSP_EINVAL, 0, "address %s: port is not 0 to 65535", s);
        }
        a.port = (uint16_t)v;
    }
    *ret = a;
    return HSP_OK;
}

bool hsp_addr_is_loopback(const struct hsp_addr *a)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (a->local || strcmp(a->host, "localhost") == 0) {
        return true;
    }
    if (inet_pton(AF_INET, a->host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    return inet_pton(AF_INET6, a->host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool hsp_addr_is_any(const struct hsp_addr *a)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (a->local) {
        return false;
    }
    return (inet_pton(AF_INET, a->host, &v4) == 1 && v4.s_addr == 0) ||
           (inet_pton(AF_INET6, a->host, &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6));
}

bool hsp_addr_is_number(const struct hsp_addr *a)
{
    struct in6_addr any;
    char host[sizeof a->host];
    (void)snprintf(host, sizeof host, "%.*s", (int)strcspn(a->host, "%"), a->host); /* no scope */
    return strcmp(a->host, "localhost") == 0 || inet_pton(AF_INET, a->host, &any) == 1 ||
           inet_pton(AF_INET6, host, &any) == 1;
}

bool hsp_addr_is_plain(const struct hsp_addr *a)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";
    return !a->local && strspn(a->host, good) == strlen(a->host);
}
