/* Tests an agent and its link to hspmdd: dialling, the first messages, measurements, and the end of
 * the link. */
#include "tests/unit/worker/agent/agent_world.h"
#include "worker/agent/agent_impl.h"

#define KIB 1024u

static void hello_says_all(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 3, 7);
    assert_int_equal(hsp_agent_link_state(w.a), HSP_LINK_UP);
    aw_run_job(&w, 0, 4, 2);
    w.now += 10;
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    w.now += 50;
    aw_tick(&w);
    assert_non_null(aw_find(&w, HSP_AACT_CONNECT));
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    struct hsp_m_holding h = {.job = 4, .plan = 1, .version = 6};
    aw_scanned(&w, &h, 1);
    const struct hsp_m_hello *m = &aw_sent(&w, HSP_AACT_SEND, HSP_MSG_HELLO)->u.hello;
    assert_string_equal(m->node, "n1");
    assert_true(m->incarnation.hi == 1 && m->incarnation.lo == 7);
    assert_int_equal(m->term, 3);
    assert_int_equal(m->n_devices, 2);
    assert_true(m->devices[0].up && m->devices[1].up);
    assert_int_equal(m->devices[1].index, 1);
    assert_int_equal(m->n_cards, 2);
    assert_string_equal(m->cards[1].name, "ib0");
    assert_near(m->cards[1].gbit_per_s, 100, 0);
    assert_int_equal(m->devices[0].card, 1);
    assert_string_equal(m->devices[0].address, "a:1");
    assert_int_equal(m->n_holdings, 1);
    assert_int_equal(m->holdings[0].version, 6);
    assert_int_equal(m->n_runs, 1);
    assert_int_equal(m->runs[0].running, 2);
    /* a coordinator of an older term is left */
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                        .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                                      .term = 2,
                                                      .incarnation = {1, 8},
                                                      .heartbeat_ms = 1,
                                                      .dead_ms = 1}});
    assert_non_null(aw_find(&w, HSP_AACT_DISCONNECT));
    assert_non_null(strstr(aw_find(&w, HSP_AACT_LOG)->text, "of an older term"));
    assert_int_equal(w.a->incarnation.lo, 7);
    assert_null(aw_find(&w, HSP_AACT_REMEMBER));
    hsp_agent_free(w.a);
}

/* The log names each reason to leave a coordinator in words of its own. */
static void an_incomplete_welcome_is_refused(void **state)
{
    (void)state;
    static const struct {
        struct hsp_digest incarnation;
        uint32_t heartbeat_ms, dead_ms;
        const char *why;
    } cases[] = {
        {{0, 0}, 500, 3000, "the coordinator gave this node no incarnation"},
        {{1, 8}, 0, 3000, "the coordinator gave no heartbeat times"},
        {{1, 8}, 500, 0, "the coordinator gave no heartbeat times"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aw_world w;
        aw_begin(&w);
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
        aw_scanned(&w, NULL, 0);
        aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                            .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                                          .term = 5,
                                                          .incarnation = cases[i].incarnation,
                                                          .heartbeat_ms = cases[i].heartbeat_ms,
                                                          .dead_ms = cases[i].dead_ms}});
        assert_non_null(aw_find(&w, HSP_AACT_DISCONNECT));
        assert_non_null(strstr(aw_find(&w, HSP_AACT_LOG)->text, cases[i].why));
        hsp_agent_free(w.a);
    }
}

static const char *next_dial(struct aw_world *w)
{
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "refused"});
    w->now += 5000;
    aw_tick(w);
    assert_int_equal(aw_count(w, HSP_AACT_CONNECT), 1);
    return aw_find(w, HSP_AACT_CONNECT)->text;
}

static void told(struct aw_world *w, uint64_t term, const char *address)
{
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_scanned(w, NULL, 0);
    aw_from_daemon(w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                       .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                                     .term = term,
                                                     .incarnation = {1, 1},
                                                     .heartbeat_ms = 500,
                                                     .dead_ms = 3000,
                                                     .address = address}});
}

/* The configured address and the one hspmdd told, in turn; the word of an old hspmdd does not
 * count. */
