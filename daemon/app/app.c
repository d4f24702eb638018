#include "daemon/app/app.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/app/api/adopt_requests.h"
#include "daemon/app/api/backup.h"
#include "daemon/app/api/ckpt_requests.h"
#include "daemon/app/api/pending_requests.h"
#include "daemon/app/dispatch.h"
#include "daemon/app/docs/status_doc.h"
#include "daemon/app/feed/event_log.h"
#include "daemon/app/feed/metrics_collect.h"
#include "daemon/app/feed/subscriptions.h"
#include "daemon/app/feed/trace_collect.h"
#include "daemon/app/perform/actions.h"
#include "daemon/app/perform/commit.h"
#include "daemon/app/perform/plan_queue.h"
#include "daemon/app/places.h"
#include "daemon/app/state/event_queue.h"
#include "daemon/app/state/job_table.h"
#include "daemon/app/state/sessions.h"
#include "daemon/app/store/first_store.h"
#include "daemon/app/store/rebuild.h"
#include "daemon/app/store/restore.h"
#include "daemon/cluster/cluster_check.h"
#include "daemon/cluster/cluster_step.h"
#include "proto/base/check.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"
#include "proto/host/open_files_limit.h"
#include "proto/host/sd_notify.h"
#include "proto/net/addr.h"
#include "proto/net/net_listen.h"
#include "proto/wire/identity.h"

#define ROWS_CAP ((size_t)2 << 30) /* all rows of the store: jobs with their plans */
#define MAX_ROWS (1u << 20)
#define NEW_ROWS 4 /* of a new cluster, and more */
/* Descriptors for all but connections: libuv, the store, event files, 96 of /metrics, a few. */
#define OWN_FILES  144u
#define BEAT_MS    5000                /* status line when no watchdog asks for more */
#define RETRY_MS   1000                /* a disk that takes nothing is tried again */
#define DECODE_CAP ((size_t)160 << 20) /* a submit with 64 files of 1 MiB, and their copies */

/* ---- steps ---- */

/* Returns true if the message of @ev is only answered and changes no job. Most such messages are
 * heartbeats. */
static bool only_answered(const struct hsp_event *ev, const struct hsp_actions *acts)
{
    bool only = ev->type == HSP_EV_MSG;
    for (uint32_t i = 0; only && i < acts->n; i++) {
        only = acts->item[i].type == HSP_ACT_SEND;
    }
    return only;
}

static void on_tick(uv_timer_t *t);

static void arm_tick(struct hsp_app *a)
{
    hsp_msec at = hsp_app_core_due(a, hsp_cluster_deadline(a->cluster));
    hsp_msec wait = hsp_app_wait_deadline(a);
    hsp_msec trace = hsp_app_trace_deadline(a);
    at = wait < at ? wait : at;
    at = trace < at ? trace : at;
    hsp_msec adopt = hsp_app_adopt_deadline(a);
    at = adopt < at ? adopt : at;
    hsp_msec look = hsp_app_ckpts_deadline(a);
    at = look < at ? look : at;
    if (a->closing || at >= a->tick_at) {
        return; /* one that comes too early finds nothing due */
    }
    hsp_msec now = hsp_app_now();
    a->tick_at = at;
    uv_update_time(a->loop);
    /* One millisecond later than due: the timer's clock may be behind ours by a fraction. */
    (void)uv_timer_start(&a->tick, on_tick, at > now ? at - now + 1 : 1, 0); /* has a callback */
}

static void step(struct hsp_app *a, struct hsp_event *ev)
{
    struct hsp_err err = {0};
    struct hsp_actions acts = {0};
    if (a->failed || a->closing) {
        return;
    }
    ev->now_ms = hsp_app_core_now(a);
    ev->unix_s = (uint64_t)(hsp_app_unix_ms() / 1000);
    enum hsp_status st = hsp_cluster_step(a->cluster, ev, &acts, &err);
    if (st == HSP_ENOMEM) {
        hsp_app_fail(a, "coordinator", &err);
        return;
    }
    if (st != HSP_OK) { /* the core refuses the event and is unchanged */
        hsp_log(a->log, HSP_LOG_ERROR, "app", "event %d refused: %s", ev->type, err.msg);
        return;
    }
    bool only = only_answered(ev, &acts);
    if (acts.n > 0 && !only) { /* without an action no job has changed */
        hsp_app_count_time(a);
    }
    hsp_app_perform(a, &acts);
    hsp_app_write_on(a);
    if (!only) {
        hsp_app_wait_check(a);
        hsp_app_trace_check(a);
    }
}

