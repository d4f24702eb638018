/* Runs the agent's machine.
 *
 * Link to hspmdd:
 *   DOWN --pause--> CONNECTING --up--> SCANNING --scanned--> HELLO --WELCOME--> UP
 *     ^------------------------- closed, silent for the bound, refused -----------'
 * The agent drops a link on which hspmdd sends nothing for the time bound of WELCOME or PARKED.
 *
 * PARKED instead of WELCOME: the node is no member of the cluster. The link stays up, carries
 * heartbeats alone, and the state of the node stays untouched. If too many agents are parked,
 * PARKED tells this agent when to connect again.
 *
 * FENCED: hspmdd refuses the incarnation of the node. The agent kills every executor that runs
 * something. When the last of them has ended, the agent sends HELLO without an incarnation. The
 * old incarnation is void; the sealed segments stay valid.
 *
 * All messages from HELLO on are sent in order. The next HELLO reports the events that happened
 * while there was no link. */
#include "worker/agent/agent.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/arena.h"
#include "proto/base/check.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"
#include "proto/wire/identity.h"
#include "worker/agent/agent_actions.h"
#include "worker/agent/agent_impl.h"
#include "worker/agent/agent_link.h"
#include "worker/agent/agent_seal.h"
#include "worker/agent/damage.h"
#include "worker/agent/devices.h"
#include "worker/agent/keeping.h"
#include "worker/agent/leave.h"
#include "worker/agent/obey.h"
#include "worker/agent/agent_papers.h"
#include "worker/agent/relay.h"
#include "worker/agent/told_steps.h"
#include "worker/agent/uplink.h"

/* A HELLO with all its holdings takes less than 2 MiB, and a step sends at most one HELLO. */
#define STEP_ARENA     (32u << 20)
#define RESTART_MAX_MS 5000u
#define MOST_AGAIN_MS  120000u /* the longest wait that hspmdd may ask for */
#define STABLE_MS      10000u  /* an executor that lived this long restarts at once */

void hsp_agent_defaults(struct hsp_agent_config *ret)
{
    *ret = (struct hsp_agent_config){.node = "",
                                     .address = "",
                                     .heartbeat_ms = 500,
                                     .dead_ms = 3000,
                                     .spawn_ms = 20000,
                                     .reconnect_ms = 50};
}

static void copy_cards(struct hsp_agent *a, const struct hsp_agent_config *cfg)
{
    for (uint32_t i = 0; i < cfg->n_cards; i++) {
        (void)snprintf(a->card_name[i], sizeof(a->card_name[i]), "%s", cfg->cards[i].name);
        a->card[i] = (struct hsp_m_card){a->card_name[i], cfg->cards[i].gbit_per_s};
    }
    a->cfg.cards = a->card;
}

struct hsp_agent *hsp_agent_new(const struct hsp_agent_config *cfg)
{
    bool fits = cfg->n_devices <= HSP_NODE_DEVICES && cfg->n_cards <= HSP_NODE_CARDS &&
                cfg->n_paths <= HSP_NODE_PATHS;
    struct hsp_agent *a = fits ? calloc(1, sizeof(*a)) : NULL;
    if (a == NULL) {
        return NULL;
    }
    a->cfg = *cfg;
    a->cfg.devices = NULL;
    (void)snprintf(a->node, sizeof(a->node), "%s", cfg->node);
    (void)snprintf(a->address, sizeof(a->address), "%s", cfg->address);
    a->cfg.node = a->node;
    a->cfg.address = a->address;
    a->was = cfg->was;
    a->heartbeat_ms = cfg->heartbeat_ms;
    a->dead_ms = cfg->dead_ms;
    copy_cards(a, cfg);
    hsp_ai_devices_init(a, cfg);
    a->arena = hsp_arena_new(STEP_ARENA);
    a->steps = calloc(HSP_AGENT_STEPS, sizeof(*a->steps));
    return a->arena != NULL && a->steps != NULL ? a : hsp_agent_free(a);
}