static void another_address(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    told(&w, 5, "head:7071");
    assert_null(next_dial(&w));
    assert_string_equal(next_dial(&w), "head:7071");
    assert_null(next_dial(&w));
    assert_string_equal(next_dial(&w), "head:7071");
    told(&w, 5, "head2:7071"); /* over the second way; the first is the first again */
    assert_null(next_dial(&w));
    assert_string_equal(next_dial(&w), "head2:7071");
    told(&w, 4, "liar:1");
    assert_null(next_dial(&w));
    assert_string_equal(next_dial(&w), "head2:7071");
    told(&w, 6, "");
    assert_null(next_dial(&w));
    assert_null(next_dial(&w));
    hsp_agent_free(w.a);
}

/* A coordinator that cannot be reached for hours does not fill the log, whichever of the two
 * addresses fails. */
static void the_same_refusal_is_told_once_a_minute(void **state)
{
    (void)state;
    struct aw_world w;
    const char *const why[] = {"head:7071: refused", "head2:7071: refused"};
    uint32_t lines = 0;
    aw_begin(&w);
    told(&w, 5, "head2:7071");
    for (uint32_t i = 0; i < 120; i++) { /* 4 minutes */
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = why[i % 2]});
        lines += aw_count(&w, HSP_AACT_LOG);
        w.now += 2000;
        aw_tick(&w);
        assert_int_equal(aw_count(&w, HSP_AACT_CONNECT), 1);
    }
    assert_int_equal(lines, 8);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "other keys"});
    assert_string_equal(aw_find(&w, HSP_AACT_LOG)->text,
                        "connection to the coordinator: other keys");
    w.now += 2000;
    aw_tick(&w);
    told(&w, 5, "head2:7071"); /* the link was up: a break then is news */
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "other keys"});
    assert_int_equal(aw_count(&w, HSP_AACT_LOG), 1);
    hsp_agent_free(w.a);
}

/* An agent that hspmdd refuses, as another one has its name, tries for hours, too. */
static void why_it_is_refused_is_told_once_a_minute(void **state)
{
    (void)state;
    struct aw_world w;
    uint32_t lines = 0;
    aw_begin(&w);
    for (uint32_t i = 0; i < 120; i++) { /* 4 minutes */
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP, .text = "head:7071 (agent)"});
        lines += aw_count(&w, HSP_AACT_LOG);
        assert_true(i > 0 ||
                    strcmp(aw_find(&w, HSP_AACT_LOG)->text, "connected to head:7071 (agent)") == 0);
        aw_scanned(&w, NULL, 0);
        aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_FENCED, .u.fenced.reason = "two"});
        lines += aw_count(&w, HSP_AACT_LOG);
        assert_true(i > 0 || strcmp(aw_find(&w, HSP_AACT_LOG)->text, "refused: two") == 0);
        assert_int_equal(aw_count(&w, HSP_AACT_DISCONNECT), 1);
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN});
        w.now += 2000;
        aw_tick(&w);
        assert_int_equal(aw_count(&w, HSP_AACT_CONNECT), 1);
    }
    assert_int_equal(lines, 3 * 4);
    hsp_agent_free(w.a);
}

static void fenced(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    aw_run_job(&w, 0, 4, 2);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_FENCED, .u.fenced.reason = "dead"});
    assert_int_equal(aw_count(&w, HSP_AACT_KILL), 1);
    assert_int_equal(aw_find(&w, HSP_AACT_KILL)->device, 0);
    assert_non_null(aw_find(&w, HSP_AACT_DISCONNECT));
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN});
    w.now += 1000;
    aw_beats(&w);
    aw_tick(&w);
    assert_null(aw_find(&w, HSP_AACT_CONNECT)); /* not before the last of them is gone */
    aw_exit_of(&w, 0);
    aw_tick(&w);
    assert_int_equal(hsp_agent_link_state(w.a), HSP_LINK_CONNECTING);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_scanned(&w, NULL, 0);
    const struct hsp_m_hello *m = &aw_sent(&w, HSP_AACT_SEND, HSP_MSG_HELLO)->u.hello;
    assert_true(hsp_digest_is_zero(m->incarnation));
    assert_true(m->was.hi == 1 && m->was.lo == 1); /* a proof that it is the same node */
    assert_int_equal(m->n_runs, 0);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                        .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                                      .term = 1,
                                                      .incarnation = {1, 2},
                                                      .heartbeat_ms = 500,
                                                      .dead_ms = 3000}});
    assert_int_equal(aw_find(&w, HSP_AACT_REMEMBER)->incarnation.lo, 2);
    hsp_agent_free(w.a);
}