/* Tells other parts that the core has had the event. */
static void after_step(struct hsp_app *a, const struct hsp_event *ev)
{
    if (ev->type == HSP_EV_PLAN_DONE) {
        hsp_app_plan_next(a);
    } else if (ev->type == HSP_EV_MSG && ev->u.msg->type == HSP_MSG_TRACED && !a->failed) {
        hsp_app_traced(a, ev->conn, ev->u.msg);
    } else if (ev->type == HSP_EV_MSG && ev->u.msg->type == HSP_MSG_PAPERS && !a->failed) {
        hsp_app_adopt_told(a, ev->conn, ev->u.msg);
    } else if (ev->type == HSP_EV_MSG && ev->u.msg->type == HSP_MSG_CKPTS && !a->failed) {
        hsp_app_ckpts_told(a, ev->conn, ev->u.msg);
    }
}

/* Gives the posted events to the core, and performs its actions, until the queue is empty. An event
 * that is posted while actions are performed reaches the core after these actions. */
static void settle(struct hsp_app *a)
{
    struct hsp_app_event e;
    if (a->settling || a->performing || a->failed || a->closing) {
        return; /* the outer call comes to the new events, too */
    }
    a->settling = true;
    while (hsp_app_event_take(a, &e)) {
        step(a, &e.ev);
        after_step(a, &e.ev);
        hsp_app_event_fini(&e);
    }
    a->settling = false;
    hsp_app_write_on(a);
    arm_tick(a);
}

static void on_after_poll(uv_check_t *h)
{
    struct hsp_app *a = h->data;
    (void)uv_idle_stop(&a->no_wait); /* neither can fail */
    (void)uv_check_stop(&a->after_poll);
    hsp_app_post_borrowed(a, &(struct hsp_event){.type = HSP_EV_TICK});
    hsp_app_adopt_check(a);
    hsp_app_ckpts_check(a);
    settle(a);
}

static void on_idle(uv_idle_t *h)
{
    (void)h;
}

/* The loop serves timers before connections. If this process got no CPU for a while, heartbeats
 * that have arrived are still unread, so they are read first (W7). */
static void on_tick(uv_timer_t *t)
{
    struct hsp_app *a = t->data;
    a->tick_at = UINT64_MAX;
    (void)uv_idle_start(&a->no_wait, on_idle); /* have callbacks */
    (void)uv_check_start(&a->after_poll, on_after_poll);
}

static void on_retry(uv_timer_t *t)
{
    struct hsp_app *a = t->data;
    (void)uv_timer_stop(t); /* cannot fail; hsp_app_retry_later repeats it */
    hsp_app_look_for_store(a);
    a->feed_stuck = false;
    hsp_app_flush(a);
}

static void on_beat(uv_timer_t *t)
{
    struct hsp_app *a = t->data;
    char line[160];
    hsp_app_look_for_store(a);
    hsp_app_status_line(a, line, sizeof line);
    (void)hsp_sd_notify(&a->notices, NULL, "WATCHDOG=1\nSTATUS=%s", line); /* else owed */
}

void hsp_app_dump(struct hsp_app *a)
{
    struct hsp_buf b;
    hsp_buf_init(&b, 1u << 20);
    hsp_cluster_dump(a->cluster, &b);
    char *save = NULL, *text = b.len > 0 ? (char *)b.data : NULL;
    (void)hsp_buf_cstr(&b); /* puts the NUL behind it */
    for (char *l = text != NULL ? strtok_r(text, "\n", &save) : NULL; l != NULL;
         l = strtok_r(NULL, "\n", &save)) {
        hsp_log(a->log, HSP_LOG_NOTICE, "dump", "%s", l);
    }
    hsp_buf_fini(&b);
}

/* ---- start ---- */

struct loading {
    struct hsp_arena *arena;
    struct hsp_cluster_row *rows;
    size_t n, cap;
};