struct hsp_agent *hsp_agent_free(struct hsp_agent *a)
{
    if (a != NULL) {
        free(a->actions);
        free(a->steps);
        hsp_arena_free(a->arena);
        free(a);
    }
    return NULL;
}

/* ---- link ---- */

static void hang_up(struct hsp_agent *a, const char *why)
{
    hsp_ai_hang_up(a, why, false);
}

static void hello(struct hsp_agent *a, const struct hsp_agent_event *ev)
{
    struct hsp_m_device *dev = hsp_arena_array(a->arena, a->cfg.n_devices, sizeof(*dev));
    struct hsp_m_run *run = hsp_arena_array(a->arena, a->cfg.n_devices, sizeof(*run));
    hsp_ai_kept_scanned(a, ev);
    struct hsp_m_kept *kept = hsp_ai_kept_list(a);
    uint32_t n_held = 0;
    struct hsp_m_holding *held = hsp_ai_kept_holdings(a, ev, &n_held);
    if (dev == NULL || run == NULL || kept == NULL || held == NULL) {
        a->failed = true;
        return;
    }
    struct hsp_m_hello h = {.protocol = hsp_protocol.newest,
                            .protocol_oldest = hsp_protocol.oldest,
                            .node = a->node,
                            .address = a->address,
                            .incarnation = a->incarnation,
                            .was = a->was,
                            .cluster = a->cluster,
                            .generation = a->generation,
                            .term = a->term,
                            .same_latency_us = a->cfg.same_latency_us,
                            .same_us_per_byte = a->cfg.same_us_per_byte,
                            .cross_latency_us = a->cfg.cross_latency_us,
                            .cross_us_per_byte = a->cfg.cross_us_per_byte,
                            .folder_free = ev->folder_free,
                            .n_cards = a->cfg.n_cards,
                            .cards = a->card,
                            .n_devices = a->cfg.n_devices,
                            .devices = dev,
                            .n_paths = a->cfg.n_paths,
                            .paths = a->path,
                            .n_kept = a->n_kept,
                            .kept = kept,
                            .n_holdings = n_held,
                            .holdings = held,
                            .runs = run};
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        const struct hsp_agent_device *d = &a->dev[i];
        dev[i] = hsp_ai_describe(a, i);
        if (d->run.job != 0) {
            run[h.n_runs++] = d->run;
        }
    }
    struct hsp_msg m = {.type = HSP_MSG_HELLO, .u.hello = h};
    a->link = HSP_LINK_HELLO;
    a->heard_ms = a->now_ms;
    hsp_ai_tell(a, &m);
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        struct hsp_msg k = {.type = HSP_MSG_CHECKPOINTED,
                            .epoch = a->ckpt[i].epoch,
                            .u.ckpt = {.job = a->ckpt[i].job,
                                       .step = a->ckpt[i].step,
                                       .term = a->ckpt[i].term,
                                       .content = a->ckpt[i].content,
                                       .complete = true,
                                       .reason = "said again"}};
        if (k.u.ckpt.job != 0) {
            hsp_ai_tell(a, &k);
        }
    }
    if (a->leaving) {
        hsp_ai_leave_notice(a);
    }
}

static void fence(struct hsp_agent *a, const struct hsp_m_fenced *m)
{
    const char *why = m->reason;
    if (hsp_digest_is_zero(a->incarnation) || !hsp_digest_equal(m->cluster, a->cluster)) {
        /* nothing of ours is over: refused, and again at the next try */
        if (!hsp_ai_is_told(a, why)) {
            hsp_ai_log(a, 3, "refused: %s", why);
        }
        hang_up(a, "refused");
        return;
    }
    hsp_ai_log(a, 4,
               "the coordinator has given up this process: %s; its executors end, its sealed state "
               "stays, and the node joins again",
               why);
    a->incarnation = (struct hsp_digest){0, 0};
    a->fencing = true;
    hsp_ai_uplink_forget(a);
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        if (a->dev[i].run.job != 0 || a->dev[i].preparing != 0) {
            hsp_ai_kill(a, i, "ended, since the coordinator has given this node up");
        }
    }
    hsp_ai_hang_up(a, "it joins again", true);
}

