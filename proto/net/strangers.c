#include "proto/net/strangers.h"

#include <string.h>

#include "proto/base/le.h"

struct hsp_source hsp_source_of_ip(const struct sockaddr *sa)
{
    struct hsp_source s = {.kind = 0};
    if (sa->sa_family == AF_INET) {
        s.kind = 4;
        memcpy(s.b, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
    } else if (sa->sa_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(a);
        s.kind = mapped ? 4 : 6;
        memcpy(s.b, a->s6_addr + (mapped ? 12 : 0), mapped ? 4 : 8);
    }
    return s;
}

struct hsp_source hsp_source_of_user(uint32_t uid)
{
    struct hsp_source s = {.kind = 'u'};
    memcpy(s.b, &uid, sizeof uid);
    return s;
}

uint64_t hsp_source_number(const struct hsp_source *s)
{
    uint64_t n = hsp_le_get(s->b, sizeof s->b);
    return s->kind == 6 ? n : n | (uint64_t)s->kind << 56; /* the others fill four bytes */
}

static bool same(const struct hsp_source *a, const struct hsp_source *b)
{
    return a->kind == b->kind && memcmp(a->b, b->b, sizeof a->b) == 0;
}

/* Whether @a goes before @b. */
static bool sooner(const struct hsp_stranger *a, const struct hsp_stranger *b)
{
    return a->proved_ms != b->proved_ms ? a->proved_ms < b->proved_ms : a->since < b->since;
}

uint32_t hsp_strangers_share(uint32_t places)
{
    return places < 4 ? 1 : places / 4;
}

uint32_t hsp_strangers_victim(const struct hsp_stranger *s, uint32_t n, uint32_t places,
                              const struct hsp_source *from, uint64_t new_ms)
{
    uint32_t n_same = 0, of_same = HSP_NO_STRANGER, of_all = HSP_NO_STRANGER;
    for (uint32_t i = 0; i < n; i++) {
        if (of_all == HSP_NO_STRANGER || sooner(&s[i], &s[of_all])) {
            of_all = i;
        }
        if (!same(&s[i].from, from)) {
            continue;
        }
        n_same++;
        if (of_same == HSP_NO_STRANGER || sooner(&s[i], &s[of_same])) {
            of_same = i;
        }
    }
    uint32_t victim = n_same >= hsp_strangers_share(places) ? of_same
                      : n >= places                         ? of_all
                                                            : HSP_NO_STRANGER;
    return victim != HSP_NO_STRANGER && s[victim].proved_ms > new_ms ? HSP_NEWCOMER : victim;
}