static enum hsp_status take_row(void *arg, const char *key, const void *value, size_t len)
{
    struct loading *l = arg;
    if (!hsp_grow(&l->rows, &l->cap, l->n + 1, sizeof *l->rows, MAX_ROWS)) {
        return HSP_ENOMEM;
    }
    struct hsp_cluster_row *r = &l->rows[l->n++];
    *r = (struct hsp_cluster_row){hsp_arena_strdup(l->arena, key),
                                  hsp_arena_memdup(l->arena, value != NULL ? value : "", len),
                                  (uint32_t)len};
    return r->key != NULL && r->value != NULL ? HSP_OK : HSP_ENOMEM;
}

/* Tells the core, and the log, of jobs that cannot be read. */
static void tell_unreadable(struct hsp_app *a)
{
    /* Backwards: a step may end one, and the last takes its place. */
    for (size_t i = a->n_unreadable; i-- > 0;) {
        if (i >= a->n_unreadable) {
            continue;
        }
        const struct hsp_app_unreadable *u = &a->unreadable[i];
        struct hsp_event ev = {.type = HSP_EV_UNREADABLE, .u.unreadable = {u->id, u->why}};
        hsp_log(a->log, HSP_LOG_ERROR, "store", "job %s cannot be used: %s",
                hsp_app_job_name(a, u->id), u->why);
        hsp_app_post(a, &ev, NULL);
        settle(a);
    }
}

static void tell_identity(struct hsp_app *a)
{
    char id[HSP_DIGEST_HEX];
    hsp_digest_hex(a->cluster->id, id);
    hsp_log(a->log, HSP_LOG_NOTICE, "app", "%s cluster %s, generation %" PRIu32 "%s",
            a->folder.fresh ? "a new" : "of", id, hsp_generation_number(a->cluster->generation),
            a->folder.given ? ": state_dir is empty, and systemd has made it for this service"
                            : "");
    if (a->cluster->behind) {
        hsp_log(a->log, HSP_LOG_ERROR, "app", "%s", a->cluster->behind_why);
    }
}

/* Refuses a store without any row unless --init was given. Every store gets rows when it is made,
 * so its journal may have been lost, with all rows that were not yet in the file. Refuses --init if
 * there is a store with rows. */
static enum hsp_status check_rows(struct hsp_app *a, size_t n, struct hsp_err *err)
{
    if (n == 0 && !a->folder.fresh) {
        return hsp_err_set(err, HSP_EDIGEST, 0,
                           "state.db names no cluster, so it or its journal is damaged: put a "
                           "backup back, or begin a new cluster with --init");
    }
    if (n > 0 && a->folder.fresh && a->folder.store) {
        return hsp_err_set(err, HSP_EEXIST, 0,
                           "state.db is the store of a cluster: start without --init, which a "
                           "service does not need in an empty folder either");
    }
    return HSP_OK;
}

static uint64_t last_event(const struct hsp_app *a)
{
    uint64_t last = hsp_store_events_last(a->store), least = hsp_app_events_begin(a);
    return last > least ? last : least;
}

static enum hsp_status load(struct hsp_app *a, struct hsp_err *err)
{
    struct loading l = {.arena = hsp_arena_new(ROWS_CAP)};
    struct hsp_actions acts = {0};
    enum hsp_status st = l.arena != NULL ? hsp_store_load(a->store, take_row, &l, err)
                                         : hsp_err_nomem(err, "the stored state");
    if (st == HSP_OK) {
        st = check_rows(a, l.n, err);
    }
    if (st == HSP_OK) {
        st = hsp_app_jobs_load(a, l.rows, (uint32_t)l.n, err);
    }
    if (st == HSP_OK) {
        st = hsp_cluster_load(a->cluster, l.rows, (uint32_t)l.n, hsp_app_core_now(a), &acts, err);
    }
    if (st == HSP_OK) {
        a->seq = a->flushed = last_event(a);
        tell_identity(a);
        hsp_app_jobs_recall(a);
        hsp_app_perform(a, &acts);
        hsp_app_write_on(a);
        tell_unreadable(a);
        hsp_app_feed_check(a);
    } else {
        (void)hsp_err_wrap(err, "%s", a->cfg->state_dir);
    }
    free(l.rows);
    (void)hsp_arena_free(l.arena);
    return st;
}

/* Locks the folder and its store, before anything in them is read or written. */
static enum hsp_status open_folder(struct hsp_app *a, const struct hsp_app_start *start,
                                   struct hsp_err *err)
{
    const char *dir = a->cfg->state_dir;
    enum hsp_status st = hsp_state_folder_open(dir, start->init, start->service, &a->folder, err);
    if (st == HSP_OK) {
        hsp_app_backup_tidy(a);
        hsp_restore_tidy(dir);
        hsp_first_store_tidy(dir);
    }
    return st;
}

