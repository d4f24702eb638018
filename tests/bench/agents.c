/* Plays many agents against one hspmdd, from one process: joins, heartbeats each second with
 * jitter, silence, lost connections, and the answers of executors that are always ready.
 *
 *   agents ADDRESS NODES [--seed S] [--silent K] [--lose K] [--key FILE]
 *
 * Lines of JSON go to standard output: "joined" when all are, "prepared" when every PREPARE of an
 * epoch was answered by READY, "silence" when it begins (beats until then) and "silent" for each
 * node that is (its last beat by the clock of the day), "silenced" when all of them are dead,
 * "report" at the end.
 * SIGUSR1: K nodes, drawn from the seed, send nothing more. SIGUSR2: the first K nodes close their
 * connections and come back. SIGTERM: report and end.
 * Exit 77: this process may not have so many connections. */
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/rng.h"
#include "proto/base/str.h"
#include "proto/host/open_files_limit.h"
#include "proto/net/net.h"
#include "proto/net/net_dial.h"
#include "proto/wire/msg_frame.h"

#define BEAT_MS      1000u
#define JITTER_MS    200u
#define TICK_MS      5u
#define WHEEL        1024u /* places of TICK_MS: more than BEAT_MS + 2 JITTER_MS */
#define PAUSE_MS     250u
#define PAUSE_MAX_MS 2000u
#define BURST        5u /* first calls begun in one tick */
#define NONE         UINT32_MAX
/* Connections of a host: its sweep begins those that are due every 25 ms. In one table of all they
 * would begin a thousand at a time. */
#define HOST 768u

struct host {
    struct load *load;
    struct hsp_net *net;
    uint32_t *by_slot; /* the agent that has the connection */
};

struct agent {
    uint32_t conn, next; /* next at the same place of the wheel */
    struct hsp_digest incarnation, was;
    uint64_t term, seq, round;
    uint64_t beat_ms; /* of the last beat, 0: none */
    uint64_t dial_ms; /* when it connects again, 0: it has a connection */
    uint32_t pause_ms;
    bool joined, silent, dead;
};

struct load {
    uv_loop_t loop;
    uv_timer_t tick;
    uv_signal_t signal[3];
    struct host *host; /* the agents are dealt out to them */
    uint32_t n_hosts, n_open_hosts;
    const char *address, *key; /* @key: file of the worker key, NULL none */
    uint64_t seed;
    uint32_t n, n_silent, n_lose;
    struct agent *agent;
    uint32_t wheel[WHEEL];
    uint64_t place, start_ms; /* ticks done */
    uint32_t next_dial, n_joined, n_dead_silent, n_waiting;
    bool told_joined, silenced, ending;
    struct hsp_arena *arena;
    struct hsp_buf body;
    /* figures */
    uint64_t beats, echoes, fenced, lost, worst_gap_ms, worst_silence_ms;
    uint64_t epoch, first_prepare_ms, prepare_bytes;
    uint32_t prepares, expected;
};

static uint64_t now_ms(void)
{
    return uv_hrtime() / 1000000u;
}

static uint64_t unix_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t); /* cannot fail with this clock */
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint32_t index_of(const struct load *l, const struct agent *a)
{
    return (uint32_t)(a - l->agent);
}

static struct host *host_of(const struct load *l, const struct agent *a)
{
    return &l->host[index_of(l, a) % l->n_hosts];
}

static void put(struct load *l, struct agent *a, const struct hsp_msg *m)
{
    struct hsp_err err;
    (void)hsp_net_send_msg(host_of(l, a)->net, a->conn, m, &l->body,
                           &err); /* on_close tells of losses */
}

/* ---- beats ---- */

/* The beat of @round stands at its second, give or take the jitter. */
static void plan_beat(struct load *l, struct agent *a)
{
    uint64_t phase = (uint64_t)index_of(l, a) * BEAT_MS / l->n;
    uint64_t jitter = hsp_rng_below(2 * JITTER_MS + 1, l->seed, 0, index_of(l, a), ++a->round);
    uint64_t at = (a->round * BEAT_MS + phase + jitter) / TICK_MS;
    at = at > l->place ? at : l->place + 1;
    a->next = l->wheel[at % WHEEL];
    l->wheel[at % WHEEL] = index_of(l, a);
}