static void welcome(struct hsp_agent *a, const struct hsp_m_welcome *w)
{
    bool ours = hsp_digest_equal(w->cluster, a->cluster);
    bool older = ours && (hsp_generation_ahead(a->generation, w->generation) ||
                          (a->generation == w->generation && w->term < a->term));
    if (w->protocol < hsp_protocol.oldest || w->protocol > hsp_protocol.newest) {
        hang_up(a, "it wants to speak a protocol that this agent did not offer");
        return;
    }
    if (older) {
        hang_up(a, "the coordinator is of an older term or generation than this node has seen");
        return;
    }
    if (hsp_digest_is_zero(w->incarnation)) {
        hang_up(a, "the coordinator gave this node no incarnation");
        return;
    }
    if (w->heartbeat_ms == 0 || w->dead_ms == 0) {
        hang_up(a, "the coordinator gave no heartbeat times");
        return;
    }
    bool news = !hsp_digest_equal(w->incarnation, a->was);
    if (!ours || w->generation != a->generation) {
        hsp_ai_forget_over(a);
    }
    a->cluster = w->cluster;
    a->generation = w->generation;
    a->term = w->term;
    a->protocol = w->protocol;
    a->incarnation = a->was = w->incarnation;
    if (news) {
        hsp_ai_emit(a, HSP_AACT_REMEMBER, 0)->incarnation = a->was;
    }
    a->heartbeat_ms = w->heartbeat_ms;
    a->dead_ms = w->dead_ms;
    (void)snprintf(a->other, sizeof(a->other), "%s", w->address != NULL ? w->address : "");
    a->try_other = false;
    a->link = HSP_LINK_UP;
    a->clock.n = 0; /* the samples may be of another hspmdd */
    a->beat_us = 0;
    a->pause_ms = 0;
    memset(a->down, 0, sizeof a->down);
    a->beat_ms = a->now_ms + a->heartbeat_ms;
    hsp_ai_log(a, 5, "welcome: term %llu%s", (unsigned long long)w->term,
               news ? ", a new incarnation" : "");
    hsp_ai_pace(a);
    hsp_ai_steps_again(a);
    hsp_ai_damaged_again(a);
}

/* hspmdd has too many parked agents. This agent connects again at the time that PARKED told it. */
static void no_place(struct hsp_agent *a, const struct hsp_m_parked *p)
{
    uint32_t wait = p->again_ms < MOST_AGAIN_MS ? p->again_ms : MOST_AGAIN_MS;
    hsp_ai_log(a, 4,
               "the coordinator has no place for this node, which is not a member: %s; its state "
               "stays, and it asks again in %u s",
               p->reason, (wait + 999) / 1000);
    hang_up(a, "no place");
    a->connect_ms = a->now_ms + wait;
}

static void parked(struct hsp_agent *a, const struct hsp_m_parked *p)
{
    if (p->again_ms != 0) {
        no_place(a, p);
        return;
    }
    if (p->heartbeat_ms == 0 || p->dead_ms == 0) {
        hang_up(a, "the coordinator gave no heartbeat times");
        return;
    }
    a->link = HSP_LINK_PARKED;
    a->heartbeat_ms = p->heartbeat_ms;
    a->dead_ms = p->dead_ms;
    a->pause_ms = 0;
    a->beat_ms = a->now_ms + a->heartbeat_ms;
    hsp_ai_pace(a);
    hsp_ai_log(a, 4,
               "the coordinator does not accept this node, its state stays: %s; see hspmdctl node "
               "list there",
               p->reason);
}

