/* Remembers callers that hold another key than this hspmdd, so that status and an event tell of
 * them. Another list has the callers that sent messages without the right to, so that not each of
 * their calls is an event.
 *
 * Example: worker.key was changed everywhere but on 10.0.0.7. Its agent calls again and again and
 *          is refused before it can give its name. Status shows its node as dead, and that an agent
 *          at 10.0.0.7 is refused.
 *
 * Purity:  pure.
 * Bounds:  HSP_REFUSALS addresses, the newest; an event for each once in ten minutes, and one in
 *          ten seconds for all. Only the address is told, which the kernel knows: a caller without
 *          the key may say anything.
 */
#ifndef HSP_REFUSALS_H
#define HSP_REFUSALS_H
#include <stdbool.h>
#include <stdint.h>

#include "daemon/cluster/cluster.h"
#include "proto/net/net.h"

#define HSP_REFUSALS     16
#define HSP_REFUSAL_HOST 64
#define HSP_REFUSAL_TEXT 240

struct hsp_refusal {
    char host[HSP_REFUSAL_HOST]; /* "" free */
    uint64_t source;             /* as in struct hsp_net_peer */
    bool admin;                  /* comes as an administrator; else as an agent */
    hsp_msec last_ms, tell_ms;   /* when it came last; no event before */
};

struct hsp_refusals {
    struct hsp_refusal of[HSP_REFUSALS];
    hsp_msec tell_ms; /* no event before */
};

/* @peer->role: WORKER or ADMIN. True: an event is due. *ret: the entry of the caller. */
bool hsp_refusals_note(struct hsp_refusals *r, const struct hsp_net_peer *peer, hsp_msec now,
                       const struct hsp_refusal **ret);
/* True while an agent that calls again and again would have come. */
bool hsp_refusal_counts(const struct hsp_refusal *x, hsp_msec now);
/* An agent that came from @source; NULL: none that counts. */
const struct hsp_refusal *hsp_refusals_agent(const struct hsp_refusals *r, uint64_t source,
                                             hsp_msec now);
/* One line: the caller, the reason, the remedy. */
void hsp_refusal_text(const struct hsp_refusal *x, char ret[HSP_REFUSAL_TEXT]);

#endif