/* Makes the store with the rows that say which cluster this is. */
static enum hsp_status make_store(struct hsp_app *a, struct hsp_err *err)
{
    struct hsp_actions acts = {0};
    struct hsp_store_row rows[NEW_ROWS];
    size_t n = 0;
    enum hsp_status st = hsp_cluster_found(a->cluster, &acts, err);
    for (uint32_t i = 0; i < acts.n; i++) {
        const struct hsp_action *act = &acts.item[i];
        HSP_ASSERT(act->type == HSP_ACT_STORE && n < NEW_ROWS);
        rows[n++] = (struct hsp_store_row){act->key, act->value, act->len, false};
    }
    st = st == HSP_OK ? hsp_first_store(a->cfg->state_dir, rows, n, err) : st;
    st = st == HSP_OK ? hsp_state_folder_lock_store(a->cfg->state_dir, &a->folder, err) : st;
    return st == HSP_OK ? st : hsp_err_wrap(err, "%s", a->cfg->state_dir);
}

static enum hsp_status open_store(struct hsp_app *a, struct hsp_err *err)
{
    if (!a->folder.store && make_store(a, err) != HSP_OK) {
        return err->code;
    }
    enum hsp_status st =
        hsp_store_open_whole(a->cfg->state_dir, &a->folder, &a->store, &a->rebuilt, err);
    if (st == HSP_OK && hsp_restore_replaced(a->cfg->state_dir, a->store, a->replaced,
                                             sizeof a->replaced, &a->replaced_generation)) {
        a->has_replaced = true;
        a->cluster->cfg.replaced = a->replaced;
        a->cluster->cfg.replaced_generation = a->replaced_generation;
    }
    return st;
}

static struct hsp_cluster_config core_config(const struct hsp_app *a)
{
    const struct hsp_daemon_config *c = a->cfg;
    struct hsp_cluster_config cc;
    hsp_cluster_defaults((uint32_t)c->failure_detection_ms, &cc);
    cc.forget_s = (c->forget_after_ms + 999) / 1000;
    cc.heartbeat_ms = (uint32_t)c->heartbeat_ms;
    cc.prepare_ms = (uint32_t)c->prepare_ms;
    cc.state_wait_ms = c->state_wait_ms > 0 ? (uint32_t)c->state_wait_ms : cc.state_wait_ms;
    cc.data_tls = c->data_plane != HSP_DATA_CLEAR;
    cc.trusted = c->trusted;
    cc.address = c->advertise_address;
    cc.max_parked = hsp_places_parked(a->cfg->max_nodes, a->places);
    cc.replaced = a->has_replaced ? a->replaced : NULL;
    cc.replaced_generation = a->replaced_generation;
    if (cc.suspect_ms < cc.heartbeat_ms + cc.heartbeat_ms / 2) {
        cc.suspect_ms = cc.heartbeat_ms + cc.heartbeat_ms / 2;
    }
    return cc;
}

static enum hsp_status open_core(struct hsp_app *a, struct hsp_err *err)
{
    struct hsp_cluster_config cc = core_config(a);
    if (getrandom(&cc.fresh_id, sizeof cc.fresh_id, 0) != (ssize_t)sizeof cc.fresh_id ||
        getrandom(&cc.salt, sizeof cc.salt, 0) != (ssize_t)sizeof cc.salt) {
        return hsp_err_set(err, HSP_EIO, errno, "no random numbers");
    }
    a->cluster = hsp_cluster_new(&cc);
    return a->cluster != NULL ? HSP_OK : hsp_err_nomem(err, "the coordinator's state");
}

static void config_fact(struct hsp_app *a, bool good, const char *reason)
{
    struct hsp_fact f = {.type = good ? "config.reloaded" : "config.refused",
                         .severity = good ? HSP_SEV_NOTICE : HSP_SEV_ERROR,
                         .node = "",
                         .reason = reason,
                         .actor = "SIGHUP"};
    hsp_app_fact(a, &f);
}