/* Handles a further WELCOME on the same connection, by which hspmdd changes heartbeat times or
 * begins another generation. Returns false if it has nothing new, or is invalid. */
static bool told_again(struct hsp_agent *a, const struct hsp_m_welcome *w)
{
    bool later = hsp_generation_ahead(w->generation, a->generation) && w->term > a->term;
    bool same = w->generation == a->generation && w->term == a->term;
    bool news = later || w->heartbeat_ms != a->heartbeat_ms || w->dead_ms != a->dead_ms;
    if (!news || !(same || later) || !hsp_digest_equal(w->incarnation, a->incarnation) ||
        !hsp_digest_equal(w->cluster, a->cluster) || w->heartbeat_ms == 0 || w->dead_ms == 0) {
        return false;
    }
    a->generation = w->generation;
    a->term = w->term;
    a->heartbeat_ms = w->heartbeat_ms;
    a->dead_ms = w->dead_ms;
    a->beat_ms = a->now_ms;
    hsp_ai_pace(a);
    return true;
}

static void link_opened(struct hsp_agent *a, const char *to)
{
    char text[HSP_ADDRESS_MAX + 64];
    a->link = HSP_LINK_SCANNING;
    a->heard_ms = a->now_ms;
    hsp_str_printf(text, sizeof text, "connected to %s", to != NULL ? to : "");
    if (to != NULL && !hsp_ai_is_told(a, text)) {
        hsp_ai_log(a, 6, "%s", text);
    }
    (void)hsp_ai_scan(a);
}

static void link_down(struct hsp_agent *a, const char *why)
{
    if (!a->closing) {
        why = why != NULL ? why : "closed";
        if (!hsp_ai_is_told(a, why)) {
            hsp_ai_log(a, 4, "connection to the coordinator: %s", why);
        }
        hsp_ai_connect_later(a);
    }
    a->closing = false;
    if (a->checking) {
        a->checking = false;
        hsp_ai_emit(a, HSP_AACT_CHECK_STOP, 0);
    }
    hsp_ai_uplink_stop(a);
    hsp_ai_seal_abandon(a);
}

static void daemon_msg(struct hsp_agent *a, const struct hsp_msg *m)
{
    if (a->link != HSP_LINK_HELLO && a->link != HSP_LINK_UP && a->link != HSP_LINK_PARKED) {
        return; /* we have hung up */
    }
    a->heard_ms = a->now_ms;
    if (m->type == HSP_MSG_WELCOME && a->link == HSP_LINK_HELLO) {
        welcome(a, &m->u.welcome);
    } else if (m->type == HSP_MSG_PARKED &&
               (a->link == HSP_LINK_HELLO ||
                (a->link == HSP_LINK_PARKED && m->u.parked.again_ms != 0))) {
        parked(a, &m->u.parked);
    } else if (m->type == HSP_MSG_FENCED) {
        fence(a, &m->u.fenced);
    } else if (m->type == HSP_MSG_PAPERS) { /* PARKED may wait for a row, and they pass it */
        hsp_ai_papers(a, m);
    } else if (m->type == HSP_MSG_CKPTS) { /* the message may pass WELCOME, in the same way */
        hsp_ai_ask_shell(a, m);
    } else if (a->link == HSP_LINK_UP &&
               !(m->type == HSP_MSG_WELCOME && told_again(a, &m->u.welcome))) {
        hsp_ai_daemon_msg(a, m);
    }
}

/* ---- executors ---- */

static void spawn(struct hsp_agent *a, uint32_t device)
{
    struct hsp_agent_device *d = &a->dev[device];
    d->state = HSP_EXEC_STARTING;
    d->spawn_ms = a->now_ms;
    d->heard_ms = a->now_ms;
    d->beat_ms = a->cfg.heartbeat_ms;
    d->dead_ms = a->cfg.dead_ms;
    hsp_ai_emit(a, HSP_AACT_SPAWN, device)->bare = d->health.verdict == HSP_GPU_LOST;
}