static uint32_t told_fact(uint32_t protocol)
{
    struct aw_world w;
    aw_begin(&w);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_scanned(&w, NULL, 0);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                        .u.welcome = {.protocol = protocol,
                                                      .term = 1,
                                                      .incarnation = {1, 2},
                                                      .heartbeat_ms = 500,
                                                      .dead_ms = 3000}});
    aw_prepare(&w, 0, 4, 1);
    aw_from_exec(&w, 0,
                 (struct hsp_msg){.type = HSP_MSG_PREPARE_FAILED,
                                  .epoch = 1,
                                  .u.failed = {.job = 4,
                                               .fact = HSP_FACT_STATE_SHAPE,
                                               .peer = HSP_MSG_RANKS,
                                               .reason = "laid out otherwise"}});
    uint32_t fact = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_PREPARE_FAILED)->u.failed.fact;
    hsp_agent_free(w.a);
    return fact;
}

static void an_older_hspmdd_hears_what_it_knows(void **state)
{
    (void)state;
    assert_int_equal(told_fact(15), HSP_FACT_STATE_SHAPE);
    assert_int_equal(told_fact(14), HSP_FACT_OTHER);
}

/* hspmdd refuses the agent since another agent has its name. The agent tries again, with growing
 * pauses. */
static void refused(void **state)
{
    (void)state;
    struct aw_world w;
    uint64_t pause = 0;
    aw_begin(&w);
    for (int i = 0; i < 4; i++) {
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
        aw_scanned(&w, NULL, 0);
        aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_FENCED, .u.fenced.reason = "another"});
        assert_int_equal(aw_count(&w, HSP_AACT_DISCONNECT), 1);
        assert_int_equal(aw_count(&w, HSP_AACT_KILL), 0);
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "closed"});
        aw_beats(&w);
        uint64_t before = w.now;
        do {
            w.now = hsp_agent_deadline(w.a);
            aw_tick(&w);
        } while (aw_find(&w, HSP_AACT_CONNECT) == NULL);
        assert_true(w.now - before > pause);
        pause = w.now - before;
    }
    hsp_agent_free(w.a);
}

static void daemon_away(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    aw_run_job(&w, 0, 4, 2);
    aw_prepare(&w, 0, 4, 3);
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_READY, .epoch = 3, .u.ready.job = 4});
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_ARM, .epoch = 3, .u.devref = {4, 0}});
    for (uint32_t i = 0; i < 6; i++) {
        assert_null(aw_find(&w, HSP_AACT_DISCONNECT));
        aw_beats(&w);
        w.now += 500;
        aw_tick(&w);
    }
    assert_non_null(aw_find(&w, HSP_AACT_DISCONNECT)); /* silent for the bound */
    assert_null(aw_find(&w, HSP_AACT_KILL));
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN});
    assert_int_equal(hsp_agent_device_at(w.a, 0)->run.armed, 3);
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_STARTED, .epoch = 3, .u.started.job = 4});
    const struct hsp_m_run *r = &hsp_agent_device_at(w.a, 0)->run;
    assert_true(r->running == 3 && r->prepared == 0 && r->armed == 0); /* the switch went on */
    aw_from_exec(&w, 0,
                 (struct hsp_msg){.type = HSP_MSG_PEER_LOST,
                                  .epoch = 3,
                                  .u.lost = {.job = 4, .peer = 1, .reason = "broke"}});
    assert_true(hsp_agent_device_at(w.a, 0)->run.broken); /* the next hello says so */
    hsp_agent_free(w.a);
}