void hsp_app_reconfigure(struct hsp_app *a, const char *applied, const char *restart)
{
    struct hsp_cluster_config cc = core_config(a);
    struct hsp_event ev = {.type = HSP_EV_CONFIG, .u.config = &cc};
    char text[HSP_TEXT_MAX];
    hsp_str_printf(text, sizeof text, "%s%s%s", applied[0] != '\0' ? applied : "nothing to apply",
                   restart[0] != '\0' ? "; needs a restart: " : "", restart); /* cut on purpose */
    config_fact(a, true, text);
    hsp_log_set_level(a->log, (enum hsp_log_level)a->cfg->log_level);
    hsp_app_post_borrowed(a, &ev);
    settle(a);
}

void hsp_app_reconfigure_failed(struct hsp_app *a, const struct hsp_err *why)
{
    char text[HSP_TEXT_MAX];
    hsp_str_printf(text, sizeof text, "%s; the old configuration stays", why->msg);
    config_fact(a, false, text);
}

/* Returns true if `listen` is a port and there are no keys: then every user of the host could
 * connect. */
static bool is_bare(const struct hsp_app *a, const struct hsp_net_keys *keys)
{
    const char *listen = a->cfg->listen;
    struct hsp_addr addr;
    struct hsp_err err;
    return listen != NULL && listen[0] != '\0' && !keys->have_worker && !keys->have_admin &&
           hsp_addr_parse(listen, HSP_PORT, &addr, &err) == HSP_OK && !addr.local;
}

/* The user of this host's agents; nobody knows him where hspmd is not installed. */
static void find_worker_user(struct hsp_app *a)
{
    const char *name = a->cfg->worker_user;
    const struct passwd *p = name != NULL && name[0] != '\0' ? getpwnam(name) : NULL;
    a->has_worker_user = p != NULL;
    a->worker_uid = p != NULL ? p->pw_uid : 0;
    if (p == NULL && name != NULL && name[0] != '\0') {
        hsp_log(a->log, HSP_LOG_INFO, "app",
                "worker_user: there is no user %s: agents of root and of uid %u may join by the "
                "socket",
                name, (unsigned)getuid());
    }
}

/* Binds the addresses; the log tells when the store is read. */
static enum hsp_status listen_all(struct hsp_app *a, const struct hsp_net_keys *keys,
                                  struct hsp_err *err)
{
    bool bare = is_bare(a, keys);
    a->insecure = bare && a->cfg->insecure_loopback;
    const char *const addresses[] = {a->cfg->socket, bare && !a->insecure ? "" : a->cfg->listen};
    enum hsp_status st = HSP_OK;
    for (int i = 0; st == HSP_OK && i < 2; i++) {
        uint32_t l;
        if (addresses[i] == NULL || addresses[i][0] == '\0') {
            continue;
        }
        st = hsp_net_listen(a->net, addresses[i], &l, err);
        if (st == HSP_OK) {
            a->address = hsp_net_listener_name(a->net, l);
            a->n_listeners = l + 1;
        } else if (st == HSP_EEXIST && err != NULL) {
            const struct hsp_err why = *err;
            st = hsp_err_set(err, st, 0, "%s: stop the program that uses it, or change %s", why.msg,
                             i == 0 ? "socket" : "listen");
        }
    }
    const char *told = a->cfg->advertise_address;
    a->address = told != NULL && told[0] != '\0' ? told : a->address;
    return st;
}

static void tell_listeners(struct hsp_app *a, const struct hsp_net_keys *keys)
{
    for (uint32_t l = 0; l < a->n_listeners; l++) {
        hsp_log(a->log, HSP_LOG_NOTICE, "app", "listens on %s", hsp_net_listener_name(a->net, l));
    }
    if (a->insecure) {
        hsp_log(a->log, HSP_LOG_WARN, "app",
                "insecure_loopback: every user of this host may join and command at %s",
                a->cfg->listen);
    } else if (is_bare(a, keys)) {
        hsp_log(
            a->log, HSP_LOG_NOTICE, "app",
            "%s stays closed: worker_key and admin_key are missing; agents and hspmdctl of this "
            "host use the socket",
            a->cfg->listen);
    }
}

/* Opens the port of /metrics. Monitoring is optional, so hspmdd runs on if the port cannot be
 * opened. */