static void beat(struct load *l, struct agent *a)
{
    uint64_t now = now_ms();
    if (a->silent) {
        return;
    }
    if (a->joined) {
        struct hsp_msg m = {.type = HSP_MSG_HEARTBEAT, .u.beat.seq = ++a->seq};
        uint64_t gap = a->beat_ms != 0 ? now - a->beat_ms : 0;
        l->worst_gap_ms = gap > l->worst_gap_ms ? gap : l->worst_gap_ms;
        a->beat_ms = now;
        l->beats++;
        put(l, a, &m);
    }
    plan_beat(l, a);
}

static void dial(struct load *l, struct agent *a)
{
    struct hsp_err err;
    struct host *h = host_of(l, a);
    const struct hsp_net_dial d = {.address = l->address, .role = HSP_ROLE_WORKER};
    if (hsp_net_dial_start(h->net, &d, &a->conn, &err) != HSP_OK) {
        (void)fprintf(stderr, "agents: %s\n", err.msg);
        exit(EXIT_FAILURE);
    }
    h->by_slot[hsp_net_slot(a->conn)] = index_of(l, a);
}

/* As an agent does: the pause is doubled until it has joined. */
static void dial_later(struct load *l, struct agent *a)
{
    a->pause_ms = a->pause_ms == 0                 ? PAUSE_MS
                  : 2 * a->pause_ms < PAUSE_MAX_MS ? 2 * a->pause_ms
                                                   : PAUSE_MAX_MS;
    a->dial_ms = now_ms() + a->pause_ms;
    l->n_waiting++;
}

static void dial_again(struct load *l)
{
    uint64_t now = now_ms();
    for (uint32_t i = 0; i < l->n && l->n_waiting > 0; i++) {
        struct agent *a = &l->agent[i];
        if (a->dial_ms != 0 && now >= a->dial_ms) {
            a->dial_ms = 0;
            l->n_waiting--;
            dial(l, a);
        }
    }
}

static void on_tick(uv_timer_t *t)
{
    struct load *l = t->data;
    uint64_t until = (now_ms() - l->start_ms) / TICK_MS;
    for (uint32_t i = 0; i < BURST && l->next_dial < l->n; i++) {
        dial(l, &l->agent[l->next_dial++]);
    }
    dial_again(l);
    while (l->place < until) {
        uint32_t *place = &l->wheel[++l->place % WHEEL], at = *place;
        *place = NONE;
        while (at != NONE) {
            uint32_t next = l->agent[at].next;
            beat(l, &l->agent[at]);
            at = next;
        }
    }
}

/* ---- messages of hspmdd ---- */

static void hello(struct load *l, struct agent *a)
{
    char name[HSP_NAME_MAX + 1], address[64];
    (void)snprintf(name, sizeof name, "a%05" PRIu32, index_of(l, a));
    (void)snprintf(address, sizeof address, "10.%u.%u.1:7000", index_of(l, a) / 250,
                   index_of(l, a) % 250);
    struct hsp_m_device d = {.kind = "cpu",
                             .speed = 1,
                             .mem_bytes = (uint64_t)4 << 30,
                             .gemm_fp32_flops = 5e10,
                             .gemm_fp64_flops = 2.5e10,
                             .mem_bytes_per_s = 1e10,
                             .op_us = 2,
                             .up = true,
                             .address = address};
    struct hsp_msg m = {.type = HSP_MSG_HELLO,
                        .u.hello = {.protocol = HSP_PROTO_VERSION,
                                    .node = name,
                                    .address = address,
                                    .incarnation = a->incarnation,
                                    .was = a->was,
                                    .term = a->term,
                                    .same_latency_us = 5,
                                    .same_us_per_byte = 2e-4,
                                    .n_devices = 1,
                                    .devices = &d}};
    put(l, a, &m);
}

static void welcome(struct load *l, struct agent *a, const struct hsp_m_welcome *w)
{
    a->incarnation = a->was = w->incarnation;
    a->term = w->term;
    if (a->joined) {
        return;
    }
    a->joined = true;
    a->pause_ms = 0;
    a->beat_ms = now_ms();
    l->n_joined++;
    if (!l->told_joined && l->n_joined == l->n) {
        l->told_joined = true;
        printf("{\"event\": \"joined\", \"nodes\": %" PRIu32 ", \"ms\": %" PRIu64 "}\n", l->n,
               now_ms() - l->start_ms);
        (void)fflush(stdout);
    }
}