static void told_other_times_and_other_devices(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_m_device dev[2] = {{.kind = "cpu", .mem_bytes = 9, .address = ""},
                                  {.kind = "cpu", .speed = 0.5, .address = ""}};
    aw_begin(&w);
    aw_link_up(&w, 1, 7);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                        .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                                      .term = 1,
                                                      .incarnation = {1, 7},
                                                      .heartbeat_ms = 50,
                                                      .dead_ms = 300}});
    assert_int_equal(hsp_agent_link_state(w.a), HSP_LINK_UP);
    for (uint32_t again = 0; again < 2;
         again++) { /* executors hear both; then of the second alone */
        const struct hsp_msg *m = aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_WELCOME);
        assert_non_null(m);
        assert_int_equal(m->u.welcome.heartbeat_ms, 50);
        assert_int_equal(m->u.welcome.dead_ms, again == 0 ? 300 : 150);
        aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                            .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                                          .term = 1,
                                                          .incarnation = {1, 7},
                                                          .heartbeat_ms = 50,
                                                          .dead_ms = 150}});
    }
    assert_null(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_WELCOME));
    w.now += 50;
    aw_tick(&w);
    assert_non_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_HEARTBEAT));
    w.now += 50;
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_TICK, .folder_free = 4096});
    const struct hsp_msg *beat = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_HEARTBEAT);
    assert_true(beat != NULL && beat->u.beat.folder_free == 4096);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_PROFILE, .n = 2, .devices = dev});
    assert_int_equal(aw_count(&w, HSP_AACT_KILL), 1); /* only the one that has other figures */
    assert_int_equal(aw_find(&w, HSP_AACT_KILL)->device, 1);
    assert_int_equal(aw_count(&w, HSP_AACT_DISCONNECT), 1);
    assert_true(hsp_agent_device_at(w.a, 1)->profile.speed > 0.4);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_PROFILE, .n = 2, .devices = dev});
    assert_int_equal(aw_count(&w, HSP_AACT_KILL), 0); /* the same again is nothing new */
    hsp_agent_free(w.a);
}

struct asked {
    uint32_t n, seq, out, back;
};

/* The question of the last step: its pieces and the wanted bytes. */
static struct asked question(const struct aw_world *w)
{
    struct asked q = {0};
    for (uint32_t i = 0; i < w->acts.n; i++) {
        const struct hsp_agent_action *x = &w->acts.item[i];
        if (x->type == HSP_AACT_SEND && x->msg->type == HSP_MSG_ECHO) {
            assert_true(q.n == 0 || x->msg->u.echo.seq == q.seq);
            assert_true(x->msg->blob_len <= HSP_ECHO_CHUNK);
            q.n++;
            q.seq = x->msg->u.echo.seq;
            q.out += x->msg->blob_len;
            q.back = x->msg->u.echo.back;
            assert_true(x->msg->u.echo.more || i + 1 == w->acts.n);
        }
    }
    return q;
}

/* hspmdd answers after @us. */
static void echo_after(struct aw_world *w, struct asked q, uint64_t us, uint64_t *now_us)
{
    struct hsp_msg m = {.type = HSP_MSG_ECHO, .u.echo = {.seq = q.seq, .more = true}};
    *now_us += us;
    w->now = *now_us / 1000;
    struct hsp_agent_event ev = {.type = HSP_AEV_DAEMON_MSG, .msg = &m, .now_us = *now_us};
    if (q.back != 0) {
        aw_step(w, ev); /* all but the last piece */
        assert_int_equal(question(w).n, 0);
    }
    m.u.echo.more = false;
    m.u.echo.seq--;
    aw_step(w, ev); /* an old one */
    assert_int_equal(question(w).n, 0);
    m.u.echo.seq++;
    aw_step(w, ev);
}

static void your_turn(struct aw_world *w, uint64_t *now_us)
{
    struct hsp_msg m = {.type = HSP_MSG_MEASURE, .u.measure.echoes = 16};
    *now_us = w->now * 1000;
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_DAEMON_MSG, .msg = &m, .now_us = *now_us});
}