static void listen_http(struct hsp_app *a)
{
    struct hsp_err err = {0};
    if (a->cfg->metrics_listen == NULL || a->cfg->metrics_listen[0] == '\0') {
        return;
    }
    if (hsp_httpd_open(a->loop, a->cfg->metrics_listen, &hsp_app_http_calls, a, &a->http, &err) !=
        HSP_OK) {
        hsp_log(a->log, HSP_LOG_WARN, "app",
                "no metrics: metrics_listen: %s; change it, or \"\" turns metrics off", err.msg);
        return;
    }
    hsp_log(a->log, HSP_LOG_NOTICE, "app", "metrics on http://%s/metrics", hsp_httpd_name(a->http));
}

/* Asks the system for file descriptors. If it gets fewer, it allows fewer connections: a caller
 * beyond that is told so, and the store, the log and the pool keep the descriptors that they need.
 */
static void share_descriptors(struct hsp_app *a)
{
    uint32_t want = hsp_places_wanted(a->cfg->max_nodes, a->places);
    uint64_t files = hsp_nofile_raise((uint64_t)want + OWN_FILES);
    if (files >= (uint64_t)want + OWN_FILES) {
        return;
    }
    uint32_t have = files > OWN_FILES ? (uint32_t)(files - OWN_FILES) : 1;
    uint32_t nodes = a->cfg->max_nodes, *agents = &a->places[HSP_POOL_AGENTS];
    char few[96] = "", lower[32] = "";
    hsp_places_fit(have, nodes, a->places);
    if (*agents < nodes) {
        (void)snprintf(few, sizeof few, ", and at most %u agents instead of max_nodes %u", *agents,
                       nodes);
        (void)snprintf(lower, sizeof lower, ", or lower max_nodes");
    }
    hsp_log(a->log, HSP_LOG_WARN, "app",
            "%" PRIu64 " open files are allowed, so %u connections instead of %u%s; raise "
            "LimitNOFILE= or ulimit -n to %u%s",
            files, have, want, few, want + OWN_FILES, lower);
}

/* ---- callbacks of the net ---- */

static void on_open(void *ctx, uint32_t conn, const struct hsp_net_peer *peer)
{
    hsp_dispatch_open(ctx, conn, peer);
}

static void on_frame(void *ctx, uint32_t conn, struct hsp_frame *f)
{
    const struct hsp_app *a = ctx;
    HSP_DASSERT(!a->settling); /* a waiting event may borrow the last message */
    hsp_dispatch_frame(ctx, conn, f);
    settle(ctx); /* before the message goes */
}

static void on_close(void *ctx, uint32_t conn, const struct hsp_err *why)
{
    hsp_dispatch_close(ctx, conn, why);
    settle(ctx);
}

static void on_refuse(void *ctx, const struct hsp_net_peer *peer, const struct hsp_err *why)
{
    hsp_dispatch_refuse(ctx, peer, why);
}

static const struct hsp_net_calls net_calls = {
    .on_open = on_open, .on_frame = on_frame, .on_close = on_close, .on_refuse = on_refuse};

static enum hsp_status open_net(struct hsp_app *a, const struct hsp_net_keys *keys,
                                struct hsp_err *err)
{
    struct hsp_net_config nc;
    hsp_net_defaults(&nc);
    memcpy(nc.places, a->places, sizeof nc.places);
    nc.keys = *keys;
    nc.clear_loopback = a->cfg->insecure_loopback;
    a->n_clients = hsp_net_table_size(&nc);
    a->clients = calloc(a->n_clients, sizeof *a->clients);
    a->decoding = hsp_arena_new(DECODE_CAP);
    if (a->clients == NULL || a->decoding == NULL) {
        return hsp_err_nomem(err, "the table of clients");
    }
    return hsp_net_new(a->loop, &nc, &net_calls, a, &a->net, err);
}

static void start_handles(struct hsp_app *a)
{
    uint64_t beat = hsp_sd_watchdog_ms();
    (void)uv_timer_init(a->loop, &a->tick); /* cannot fail */
    (void)uv_timer_init(a->loop, &a->beat);
    (void)uv_timer_init(a->loop, &a->retry);
    (void)uv_timer_init(a->loop, &a->rest);
    (void)uv_idle_init(a->loop, &a->no_wait);
    (void)uv_check_init(a->loop, &a->after_poll);
    a->tick.data = a->beat.data = a->retry.data = a->rest.data = a;
    a->no_wait.data = a->after_poll.data = a;
    a->n_handles = 6;
    a->tick_at = UINT64_MAX;
    beat = beat > 0 && beat < BEAT_MS ? beat : BEAT_MS;
    (void)uv_timer_start(&a->beat, on_beat, beat, beat); /* all have a callback */
    (void)uv_timer_start(&a->retry, on_retry, RETRY_MS, RETRY_MS);
    (void)uv_timer_stop(&a->retry); /* until hsp_app_retry_later */
}