static void prepare(struct load *l, struct agent *a, const struct hsp_msg *m)
{
    const struct hsp_m_prepare *p = &m->u.prepare;
    struct hsp_msg r = {.type = HSP_MSG_READY,
                        .epoch = m->epoch,
                        .u.ready = {.job = p->job,
                                    .device = p->device,
                                    .mem_bytes = 1,
                                    .data_bytes = 1000,
                                    .data_digest = {1, 1}}};
    if (l->epoch != m->epoch) {
        l->epoch = m->epoch;
        l->first_prepare_ms = now_ms();
        l->prepares = 0;
        l->prepare_bytes = 0;
    }
    l->prepares++;
    l->prepare_bytes += m->blob_len;
    put(l, a, &r);
    if (l->prepares == p->n_peers) {
        printf("{\"event\": \"prepared\", \"epoch\": %" PRIu64 ", \"devices\": %" PRIu32
               ", \"bytes\": %" PRIu64 ", \"ms\": %" PRIu64 "}\n",
               l->epoch, l->prepares, l->prepare_bytes, now_ms() - l->first_prepare_ms);
        (void)fflush(stdout);
    }
}

static void answer(struct load *l, struct agent *a, const struct hsp_msg *m)
{
    struct hsp_msg r = {.epoch = m->epoch};
    switch ((enum hsp_msg_type)m->type) {
    case HSP_MSG_WELCOME: welcome(l, a, &m->u.welcome); return;
    case HSP_MSG_HEARTBEAT: l->echoes++; return;
    case HSP_MSG_PREPARE: prepare(l, a, m); return;
    case HSP_MSG_FENCED:
        l->fenced += !a->silent;
        a->incarnation = (struct hsp_digest){0, 0};
        return;
    case HSP_MSG_MEASURE:
        r.type = HSP_MSG_UPLINK;
        r.u.uplink = (struct hsp_m_uplink){1e-4, 1e9};
        break;
    case HSP_MSG_ARM:
        r.type = HSP_MSG_STARTED;
        r.u.started =
            (struct hsp_m_started){.job = m->u.devref.job, .device = m->u.devref.device, .step = 1};
        break;
    case HSP_MSG_START:
        r.type = HSP_MSG_STARTED;
        r.u.started = (struct hsp_m_started){
            .job = m->u.start.job, .device = m->u.start.device, .step = m->u.start.step};
        break;
    case HSP_MSG_SEAL:
        r.type = HSP_MSG_SEALED;
        r.u.sealed.job = m->u.jobref.job;
        break;
    case HSP_MSG_STOP:
        r.type = HSP_MSG_STOPPED;
        r.u.devref = m->u.devref;
        break;
    case HSP_MSG_RELEASE:
        r.type = HSP_MSG_RELEASED;
        r.u.devref = (struct hsp_m_devref){m->u.release.job, m->u.release.device};
        break;
    default: return;
    }
    put(l, a, &r);
}

/* ---- connections ---- */

static struct agent *of_conn(const struct host *h, uint32_t conn)
{
    struct load *l = h->load;
    uint32_t at = h->by_slot[hsp_net_slot(conn)];
    return at != NONE && l->agent[at].conn == conn ? &l->agent[at] : NULL;
}

static void on_open(void *ctx, uint32_t conn, const struct hsp_net_peer *peer)
{
    const struct host *h = ctx;
    struct agent *a = of_conn(h, conn);
    (void)peer;
    if (a != NULL) {
        hello(h->load, a);
    }
}

static void on_frame(void *ctx, uint32_t conn, struct hsp_frame *f)
{
    const struct host *h = ctx;
    struct load *l = h->load;
    struct agent *a = of_conn(h, conn);
    struct hsp_err err;
    struct hsp_msg m;
    hsp_arena_reset(l->arena);
    if (a != NULL && hsp_msg_read(f, l->arena, &m, &err) == HSP_OK) {
        answer(l, a, &m);
    }
}