static void exec_exit(struct hsp_agent *a, uint32_t device, const char *why)
{
    struct hsp_agent_device *d = &a->dev[device];
    if (d->state == HSP_EXEC_DOWN) {
        return;
    }
    bool long_lived = a->now_ms >= d->spawn_ms + STABLE_MS;
    d->crashes = long_lived ? 1 : d->crashes < 12 ? d->crashes + 1 : 12;
    uint64_t pause = d->crashes <= 2 ? 0 : (uint64_t)50 << (d->crashes - 3);
    pause = pause < RESTART_MAX_MS ? pause : RESTART_MAX_MS;
    char reason[160];
    hsp_str_printf(reason, sizeof reason, "%s%s%s", why != NULL ? why : "gone",
                   d->killed_for != NULL ? ": killed by its agent: " : "",
                   d->killed_for != NULL ? d->killed_for : "");
    d->state = HSP_EXEC_DOWN;
    d->killed = false;
    d->killed_for = NULL;
    d->address[0] = '\0';
    d->run = (struct hsp_m_run){0};
    d->preparing = 0;
    d->source = d->next_source = false;
    d->restart_ms = a->now_ms + pause;
    struct hsp_msg m = {
        .type = HSP_MSG_EXECUTOR_DEAD,
        .u.dead = {.device = device, .restart_ms = (uint32_t)pause, .reason = reason}};
    if (a->ending && a->bye) { /* nothing was left here: no death, and nobody waits for it */
        hsp_ai_log(a, 6, "executor %u has ended", device);
    } else {
        hsp_ai_log(a, 4, "executor %u: %s", device, m.u.dead.reason);
        hsp_ai_tell(a, &m);
    }
    hsp_ai_orders_over(a, device);
    if (d->sealing) {
        d->sealing = false;
        hsp_ai_seal_advance(a);
    }
}

static void start(struct hsp_agent *a)
{
    for (uint32_t i = 0; i < a->cfg.n_damaged; i++) {
        hsp_ai_damaged(a, a->cfg.damaged[i].device, &a->cfg.damaged[i]);
    }
    a->cfg.n_damaged = 0;
    a->cfg.damaged = NULL;
}

/* ---- time ---- */

static void executors_tick(struct hsp_agent *a)
{
    bool fenced_done = true;
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        struct hsp_agent_device *d = &a->dev[i];
        fenced_done = fenced_done && !d->killed;
        if (d->state == HSP_EXEC_DOWN && !a->ending && a->now_ms >= d->restart_ms) {
            spawn(a, i);
        } else if (d->state == HSP_EXEC_STARTING && a->now_ms >= d->spawn_ms + a->cfg.spawn_ms) {
            hsp_ai_kill(a, i, "did not come up");
        } else if (d->state == HSP_EXEC_UP && a->now_ms >= d->heard_ms + a->dead_ms) {
            hsp_ai_kill(a, i, "silent");
        }
    }
    a->fencing = a->fencing && !fenced_done;
}

static void tick(struct hsp_agent *a, uint64_t folder_free)
{
    executors_tick(a);
    hsp_ai_health_tick(a);
    hsp_ai_seal_tick(a);
    hsp_ai_obey_tick(a);
    hsp_ai_papers_tick(a);
    hsp_ai_uplink_tick(a);
    if (a->link == HSP_LINK_DOWN && !a->closing && !a->fencing && !a->ending &&
        a->now_ms >= a->connect_ms) {
        hsp_ai_dial(a);
    }
    bool joined = a->link == HSP_LINK_UP || a->link == HSP_LINK_PARKED;
    if ((joined || a->link == HSP_LINK_HELLO) && a->now_ms >= a->heard_ms + a->dead_ms) {
        hang_up(a, "it is silent");
        joined = false;
    }
    if (joined && a->now_ms >= a->beat_ms) {
        struct hsp_msg m = {
            .type = HSP_MSG_HEARTBEAT,
            .u.beat = {.seq = ++a->beat, .clock_us = a->now_us, .folder_free = folder_free}};
        a->beat_us = a->now_us;
        hsp_ai_say(a, &m);
        a->beat_ms = a->now_ms + a->heartbeat_ms;
    }
    hsp_ai_leave_advance(a);
}

