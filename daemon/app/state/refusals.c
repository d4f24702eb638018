#include "daemon/app/state/refusals.h"

#include <stdio.h>
#include <string.h>

#define COUNTS_MS 180000u /* an agent tries again within a minute */
#define EACH_MS   600000u
#define ALL_MS    10000u

/* "10.0.0.7:4410", "::1:4410": up to the port. "uid 1000 pid 77": up to the process. */
static void host_of(const char *name, char ret[HSP_REFUSAL_HOST])
{
    const char *pid = strstr(name, " pid "), *end = pid != NULL ? pid : strrchr(name, ':');
    int n = (int)(end != NULL ? (size_t)(end - name) : strlen(name));
    (void)snprintf(ret, HSP_REFUSAL_HOST, "%.*s", n, name);
}

/* The entry of the caller, else a free one, else the one that came longest ago. */
static struct hsp_refusal *entry(struct hsp_refusals *r, const char *host, bool admin)
{
    struct hsp_refusal *x = &r->of[0];
    for (uint32_t i = 0; i < HSP_REFUSALS; i++) {
        struct hsp_refusal *k = &r->of[i];
        if (k->admin == admin && strcmp(k->host, host) == 0) {
            return k;
        }
        x = k->last_ms < x->last_ms ? k : x;
    }
    *x = (struct hsp_refusal){.admin = admin};
    (void)snprintf(x->host, sizeof x->host, "%s", host);
    return x;
}

bool hsp_refusals_note(struct hsp_refusals *r, const struct hsp_net_peer *peer, hsp_msec now,
                       const struct hsp_refusal **ret)
{
    char host[HSP_REFUSAL_HOST];
    host_of(peer->name, host);
    struct hsp_refusal *x = entry(r, host, peer->role == HSP_ROLE_ADMIN);
    bool due = now >= x->tell_ms && now >= r->tell_ms;
    x->source = peer->source;
    x->last_ms = now;
    if (due) {
        x->tell_ms = now + EACH_MS;
        r->tell_ms = now + ALL_MS;
    }
    *ret = x;
    return due;
}

bool hsp_refusal_counts(const struct hsp_refusal *x, hsp_msec now)
{
    return x->host[0] != '\0' && now < x->last_ms + COUNTS_MS;
}

const struct hsp_refusal *hsp_refusals_agent(const struct hsp_refusals *r, uint64_t source,
                                             hsp_msec now)
{
    for (uint32_t i = 0; i < HSP_REFUSALS; i++) {
        const struct hsp_refusal *x = &r->of[i];
        if (source != 0 && x->source == source && !x->admin && hsp_refusal_counts(x, now)) {
            return x;
        }
    }
    return NULL;
}

void hsp_refusal_text(const struct hsp_refusal *x, char ret[HSP_REFUSAL_TEXT])
{
    (void)snprintf(ret, HSP_REFUSAL_TEXT,
                   x->admin
                       ? "an administrator at %s is refused: the admin key there is not the one "
                         "of hspmdd; copy the admin key of this host there"
                       : "an agent at %s is refused: its worker key is not the one of hspmdd; "
                         "copy the worker key of this host there, and restart hspmd-worker",
                   x->host);
}