static void silent_died(struct load *l, struct agent *a)
{
    uint64_t ms = now_ms() - a->beat_ms;
    a->dead = true;
    l->worst_silence_ms = ms > l->worst_silence_ms ? ms : l->worst_silence_ms;
    if (++l->n_dead_silent == l->n_silent) {
        printf("{\"event\": \"silenced\", \"nodes\": %" PRIu32 ", \"worst_ms\": %" PRIu64 "}\n",
               l->n_silent, l->worst_silence_ms);
        (void)fflush(stdout);
    }
}

static void on_close(void *ctx, uint32_t conn, const struct hsp_err *why)
{
    const struct host *h = ctx;
    struct load *l = h->load;
    struct agent *a = of_conn(h, conn);
    if (a == NULL || l->ending) {
        return;
    }
    bool was_in = a->joined; /* a caller that finds no place yet comes again */
    l->n_joined -= was_in;
    a->joined = false;
    if (a->silent) {
        if (!a->dead) {
            silent_died(l, a);
        }
        return;
    }
    l->lost += was_in && why->code != HSP_ECANCELED;
    if (why->code != HSP_ECANCELED) {
        (void)fprintf(stderr, "agents: a%05" PRIu32 ": %s\n", index_of(l, a), why->msg);
    }
    dial_later(l, a);
}

/* ---- orders and the end ---- */

/* Draws the silent ones among those that are not yet. */
static void silence(struct load *l)
{
    printf("{\"event\": \"silence\", \"beats\": %" PRIu64 "}\n", l->beats);
    for (uint32_t i = 0, draw = 0; i < l->n_silent; draw++) {
        struct agent *a = &l->agent[hsp_rng_below(l->n, l->seed, 1, i, draw)];
        if (a->silent) {
            continue;
        }
        a->silent = true;
        i++;
        printf("{\"event\": \"silent\", \"node\": \"a%05" PRIu32 "\", \"beat_unix_ms\": %" PRIu64
               "}\n",
               index_of(l, a), unix_ms() - (now_ms() - a->beat_ms));
    }
    (void)fflush(stdout);
}

static void report(struct load *l)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u); /* cannot fail */
    printf("{\"event\": \"report\", \"beats\": %" PRIu64 ", \"echoes\": %" PRIu64
           ", \"fenced\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"joined\": %" PRIu32
           ", \"worst_gap_ms\": %" PRIu64 ", \"cpu_s\": %.3f}\n",
           l->beats, l->echoes, l->fenced, l->lost, l->n_joined, l->worst_gap_ms,
           (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
               1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec));
    (void)fflush(stdout);
}

static void on_net_closed(void *ctx)
{
    struct load *l = ((struct host *)ctx)->load;
    if (--l->n_open_hosts == 0) {
        uv_stop(&l->loop);
    }
}

static void on_signal(uv_signal_t *s, int signum)
{
    struct load *l = s->data;
    if (signum == SIGTERM && !l->ending) {
        l->ending = true;
        report(l);
        (void)uv_timer_stop(&l->tick); /* cannot fail */
        for (uint32_t i = 0; i < l->n_hosts; i++) {
            hsp_net_close(l->host[i].net, on_net_closed);
        }
    }
    if (signum == SIGUSR1 && l->n_silent > 0 && !l->silenced) {
        l->silenced = true;
        silence(l);
    }
    for (uint32_t i = 0; signum == SIGUSR2 && i < l->n_lose; i++) {
        hsp_net_drop(host_of(l, &l->agent[i])->net, l->agent[i].conn, false, "to be lost");
    }
}

static bool parse(struct load *l, int argc, char **argv)
{
    uint64_t n = 0, v = 0;
    if (argc < 3 || argc % 2 == 0 || !hsp_parse_u64(argv[2], &n) || n == 0 ||
        n > HSP_NET_MAX_CONNS) {
        return false;
    }
    l->address = argv[1];
    l->n = (uint32_t)n;
    for (int i = 3; i < argc; i += 2) {
        if (strcmp(argv[i], "--key") == 0) {
            l->key = argv[i + 1];
            continue;
        }
        if (!hsp_parse_u64(argv[i + 1], &v) || (strcmp(argv[i], "--seed") != 0 && v > n)) {
            return false;
        }
        if (strcmp(argv[i], "--seed") == 0) {
            l->seed = v;
        } else if (strcmp(argv[i], "--silent") == 0) {
            l->n_silent = (uint32_t)v;
        } else if (strcmp(argv[i], "--lose") == 0) {
            l->n_lose = (uint32_t)v;
        } else {
            return false;
        }
    }
    return true;
}