static const struct hsp_m_uplink *reported(const struct aw_world *w)
{
    const struct hsp_msg *m = aw_sent(w, HSP_AACT_SEND, HSP_MSG_UPLINK);
    return m != NULL ? &m->u.uplink : NULL;
}

static void pings(struct aw_world *w, uint64_t *now_us)
{
    static const uint64_t us[] = {900, 450, 300, 400, 2000};
    for (uint32_t i = 0; i < 5; i++) {
        struct asked q = question(w);
        assert_true(q.n == 1 && q.out == 0 && q.back == 0);
        echo_after(w, q, us[i], now_us);
    }
}

static void measures_its_link(void **state)
{
    (void)state;
    struct aw_world w;
    uint64_t us;
    aw_begin(&w);
    aw_link_up(&w, 2, 7);
    assert_int_equal(question(&w).n, 0); /* not before its turn */
    your_turn(&w, &us);
    pings(&w, &us); /* 300 us there and back */
    struct asked q = question(&w);
    assert_true(q.n == 8 && q.out == 256 * KIB && q.back == 0);
    echo_after(&w, q, 4999, &us); /* fast: more of it */
    q = question(&w);
    assert_true(q.n == 32 && q.out == 1024 * KIB && q.back == 0);
    echo_after(&w, q, 10300, &us); /* 104.86 MB/s */
    q = question(&w);
    assert_true(q.n == 1 && q.out == 0 && q.back == 256 * KIB);
    static const uint64_t slow[] = {5300, 7000, 5000, 6000}; /* the best of four: 55.78 MB/s */
    for (uint32_t i = 0; i < 4; i++) {
        q = question(&w);
        assert_true(q.n == 1 && q.out == 0 && q.back == 256 * KIB);
        echo_after(&w, q, slow[i], &us);
    }
    assert_int_equal(question(&w).n, 0);
    assert_non_null(reported(&w));
    assert_near(reported(&w)->latency_s, 150e-6, 1e-12);
    assert_near(reported(&w)->bytes_per_s, 256 * KIB / 4700e-6, 1);

    your_turn(&w, &us); /* hspmdd was restarted: the same again, nothing is measured */
    assert_int_equal(question(&w).n, 0);
    assert_near(reported(&w)->latency_s, 150e-6, 1e-12);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    w.now = hsp_agent_deadline(w.a);
    aw_tick(&w);
    aw_link_up(&w, 3, 7);
    assert_null(reported(&w)); /* nobody asked */
    your_turn(&w, &us);
    assert_non_null(reported(&w));

    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_FENCED, .u.fenced.reason = "silent"});
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "fenced"});
    w.now = hsp_agent_deadline(w.a);
    aw_tick(&w);
    aw_link_up(&w, 3, 8);
    your_turn(&w, &us);
    assert_null(reported(&w)); /* another incarnation: measured anew */
    assert_int_equal(question(&w).n, 1);
    hsp_agent_free(w.a);
}

/* The connection breaks: forgotten. Too slow: as far as it came; not one answer: nothing. */
static void measures_a_bad_link(void **state)
{
    (void)state;
    struct aw_world w;
    uint64_t us;
    aw_begin(&w);
    aw_link_up(&w, 2, 7);
    your_turn(&w, &us);
    struct asked q = question(&w);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    w.now = hsp_agent_deadline(w.a);
    aw_tick(&w);
    aw_link_up(&w, 2, 7);
    us = w.now * 1000;
    echo_after(&w, q, 10, &us);
    assert_int_equal(question(&w).n, 0);
    your_turn(&w, &us);
    pings(&w, &us);
    assert_int_equal(question(&w).out, 256 * KIB);
    uint32_t n = 0;
    for (w.now += 900, aw_tick(&w); reported(&w) == NULL && n < 6; w.now += 900, aw_tick(&w)) {
        aw_beats(&w); /* heard, but no answer */
        aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        n++;
    }
    assert_non_null(reported(&w));
    assert_true(reported(&w)->bytes_per_s > 256 * KIB / 5.5 &&
                reported(&w)->bytes_per_s < 256 * KIB / 4.5);
    hsp_agent_free(w.a);

    aw_begin(&w);
    aw_link_up(&w, 2, 7);
    your_turn(&w, &us);
    for (uint32_t i = 0; i < 7; i++) {
        w.now += 900;
        aw_beats(&w);
        aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
        assert_null(reported(&w));
    }
    us = w.now * 1000;
    echo_after(&w, (struct asked){.seq = 1}, 10, &us);
    assert_int_equal(question(&w).n, 0);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_MEASURE, .u.measure.echoes = 2});
    q = question(&w);
    us = w.now * 1000;
    echo_after(&w, q, 10, &us);
    echo_after(&w, question(&w), 10, &us);
    assert_int_equal(question(&w).n, 0); /* no more than it may */
    assert_null(reported(&w));
    hsp_agent_free(w.a);
}

