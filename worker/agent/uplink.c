/* Measures the link to hspmdd. MEASURE says that it is our turn. Then:
 *
 *   PINGS empty echoes       the shortest is the round trip
 *   FIRST bytes to hspmdd; then MORE bytes, when those took under FAST_US, else the same again up
 *                            to TRIES times, while they take under FAIR_US
 *   the same from hspmdd
 *
 * A way's rate is the best of its tries: other load here or there only makes it worse.
 * The bytes go in pieces (HSP_ECHO_CHUNK), so that heartbeats are heard in between on a slow link.
 * A link that does not do all that by MOST_MS is described by how far it has come. */
#include "worker/agent/uplink.h"

#include "proto/base/arena.h"
#include "worker/agent/agent.h"
#include "worker/agent/agent_actions.h"
#include "worker/agent/agent_impl.h"

#define PINGS   5u
#define FIRST   (256u << 10)
#define MORE    HSP_ECHO_MAX
#define FAST_US 5000u
#define FAIR_US 100000u
#define TRIES   4u
#define MOST_MS 5000u

static void ask(struct hsp_agent *a, uint32_t out, uint32_t back)
{
    struct hsp_agent_uplink *u = &a->uplink;
    struct hsp_msg m = {.type = HSP_MSG_ECHO, .u.echo = {.seq = ++u->seq, .back = back}};
    m.blob = out != 0 ? hsp_arena_alloc(a->arena, HSP_ECHO_CHUNK) : NULL;
    if (u->echoes == 0 || (out != 0 && m.blob == NULL)) {
        a->failed = a->failed || u->echoes != 0;
        u->active = false;
        return;
    }
    u->echoes--;
    u->sent_us = a->now_us;
    do {
        m.blob_len = out < HSP_ECHO_CHUNK ? out : HSP_ECHO_CHUNK;
        out -= m.blob_len;
        m.u.echo.more = out != 0;
        hsp_ai_tell(a, &m);
    } while (out != 0);
}

static void move(struct hsp_agent *a, uint32_t way, uint32_t bytes)
{
    a->uplink.tries = a->uplink.way == way && a->uplink.bytes != 0 ? a->uplink.tries + 1 : 1;
    a->uplink.way = way;
    a->uplink.bytes = bytes;
    ask(a, way == HSP_UPLINK_OUT ? bytes : 0, way == HSP_UPLINK_BACK ? bytes : 0);
}

static void tell(struct hsp_agent *a)
{
    struct hsp_msg m = {.type = HSP_MSG_UPLINK, .u.uplink = a->uplink.figures};
    hsp_ai_tell(a, &m);
}

static void done(struct hsp_agent *a)
{
    struct hsp_agent_uplink *u = &a->uplink;
    double out = u->bytes_per_s[HSP_UPLINK_OUT], back = u->bytes_per_s[HSP_UPLINK_BACK];
    u->active = false;
    u->known = true;
    u->figures = (struct hsp_m_uplink){.latency_s = 0.5e-6 * (double)u->rtt_us,
                                       .bytes_per_s = back > 0 && back < out ? back : out};
    hsp_ai_log(a, 6, "link to the coordinator: %.3g ms one way, %.4g MB/s",
               1e3 * u->figures.latency_s, 1e-6 * u->figures.bytes_per_s);
    tell(a);
}

void hsp_ai_uplink_begin(struct hsp_agent *a, const struct hsp_m_measure *m)
{
    struct hsp_agent_uplink *u = &a->uplink;
    if (u->known) { /* hspmdd was restarted */
        tell(a);
    } else if (!u->active) {
        *u = (struct hsp_agent_uplink){.active = true,
                                       .deadline_ms = a->now_ms + MOST_MS,
                                       .seq = u->seq, /* late answers are those of others */
                                       .echoes = m->echoes,
                                       .rtt_us = UINT64_MAX};
        ask(a, 0, 0);
    }
}

/* The time of @bytes without the round trip, which may be as long as all of it. */
static double rate(const struct hsp_agent_uplink *u, uint64_t took_us)
{
    uint64_t t = took_us > 2 * u->rtt_us ? took_us - u->rtt_us : took_us / 2;
    return 1e6 * u->bytes / (double)(t > 0 ? t : 1);
}

void hsp_ai_uplink_answer(struct hsp_agent *a, const struct hsp_m_echo *m)
{
    struct hsp_agent_uplink *u = &a->uplink;
    if (!u->active || m->seq != u->seq || m->more) {
        return;
    }
    uint64_t took = a->now_us > u->sent_us ? a->now_us - u->sent_us : 1;
    if (u->bytes == 0) {
        u->rtt_us = took < u->rtt_us ? took : u->rtt_us;
        if (++u->pings < PINGS) {
            ask(a, 0, 0);
        } else {
            move(a, HSP_UPLINK_OUT, FIRST);
        }
        return;
    }
    double r = rate(u, took);
    u->bytes_per_s[u->way] = r > u->bytes_per_s[u->way] ? r : u->bytes_per_s[u->way];
    if (u->bytes == FIRST && took < FAST_US) {
        move(a, u->way, MORE);
    } else if (u->bytes == FIRST && took < FAIR_US && u->tries < TRIES) {
        move(a, u->way, FIRST);
    } else if (u->way == HSP_UPLINK_OUT) {
        move(a, HSP_UPLINK_BACK, FIRST);
    } else {
        done(a);
    }
}

void hsp_ai_uplink_tick(struct hsp_agent *a)
{
    struct hsp_agent_uplink *u = &a->uplink;
    if (!u->active || a->now_ms < u->deadline_ms) {
        return;
    }
    u->active = false;
    if (u->bytes != 0) { /* at most this fast */
        double r = rate(u, a->now_us > u->sent_us ? a->now_us - u->sent_us : 1);
        u->bytes_per_s[u->way] = u->bytes_per_s[u->way] > 0 ? u->bytes_per_s[u->way] : r;
        done(a);
    }
}

void hsp_ai_uplink_stop(struct hsp_agent *a)
{
    a->uplink.active = false;
}

void hsp_ai_uplink_forget(struct hsp_agent *a)
{
    a->uplink.active = a->uplink.known = false;
}

uint64_t hsp_ai_uplink_deadline(const struct hsp_agent *a)
{
    return a->uplink.active ? a->uplink.deadline_ms : UINT64_MAX;
}