enum hsp_status hsp_agent_step(struct hsp_agent *a, const struct hsp_agent_event *ev,
                               struct hsp_agent_actions *ret, struct hsp_err *err)
{
    bool of_device =
        ev->type == HSP_AEV_EXEC_MSG || ev->type == HSP_AEV_EXEC_EXIT || ev->type == HSP_AEV_SIGN;
    if (ev->now_ms < a->now_ms || a->failed || (of_device && ev->device >= a->cfg.n_devices)) {
        return hsp_err_set(err, HSP_EINVAL, 0, "event from the past or of an unknown device %u",
                           ev->device);
    }
    if (ev->now_ms > a->now_ms + a->dead_ms / 2) {
        for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
            /* the agent itself was silent: see hsp_agent_deadline */
            a->dev[i].heard_ms = ev->now_ms;
        }
    }
    a->now_ms = ev->now_ms;
    a->now_us = ev->now_us != 0 ? ev->now_us : ev->now_ms * 1000;
    a->n_actions = 0;
    hsp_arena_reset(a->arena);
    switch (ev->type) {
    case HSP_AEV_START: start(a); break; /* the tick below spawns and connects */
    case HSP_AEV_CONN_UP:
        if (a->link == HSP_LINK_CONNECTING) {
            link_opened(a, ev->text);
        }
        break;
    case HSP_AEV_CONN_DOWN: link_down(a, ev->text); break;
    case HSP_AEV_DAEMON_MSG: daemon_msg(a, ev->msg); break;
    case HSP_AEV_EXEC_MSG: hsp_ai_exec_msg(a, ev->device, ev->msg); break;
    case HSP_AEV_EXEC_EXIT: exec_exit(a, ev->device, ev->text); break;
    case HSP_AEV_SCANNED:
        if (ev->scan == a->scan && a->link == HSP_LINK_SCANNING) {
            hello(a, ev);
        } else {
            hsp_ai_leave_scanned(a, ev);
            hsp_ai_seal_answer(a, ev);
        }
        break;
    case HSP_AEV_LEAVE: hsp_ai_leave(a, ev); break;
    case HSP_AEV_CHECKED:
        if (a->checking && a->link == HSP_LINK_UP) {
            hsp_ai_tell(a, ev->msg);
        }
        break;
    case HSP_AEV_REACHED:
    case HSP_AEV_CKPTS: hsp_ai_tell(a, ev->msg); break;
    case HSP_AEV_PAPERS: hsp_ai_say(a, ev->msg); break;
    case HSP_AEV_PROFILE: hsp_ai_profile(a, ev); break;
    case HSP_AEV_SIGN: hsp_ai_sign(a, ev->device, ev->sign); break;
    case HSP_AEV_TICK: break;
    }
    tick(a, ev->folder_free);
    if (a->failed) {
        return hsp_err_nomem(err, "the agent");
    }
    HSP_DASSERT((hsp_agent_check(a), true));
    ret->n = a->n_actions;
    ret->item = a->actions;
    return HSP_OK;
}

static void earlier(uint64_t *best, uint64_t t)
{
    *best = t < *best ? t : *best;
}