static bool start_hosts(struct load *l, struct hsp_err *err)
{
    const struct hsp_net_calls calls = {
        .on_open = on_open, .on_frame = on_frame, .on_close = on_close};
    struct hsp_net_config cfg;
    hsp_net_defaults(&cfg);
    cfg.clear_loopback = true;
    cfg.places[HSP_POOL_OWN] = HOST;
    cfg.limits.blob = HSP_MSG_BLOB_MAX;
    if (hsp_net_keys_load(l->key, NULL, &cfg.keys, err) != HSP_OK) {
        return false;
    }
    for (uint32_t i = 0; i < l->n_hosts; i++, l->n_open_hosts++) {
        struct host *h = &l->host[i];
        size_t bytes = hsp_net_table_size(&cfg) * sizeof *h->by_slot;
        h->load = l;
        h->by_slot = malloc(bytes);
        if (h->by_slot == NULL || hsp_net_new(&l->loop, &cfg, &calls, h, &h->net, err) != HSP_OK) {
            return false;
        }
        memset(h->by_slot, 0xff, bytes);
    }
    return true;
}

static bool start(struct load *l)
{
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM};
    struct hsp_err err = {.msg = "out of memory"};
    l->n_hosts = (l->n + HOST - 1) / HOST;
    l->host = calloc(l->n_hosts, sizeof *l->host);
    l->agent = calloc(l->n, sizeof *l->agent);
    l->arena = hsp_arena_new((size_t)64 << 20);
    if (l->host == NULL || l->agent == NULL || l->arena == NULL || !start_hosts(l, &err)) {
        (void)fprintf(stderr, "agents: cannot start: %s\n", err.msg);
        return false;
    }
    hsp_buf_init(&l->body, HSP_MSG_BODY_MAX);
    memset(l->wheel, 0xff, sizeof l->wheel);
    l->start_ms = now_ms();
    for (int i = 0; i < 3; i++) {
        l->signal[i].data = l;
        if (uv_signal_init(&l->loop, &l->signal[i]) != 0 ||
            uv_signal_start(&l->signal[i], on_signal, signals[i]) != 0) {
            return false;
        }
    }
    for (uint32_t i = 0; i < l->n; i++) {
        plan_beat(l, &l->agent[i]);
    }
    l->tick.data = l;
    return uv_timer_init(&l->loop, &l->tick) == 0 &&
           uv_timer_start(&l->tick, on_tick, TICK_MS, TICK_MS) == 0;
}

int main(int argc, char **argv)
{
    static struct load l;
    (void)signal(SIGPIPE, SIG_IGN); /* hspmdd may close while an agent writes */
    if (!parse(&l, argc, argv)) {
        (void)fputs("agents ADDRESS NODES [--seed S] [--silent K] [--lose K] [--key FILE]\n",
                    stderr);
        return 2;
    }
    /* Packages come and go by the thousand: memory that is given back at once costs more than they
     * do. */
    (void)mallopt(M_MMAP_THRESHOLD, 64 << 20); /* only wishes */
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    uint64_t files = hsp_nofile_raise((uint64_t)l.n + 100);
    if (files < (uint64_t)l.n + 100) {
        printf("%" PRIu32 " connections need RLIMIT_NOFILE >= %" PRIu32 ", it is %" PRIu64 "\n",
               l.n, l.n + 100, files);
        return 77;
    }
    if (uv_loop_init(&l.loop) != 0 || !start(&l)) {
        return EXIT_FAILURE;
    }
    (void)uv_run(&l.loop, UV_RUN_DEFAULT);
    hsp_buf_fini(&l.body);
    (void)hsp_arena_free(l.arena);
    for (uint32_t i = 0; i < l.n_hosts; i++) {
        free(l.host[i].by_slot);
    }
    free(l.host);
    free(l.agent);
    return EXIT_SUCCESS;
}