/* The agent passes orders of a check to the shell, and answers to hspmdd. When the connection that
 * ordered a check has ended, the check ends too. */
static void checks_end_with_the_connection(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_msg order = {
        .type = HSP_MSG_CHECK,
        .u.check = {
            .check = 3, .seq = 4, .what = HSP_CHECK_LINK, .peer = "b", .peer_address = "b:1"}};
    struct hsp_msg said = {
        .type = HSP_MSG_CHECKED,
        .u.checked = {.check = 3, .seq = 4, .fault = "", .address = "", .transport = "shm"}};
    struct hsp_agent_event ev = {.type = HSP_AEV_CHECKED, .msg = &said};
    aw_begin(&w);
    aw_link_up(&w, 2, 7);
    aw_step(&w, ev); /* nobody has asked */
    assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_CHECKED));
    aw_from_daemon(&w, order);
    assert_string_equal(aw_find(&w, HSP_AACT_CHECK)->msg->u.check.peer_address, "b:1");
    aw_step(&w, ev);
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_CHECKED)->u.checked.seq, 4);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    assert_int_equal(aw_count(&w, HSP_AACT_CHECK_STOP), 1);
    aw_step(&w, ev);
    assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_CHECKED));
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    assert_int_equal(aw_count(&w, HSP_AACT_CHECK_STOP), 0);
    hsp_agent_free(w.a);
}

/* The agent passes the question which listeners can be reached to the shell. */
static void reach_is_asked_and_answered(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_m_target target = {"b:1"};
    struct hsp_m_deaf deaf = {0, true};
    struct hsp_msg order = {
        .type = HSP_MSG_REACH,
        .u.reach = {.round = 3, .within_ms = 750, .n_targets = 1, .targets = &target}};
    struct hsp_msg said = {.type = HSP_MSG_REACHED,
                           .u.reached = {.round = 3, .n_deaf = 1, .deaf = &deaf}};
    struct hsp_agent_event ev = {.type = HSP_AEV_REACHED, .msg = &said};
    aw_begin(&w);
    aw_step(&w, ev); /* there is no hspmdd to tell */
    assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_REACHED));
    aw_link_up(&w, 2, 7);
    aw_from_daemon(&w, order);
    assert_string_equal(aw_find(&w, HSP_AACT_REACH)->msg->u.reach.targets[0].address, "b:1");
    aw_step(&w, ev);
    assert_true(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_REACHED)->u.reached.deaf[0].refused);
    hsp_agent_free(w.a);
}

/* So is which checkpoints are on disk. */
static void checkpoints_are_asked_for_and_listed(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_m_seen seen = {40, 1, 2, 3};
    struct hsp_msg order = {
        .type = HSP_MSG_CKPTS,
        .u.ckpts = {.job = 7, .number = 5, .name = "j", .path = "/c", .damaged = "", .reason = ""}};
    struct hsp_msg said = {.type = HSP_MSG_CKPTS,
                           .u.ckpts = {.job = 7,
                                       .number = 5,
                                       .name = "",
                                       .path = "",
                                       .n_seen = 1,
                                       .seen = &seen,
                                       .damaged = "",
                                       .reason = ""}};
    struct hsp_agent_event ev = {.type = HSP_AEV_CKPTS, .msg = &said};
    aw_begin(&w);
    aw_step(&w, ev); /* there is no hspmdd to tell */
    assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_CKPTS));
    aw_link_up(&w, 2, 7);
    aw_from_daemon(&w, order);
    assert_string_equal(aw_find(&w, HSP_AACT_FIND_CKPTS)->msg->u.ckpts.path, "/c");
    aw_step(&w, ev);
    assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_CKPTS)->u.ckpts.seen[0].step, 40);
    hsp_agent_free(w.a);
}