uint64_t hsp_agent_deadline(const struct hsp_agent *a)
{
    uint64_t best = hsp_ai_seal_deadline(a);
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        const struct hsp_agent_device *d = &a->dev[i];
        if (d->state == HSP_EXEC_DOWN && !a->ending) {
            earlier(&best, d->restart_ms);
        } else if (d->state == HSP_EXEC_STARTING && !d->killed) {
            earlier(&best, d->spawn_ms + a->cfg.spawn_ms);
        } else if (d->state == HSP_EXEC_UP && !d->killed) {
            earlier(&best, d->heard_ms + a->dead_ms);
            earlier(&best,
                    a->now_ms + a->dead_ms / 4); /* so that a longer gap means we were stopped */
        }
    }
    if (a->link == HSP_LINK_DOWN && !a->closing && !a->fencing && !a->ending) {
        earlier(&best, a->connect_ms);
    }
    bool joined = a->link == HSP_LINK_UP || a->link == HSP_LINK_PARKED;
    if (joined || a->link == HSP_LINK_HELLO) {
        earlier(&best, a->heard_ms + a->dead_ms);
    }
    if (joined) {
        earlier(&best, a->beat_ms);
    }
    earlier(&best, hsp_ai_obey_deadline(a));
    earlier(&best, hsp_ai_uplink_deadline(a));
    earlier(&best, hsp_ai_leave_deadline(a));
    return best;
}

void hsp_agent_check(const struct hsp_agent *a)
{
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        const struct hsp_agent_device *d = &a->dev[i];
        HSP_ASSERT(d->state == HSP_EXEC_UP || (d->run.job == 0 && d->preparing == 0)); /* I1 */
        HSP_ASSERT(d->run.armed == 0 || d->run.armed == d->run.prepared);              /* I2 */
        HSP_ASSERT(!d->sealing || d->state == HSP_EXEC_UP);
        HSP_ASSERT(!d->killed || d->state != HSP_EXEC_DOWN);
        HSP_ASSERT(d->run.job == 0 || d->run.running != 0 || d->run.prepared != 0 ||
                   d->preparing != 0);
    }
    HSP_ASSERT(!a->fencing || a->link == HSP_LINK_DOWN); /* I4 */
    HSP_ASSERT(a->link != HSP_LINK_UP || !hsp_digest_is_zero(a->incarnation));
    HSP_ASSERT(!a->uplink.active || (a->link == HSP_LINK_UP && !a->uplink.known));
}

void hsp_agent_dump(const struct hsp_agent *a, struct hsp_buf *out)
{
    static const char *const links[] = {"down", "connecting", "scanning", "hello", "up", "parked"};
    static const char *const execs[] = {"down", "starting", "up"};
    hsp_buf_printf(out, "agent %s term %llu%s link %s%s%s\n", a->node, (unsigned long long)a->term,
                   hsp_digest_is_zero(a->incarnation) ? " no incarnation" : "", links[a->link],
                   a->fencing ? " fencing" : "", a->leaving ? " leaving" : "");
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        const struct hsp_agent_device *d = &a->dev[i];
        hsp_buf_printf(out, "  device %u %s%s%s", i, execs[d->state], d->killed ? " killed" : "",
                       d->sealing ? " sealing" : "");
        if (d->health.verdict != HSP_GPU_FINE) {
            hsp_buf_printf(out, " %s (%s)", hsp_gpu_verdict_name(d->health.verdict), d->health.why);
        }
        if (d->run.job != 0) {
            hsp_buf_printf(out, " job %u runs %llu prepared %llu armed %llu%s", d->run.job,
                           (unsigned long long)d->run.running, (unsigned long long)d->run.prepared,
                           (unsigned long long)d->run.armed, d->run.broken ? " broken" : "");
        }
        hsp_buf_puts(out, "\n");
    }
}

const struct hsp_agent_device *hsp_agent_device_at(const struct hsp_agent *a, uint32_t device)
{
    return device < a->cfg.n_devices ? &a->dev[device] : NULL;
}

enum hsp_agent_link hsp_agent_link_state(const struct hsp_agent *a)
{
    return a->link;
}