enum hsp_status hsp_app_open(uv_loop_t *loop, const struct hsp_app_start *start,
                             struct hsp_app **ret, struct hsp_err *err)
{
    struct hsp_app *a = calloc(1, sizeof *a);
    if (a == NULL) {
        return hsp_err_nomem(err, "the coordinator");
    }
    a->loop = loop;
    a->cfg = start->cfg;
    a->log = start->log;
    a->folder.lock_fd = a->folder.store_fd = a->backup_fd = -1;
    a->metrics.reload_ok = true;
    a->start_s = hsp_app_unix_ms() / 1000;
    a->address = "";
    a->settle = settle;
    hsp_buf_init(&a->encoding, HSP_MSG_BODY_MAX);
    start_handles(a);
    *ret = a; /* also on failure: to be closed */
    enum hsp_status st = open_folder(a, start, err);
    if (st == HSP_OK) {
        share_descriptors(a);
        st = open_core(a, err);
    }
    if (st == HSP_OK) {
        st = open_net(a, start->keys, err);
    }
    if (st == HSP_OK) { /* before a store is made: --init is given again when this fails */
        st = listen_all(a, start->keys, err);
    }
    if (st == HSP_OK) {
        st = open_store(a, err);
    }
    if (st == HSP_OK) {
        st = load(a, err);
    }
    if (st == HSP_OK) {
        find_worker_user(a);
        tell_listeners(a, start->keys);
        listen_http(a);
        settle(a);
    }
    return st;
}

/* ---- end ---- */

static void on_net_closed(void *ctx)
{
    struct hsp_app *a = ctx;
    a->net = NULL;
    a->net_closed = true;
    hsp_app_try_end(a);
}

static void on_http_closed(void *ctx)
{
    struct hsp_app *a = ctx;
    a->http = NULL;
    a->http_closed = true;
    hsp_app_try_end(a);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct hsp_app *a = h->data;
    a->n_handles--;
    hsp_app_try_end(a);
}

void hsp_app_close(struct hsp_app *a, void (*on_closed)(struct hsp_app *a))
{
    if (a->closing) {
        return;
    }
    a->closing = true;
    a->on_closed = on_closed;
    hsp_app_plan_cancel_all(a);
    hsp_app_perform_rest(a);
    hsp_app_write_on(a);
    hsp_app_flush(a);
    uv_close((uv_handle_t *)&a->tick, on_handle_closed);
    uv_close((uv_handle_t *)&a->beat, on_handle_closed);
    uv_close((uv_handle_t *)&a->retry, on_handle_closed);
    uv_close((uv_handle_t *)&a->rest, on_handle_closed);
    uv_close((uv_handle_t *)&a->no_wait, on_handle_closed);
    uv_close((uv_handle_t *)&a->after_poll, on_handle_closed);
    a->http_closed = a->http == NULL;
    hsp_httpd_close(a->http, on_http_closed);
    if (a->net != NULL) {
        hsp_net_close(a->net, on_net_closed);
    } else {
        a->net_closed = true;
    }
}

struct hsp_app *hsp_app_free(struct hsp_app *a)
{
    if (a != NULL) {
        hsp_app_events_free(a);
        hsp_app_batches_free(a);
        hsp_app_follow_free(a);
        hsp_app_trace_free(a);
        hsp_app_adopt_free_all(a);
        hsp_app_ckpts_free_all(a);
        hsp_app_feed_free(a);
        while (a->pending != NULL) {
            struct hsp_pending *p = hsp_app_pending_take(a, a->pending->number);
            hsp_app_pending_free(p);
        }
        hsp_app_jobs_free(a);
        (void)hsp_cluster_free(a->cluster);
        (void)hsp_arena_free(a->decoding);
        hsp_buf_fini(&a->encoding);
        free(a->clients);
        (void)hsp_store_close(a->store);
        hsp_app_backup_end(a);
        hsp_state_folder_close(&a->folder);
        free(a);
    }
    return NULL;
}