/* hspmdd sends its questions at once, but sends WELCOME only when its store has written the HELLO.
 * So an agent must answer a question that arrives before WELCOME. */
static void a_question_before_the_welcome_is_answered(void **state)
{
    (void)state;
    struct aw_world w;
    aw_begin(&w);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_scanned(&w, NULL, 0);
    aw_from_daemon(&w,
                   (struct hsp_msg){.type = HSP_MSG_PAPERS,
                                    .u.papers = {.job = 7, .what = HSP_PAPERS_ASK, .reason = ""}});
    assert_int_equal(aw_find(&w, HSP_AACT_READ_PAPERS)->msg->u.papers.job, 7);
    aw_from_daemon(
        &w, (struct hsp_msg){
                .type = HSP_MSG_CKPTS,
                .u.ckpts = {.job = 7, .name = "j", .path = "/c", .damaged = "", .reason = ""}});
    assert_int_equal(aw_find(&w, HSP_AACT_FIND_CKPTS)->msg->u.ckpts.job, 7);
    hsp_agent_free(w.a);
}

static void turned_away(struct aw_world *w, uint32_t again_ms)
{
    aw_from_daemon(w, (struct hsp_msg){.type = HSP_MSG_PARKED,
                                       .u.parked = {.heartbeat_ms = 500,
                                                    .dead_ms = 3000,
                                                    .reason = "too many",
                                                    .again_ms = again_ms}});
}

/* An hspmdd that has no place for it, or has none any more, says when to come back: neither
 * earlier, nor as late as it likes. */
static void comes_back_when_it_was_told(void **state)
{
    (void)state;
    for (uint32_t parked = 0; parked < 2; parked++) {
        struct aw_world w;
        aw_begin(&w);
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
        aw_scanned(&w, NULL, 0);
        if (parked == 1) {
            turned_away(&w, 0);
            assert_int_equal(hsp_agent_link_state(w.a), HSP_LINK_PARKED);
        }
        turned_away(&w, parked == 1 ? UINT32_MAX : 40000);
        assert_non_null(aw_find(&w, HSP_AACT_DISCONNECT));
        assert_non_null(strstr(aw_find(&w, HSP_AACT_LOG)->text, "no place for this node"));
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "closed"});
        uint64_t due = w.now + (parked == 1 ? 120000 : 40000);
        for (w.now += 1000; w.now < due; w.now += 1000) {
            aw_tick(&w);
            assert_int_equal(aw_count(&w, HSP_AACT_CONNECT), 0);
        }
        aw_tick(&w);
        assert_int_equal(aw_count(&w, HSP_AACT_CONNECT), 1);
        hsp_agent_free(w.a);
    }
}

HSP_TEST_FILE(agent_link_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reach_is_asked_and_answered),
                                       cmocka_unit_test(the_same_refusal_is_told_once_a_minute),
                                       cmocka_unit_test(why_it_is_refused_is_told_once_a_minute),
                                       cmocka_unit_test(checkpoints_are_asked_for_and_listed),
                                       cmocka_unit_test(a_question_before_the_welcome_is_answered),
                                       cmocka_unit_test(hello_says_all),
                                       cmocka_unit_test(an_incomplete_welcome_is_refused),
                                       cmocka_unit_test(another_address),
                                       cmocka_unit_test(fenced),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(an_older_hspmdd_hears_what_it_knows),
                                       cmocka_unit_test(comes_back_when_it_was_told),
                                       cmocka_unit_test(daemon_away),
                                       cmocka_unit_test(told_other_times_and_other_devices),
                                       cmocka_unit_test(measures_its_link),
                                       cmocka_unit_test(measures_a_bad_link),
                                       cmocka_unit_test(checks_end_with_the_connection)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
