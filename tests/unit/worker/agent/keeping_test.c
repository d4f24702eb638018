/* Tests which cluster owns the state that a node keeps, and which coordinators may have that state
 * deleted. */
#include "tests/unit/worker/agent/agent_world.h"
#include "worker/agent/agent_impl.h"

static const struct hsp_digest mine = {1, 1}, other = {2, 2};

/* Reconnects the node to a coordinator of cluster @id, after a scan has found @kept. */
static void meet(struct aw_world *w, const struct hsp_m_kept *kept, uint32_t n,
                 struct hsp_digest id, uint64_t generation)
{
    const struct hsp_agent_action *x;
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    w->now += 5000;
    aw_tick(w);
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    x = aw_find(w, HSP_AACT_SCAN);
    assert_non_null(x);
    aw_step(w, (struct hsp_agent_event){.type = HSP_AEV_SCANNED,
                                        .scan = x->scan,
                                        .n_kept = n,
                                        .kept = kept,
                                        .kept_more = w->kept_more});
    const struct hsp_msg *m = aw_sent(w, HSP_AACT_SEND, HSP_MSG_HELLO);
    assert_int_equal(m->u.hello.n_kept, n);
    aw_from_daemon(w, (struct hsp_msg){.type = HSP_MSG_WELCOME,
                                       .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                                     .cluster = id,
                                                     .generation = generation,
                                                     .term = 1,
                                                     .incarnation = {1, 1},
                                                     .heartbeat_ms = 500,
                                                     .dead_ms = 3000}});
    assert_int_equal(hsp_agent_link_state(w->a), HSP_LINK_UP);
}

/* Sends the order @type. Returns true if the agent obeys. An agent that does not obey closes the
 * connection, and its next HELLO shows the reason. */
static bool obeys(struct aw_world *w, uint16_t type, uint64_t known)
{
    struct hsp_msg m = {.type = type, .epoch = type == HSP_MSG_STOP ? known : 0};
    if (type == HSP_MSG_RELEASE) {
        m.u.release = (struct hsp_m_release){.job = 4, .keep_plan = 3, .known = known};
    } else {
        m.u.devref.job = 4;
    }
    aw_from_daemon(w, m);
    bool deletes = aw_sent(w, HSP_AACT_SEND_EXEC, type) != NULL; /* the executor does */
    assert_null(aw_find(w, HSP_AACT_DISCARD));
    assert_int_equal(deletes, aw_count(w, HSP_AACT_DISCONNECT) == 0);
    return deletes;
}

/* The node keeps state of more jobs than a HELLO may name. The HELLO offers no pieces of the jobs
 * that it does not list. */
static void no_more_jobs_than_a_hello_names(void **state)
{
    (void)state;
    enum { N = HSP_MSG_KEPT + 6 };
    struct aw_world w;
    struct hsp_m_kept kept[HSP_MSG_KEPT];
    struct hsp_m_holding h[N];
    for (uint32_t i = 0; i < N; i++) {
        h[i] = (struct hsp_m_holding){.job = 100 + i, .plan = 1, .version = 4};
        if (i < HSP_MSG_KEPT) {
            kept[i] = (struct hsp_m_kept){.job = 100 + i, .name = ""};
        }
    }
    aw_begin(&w);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    w.now += 5000;
    aw_tick(&w);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_SCANNED,
                                         .scan = aw_find(&w, HSP_AACT_SCAN)->scan,
                                         .n = N,
                                         .holdings = h,
                                         .n_kept = HSP_MSG_KEPT,
                                         .kept = kept});
    const struct hsp_msg *m = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_HELLO);
    assert_int_equal(m->u.hello.n_kept, HSP_MSG_KEPT);
    assert_int_equal(m->u.hello.n_holdings, HSP_MSG_KEPT);
    assert_int_equal(m->u.hello.holdings[HSP_MSG_KEPT - 1].job, 99 + HSP_MSG_KEPT);
    (void)hsp_agent_free(w.a);
}

/* The node keeps more pieces than a message may name. The message omits the oldest pieces, and the
 * log says so. */
static void no_more_pieces_than_a_message_names(void **state)
{
    (void)state;
    enum { N = HSP_MSG_HOLDINGS + 6 };
    struct aw_world w;
    struct hsp_m_kept kept = {.job = 9, .name = ""};
    struct hsp_m_holding *h = calloc(N, sizeof(*h));
    assert_non_null(h);
    for (uint32_t i = 0; i < N; i++) {
        h[i] = (struct hsp_m_holding){.job = 9, .plan = 1, .version = N - i};
    }
    aw_begin(&w);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    w.now += 5000;
    aw_tick(&w);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_SCANNED,
                                         .scan = aw_find(&w, HSP_AACT_SCAN)->scan,
                                         .n = N,
                                         .holdings = h,
                                         .n_kept = 1,
                                         .kept = &kept});
    const struct hsp_msg *m = aw_sent(&w, HSP_AACT_SEND, HSP_MSG_HELLO);
    assert_int_equal(m->u.hello.n_holdings, HSP_MSG_HOLDINGS);
    assert_int_equal(m->u.hello.holdings[HSP_MSG_HOLDINGS - 1].version, 7);
    assert_non_null(
        strstr(aw_find(&w, HSP_AACT_LOG)->text,
               "32774 pieces of state are here, and only the newest 32768 are reported to hspmdd"));
    (void)hsp_agent_free(w.a);
    free(h);
}

static void who_may_have_it_deleted(void **state)
{
    (void)state;
    static const struct {
        struct hsp_digest of, by;
        uint64_t generation, by_generation, epoch, known;
        bool may;
    } cases[] = {
        {{1, 1}, {1, 1}, 5, 5, 9, 9, true},
        {{1, 1}, {1, 1}, 5, 5, 9, 8, false},  /* epoch 9 is not its own */
        {{1, 1}, {2, 2}, 5, 5, 9, 99, false}, /* of another cluster */
        {{0, 0}, {2, 2}, 0, 5, 0, 1, true},   /* of a program that knew of none */
        {{1, 1}, {1, 1}, (uint64_t)1 << 32, 5, 9, 9, false},
        {{1, 1}, {1, 1}, 5, (uint64_t)1 << 32, 9, 9, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            struct aw_world w;
            struct hsp_m_kept kept = {.job = 4,
                                      .name = "mist",
                                      .cluster = cases[i].of,
                                      .generation = cases[i].generation,
                                      .epoch = cases[i].epoch,
                                      .plan = 2};
            aw_begin(&w);
            meet(&w, &kept, 1, cases[i].by, cases[i].by_generation);
            assert_int_equal(obeys(&w, k == 0 ? HSP_MSG_STOP : HSP_MSG_RELEASE, cases[i].known),
                             cases[i].may);
            hsp_agent_free(w.a);
        }
    }
}

/* Job 4 is not among the jobs that the scan has listed. The agent may delete job 4 only if the list
 * has all jobs. */
static void a_job_that_no_scan_lists(void **state)
{
    (void)state;
    for (int more = 0; more < 3; more++) {
        struct aw_world w;
        struct hsp_m_kept kept[HSP_MSG_KEPT];
        for (uint32_t i = 0; i < HSP_MSG_KEPT; i++) {
            kept[i] = (struct hsp_m_kept){.job = 100 + i, .name = "", .cluster = mine, .epoch = 2};
        }
        aw_begin(&w);
        w.kept_more = more == 1;
        meet(&w, kept, HSP_MSG_KEPT, mine, 5);
        if (more == 2) { /* jobs in use are listed first; one that is found has no room */
            w.a->dev[1].run = (struct hsp_m_run){.job = 100, .running = 1};
            kept[0].job = 99;
            meet(&w, kept, HSP_MSG_KEPT, mine, 5);
        }
        assert_int_equal(obeys(&w, HSP_MSG_STOP, 9), more == 0);
        hsp_agent_free(w.a);
    }
}

static void prepare(struct aw_world *w, uint64_t epoch, struct hsp_digest id)
{
    aw_from_daemon(
        w, (struct hsp_msg){
               .type = HSP_MSG_PREPARE,
               .epoch = epoch,
               .u.prepare = {.job = 4, .cluster = id, .n_ranks = 1, .n_peers = 1, .plan = 7}});
}

/* From PREPARE on the agent counts an epoch as state that it keeps, though the folder holds no file
 * of that epoch yet. So the agent refuses older epochs, and jobs of another cluster. */
static void what_is_prepared_is_kept(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_m_kept found = {.job = 4, .name = "", .plan = 7};
    aw_begin(&w);
    meet(&w, NULL, 0, mine, 5);
    prepare(&w, 3, mine);
    assert_non_null(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_PREPARE));
    meet(&w, &found, 1, mine, 5);
    assert_false(obeys(&w, HSP_MSG_STOP, 2));
    meet(&w, &found, 1, mine, 5);
    prepare(&w, 2, mine); /* the agent has seen epoch 3 */
    assert_string_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_PREPARE_FAILED)->u.failed.reason,
                        "this node has seen epoch 3 of the job, which is newer than 2");
    meet(&w, &found, 1, other, 5);
    prepare(&w, 9, other);
    assert_string_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_PREPARE_FAILED)->u.failed.reason,
                        "this node stores state of a job of this number of another cluster; node "
                        "discard deletes it");
    hsp_agent_free(w.a);
}

/* A parked node reports nothing of its jobs to the other coordinator. When its own coordinator is
 * back, its HELLO names the cluster, generation and incarnation that it had before. */
static void a_parked_node(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_m_kept found = {.job = 4, .name = "", .plan = 7};
    aw_begin(&w);
    meet(&w, NULL, 0, mine, 5);
    prepare(&w, 3, mine);
    aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_READY, .epoch = 3, .u.ready.job = 4});
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_START, .epoch = 3, .u.start = {.job = 4}});
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    w.now += 100;
    aw_beats(&w);
    aw_tick(&w);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_step(&w, (struct hsp_agent_event){
                    .type = HSP_AEV_SCANNED, .scan = w.scan, .n_kept = 1, .kept = &found});
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_PARKED,
                                        .u.parked = {.cluster = other,
                                                     .generation = 8,
                                                     .heartbeat_ms = 200,
                                                     .dead_ms = 3000,
                                                     .reason = "foreign"}});
    assert_int_equal(hsp_agent_link_state(w.a), HSP_LINK_PARKED);
    for (uint32_t i = 0; i < 5; i++) {
        w.now += 200;
        aw_beats(&w);
        aw_from_exec(&w, 0, (struct hsp_msg){.type = HSP_MSG_STEP, .epoch = 3, .u.step.job = 4});
        assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STEP));
        aw_tick(&w);
        aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_HEARTBEAT});
    }
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_STOP, .epoch = 99, .u.devref.job = 4});
    assert_int_equal(w.acts.n, 0);
    aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_FENCED,
                                        .u.fenced = {.cluster = other, .reason = "two of a name"}});
    assert_int_equal(aw_count(&w, HSP_AACT_KILL), 0);
    assert_int_equal(hsp_agent_device_at(w.a, 0)->run.running, 3);
    w.now += 3000;
    aw_beats(&w);
    aw_tick(&w);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    w.now += 3000;
    aw_beats(&w);
    aw_tick(&w);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_step(&w, (struct hsp_agent_event){
                    .type = HSP_AEV_SCANNED, .scan = w.scan, .n_kept = 1, .kept = &found});
    const struct hsp_m_hello *h = &aw_sent(&w, HSP_AACT_SEND, HSP_MSG_HELLO)->u.hello;
    assert_true(hsp_digest_equal(h->cluster, mine) && h->generation == 5 && h->incarnation.lo == 1);
    assert_int_equal(h->n_kept, 1);
    assert_int_equal(h->kept[0].epoch, 3);
    assert_true(hsp_digest_equal(h->kept[0].cluster, mine));
    hsp_agent_free(w.a);
}

/* hspmdd sends the papers of job 4, which cluster @from may have owned before cluster @id. */
static void keep_papers(struct aw_world *w, uint64_t epoch, struct hsp_digest id,
                        struct hsp_digest from)
{
    static const uint8_t blob[] = "papers";
    aw_from_daemon(w, (struct hsp_msg){.type = HSP_MSG_PAPERS,
                                       .epoch = epoch,
                                       .blob = blob,
                                       .blob_len = 6,
                                       .u.papers = {

                                           .job = 4,
                                           .what = HSP_PAPERS_KEEP,
                                           .cluster = id,
                                           .from = from,
                                           .generation = 5,
                                           .reason = ""}});
}

/* The agent keeps the papers that come with an epoch. When another coordinator has adopted the job,
 * the job belongs to the cluster of that coordinator, and the papers beside the state say so. */
static void papers_come_with_an_epoch(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_m_kept found = {.job = 4, .name = "", .cluster = mine, .plan = 7};
    const struct hsp_digest none = {0, 0};
    aw_begin(&w);
    meet(&w, NULL, 0, mine, 5);
    keep_papers(&w, 3, mine, none);
    const struct hsp_agent_action *x = aw_find(&w, HSP_AACT_KEEP_PAPERS);
    assert_true(x != NULL && x->msg->u.papers.job == 4 && x->msg->blob_len == 6);
    keep_papers(&w, 3, other, none);
    assert_null(aw_find(&w, HSP_AACT_KEEP_PAPERS));
    /* another coordinator, that has a job of this number; then one that has adopted this one */
    meet(&w, &found, 1, other, 5);
    keep_papers(&w, 9, other, none);
    assert_null(aw_find(&w, HSP_AACT_KEEP_PAPERS));
    assert_false(obeys(&w, HSP_MSG_STOP, 9));
    meet(&w, &found, 1, other, 5);
    keep_papers(&w, 1000000, other, mine);
    assert_non_null(aw_find(&w, HSP_AACT_KEEP_PAPERS));
    assert_true(obeys(&w, HSP_MSG_STOP, 1000000));
    hsp_agent_free(w.a);
}

/* When an epoch that was only prepared is dropped, the agent deletes the papers of that epoch.
 * Papers of the next epoch, which have come meanwhile, stay. */
static void papers_of_a_dropped_epoch(void **state)
{
    (void)state;
    const struct hsp_digest none = {0, 0};
    for (uint64_t next = 0; next < 2; next++) {
        struct aw_world w;
        aw_begin(&w);
        meet(&w, NULL, 0, mine, 5);
        keep_papers(&w, 3, mine, none);
        prepare(&w, 3, mine);
        aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_DROP, .epoch = 3, .u.devref.job = 4});
        if (next == 1) {
            keep_papers(&w, 4, mine, none);
        }
        aw_from_exec(&w, 0,
                     (struct hsp_msg){.type = HSP_MSG_DROPPED, .epoch = 3, .u.devref.job = 4});
        const struct hsp_agent_action *x = aw_find(&w, HSP_AACT_DROP_PAPERS);
        assert_int_equal(x == NULL, next == 1);
        assert_true(x == NULL || x->job == 4);
        hsp_agent_free(w.a);
    }
}

/* Returns the jobs whose papers the last step of the machine has deleted, as a sum of powers of
 * two. */
static uint32_t jobs_tidied(const struct aw_world *w)
{
    uint32_t jobs = 0;
    for (uint32_t i = 0; i < w->acts.n; i++) {
        const struct hsp_agent_action *x = &w->acts.item[i];
        jobs += x->type == HSP_AACT_DROP_PAPERS ? 1u << x->job : 0;
    }
    return jobs;
}

/* hspmdd drops job 4 and prepares and drops job 5, before the executor has answered the first DROP.
 * The executor answers both, or ends before it answers. */
static void papers_of_two_dropped_jobs(void **state)
{
    (void)state;
    for (uint32_t ends = 0; ends < 2; ends++) {
        struct aw_world w;
        aw_begin(&w);
        aw_link_up(&w, 1, 1);
        for (uint32_t job = 4; job < 6; job++) {
            aw_prepare(&w, 0, job, 3);
            aw_from_daemon(
                &w, (struct hsp_msg){.type = HSP_MSG_DROP, .epoch = 3, .u.devref = {job, 0}});
        }
        for (uint32_t job = 4; ends == 0 && job < 6; job++) {
            aw_from_exec(
                &w, 0, (struct hsp_msg){.type = HSP_MSG_DROPPED, .epoch = 3, .u.devref = {job, 0}});
            assert_int_equal(jobs_tidied(&w), 1u << job);
        }
        if (ends == 1) {
            aw_exit_of(&w, 0);
            w.now += 1000;
            aw_from_exec(&w, 0,
                         (struct hsp_msg){.type = HSP_MSG_EXECUTOR_UP, .u.up = {.address = "b"}});
            assert_int_equal(jobs_tidied(&w), 1u << 4 | 1u << 5);
        }
        hsp_agent_free(w.a);
    }
}

static void order(struct aw_world *w, uint16_t type, uint32_t device)
{
    struct hsp_msg m = {.type = type, .epoch = 3, .u.devref = {4, device}};
    if (type == HSP_MSG_RELEASE) {
        m.u.release = (struct hsp_m_release){4, device, UINT64_MAX, 3};
    }
    aw_from_daemon(w, m);
    assert_non_null(aw_sent(w, HSP_AACT_SEND_EXEC, type));
    assert_null(aw_find(w, HSP_AACT_DROP_PAPERS));
}

/* The executor of @device sends @answer, which must reach hspmdd. Returns true if the agent deletes
 * the papers. */
static bool papers_go_with(struct aw_world *w, uint16_t answer, uint32_t device)
{
    aw_from_exec(w, device, (struct hsp_msg){.type = answer, .epoch = 3, .u.devref = {4, device}});
    const struct hsp_agent_action *x = aw_find(w, HSP_AACT_DROP_PAPERS);
    assert_non_null(aw_sent(w, HSP_AACT_SEND, answer));
    assert_true(x == NULL || x->job == 4);
    return x != NULL;
}

/* The shell may still write papers that came before an order when an executor has already deleted
 * the state. So the agent deletes the papers with the last answer of the node, and the shell
 * performs writes and deletions in order. Papers of a newer epoch stay. */
static void papers_go_when_all_have_obeyed(void **state)
{
    (void)state;
    const struct hsp_digest none = {0, 0}; /* of aw_run_job */
    for (uint64_t next = 0; next < 2; next++) {
        struct aw_world w;
        aw_begin(&w);
        aw_link_up(&w, 1, 1);
        keep_papers(&w, 3, none, none);
        aw_run_job(&w, 0, 4, 3);
        aw_run_job(&w, 1, 4, 3);
        order(&w, HSP_MSG_RELEASE, 0);
        order(&w, HSP_MSG_STOP, 0); /* the answer of the RELEASE is not its own */
        order(&w, HSP_MSG_STOP, 1);
        assert_false(papers_go_with(&w, HSP_MSG_RELEASED, 0));
        assert_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STOPPED));
        assert_false(papers_go_with(&w, HSP_MSG_STOPPED, 0));
        if (next == 1) {
            keep_papers(&w, 4, none, none);
        }
        assert_int_equal(papers_go_with(&w, HSP_MSG_STOPPED, 1), next == 0);
        hsp_agent_free(w.a);
    }
}

/* The executor dies before it has obeyed. The agent deletes the segments, then the papers. */
static void papers_go_when_the_executor_has_died(void **state)
{
    (void)state;
    const struct hsp_digest none = {0, 0}; /* of aw_run_job */
    struct aw_world w;
    aw_begin(&w);
    aw_link_up(&w, 1, 1);
    keep_papers(&w, 3, none, none);
    aw_run_job(&w, 0, 4, 3);
    order(&w, HSP_MSG_STOP, 0);
    order(&w, HSP_MSG_RELEASE, 0); /* which takes nothing from the STOP */
    aw_exit_of(&w, 0);
    const struct hsp_agent_action *x = aw_find(&w, HSP_AACT_DISCARD);
    assert_true(x != NULL && x->job == 4 && x->keep_plan == UINT64_MAX);
    assert_true(x < aw_find(&w, HSP_AACT_DROP_PAPERS));
    assert_non_null(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_STOPPED));
    hsp_agent_free(w.a);
}

/* The agent sends the papers of a job to any coordinator that asks, also when the node is parked
 * there. */
static void papers_are_told(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_m_kept found = {.job = 4, .name = "", .cluster = mine, .plan = 7};
    struct hsp_msg ask = {.type = HSP_MSG_PAPERS,
                          .u.papers = {.job = 4, .what = HSP_PAPERS_ASK, .reason = ""}};
    struct hsp_msg told = {.type = HSP_MSG_PAPERS,
                           .blob = (const uint8_t *)"x",
                           .blob_len = 1,
                           .u.papers = {.job = 4, .what = HSP_PAPERS_TOLD, .reason = ""}};
    aw_begin(&w);
    meet(&w, &found, 1, mine, 5);
    for (uint32_t parked = 0; parked < 2; parked++) {
        aw_from_daemon(&w, ask);
        assert_int_equal(aw_find(&w, HSP_AACT_READ_PAPERS)->msg->u.papers.job, 4);
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_PAPERS, .msg = &told});
        assert_int_equal(aw_sent(&w, HSP_AACT_SEND, HSP_MSG_PAPERS)->blob_len, 1);
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
        w.now += 5000;
        aw_tick(&w);
        aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
        aw_from_daemon(&w, ask); /* before its hello it says nothing */
        assert_null(aw_find(&w, HSP_AACT_READ_PAPERS));
        aw_step(&w, (struct hsp_agent_event){
                        .type = HSP_AEV_SCANNED, .scan = w.scan, .n_kept = 1, .kept = &found});
        assert_int_equal(hsp_agent_link_state(w.a), HSP_LINK_HELLO);
        aw_from_daemon(&w, ask); /* which passes PARKED while that waits for a row of hspmdd */
        assert_non_null(aw_find(&w, HSP_AACT_READ_PAPERS));
        aw_from_daemon(&w, (struct hsp_msg){.type = HSP_MSG_PARKED,
                                            .u.parked = {.cluster = other,
                                                         .heartbeat_ms = 200,
                                                         .dead_ms = 3000,
                                                         .reason = "foreign"}});
        assert_int_equal(hsp_agent_link_state(w.a), HSP_LINK_PARKED);
    }
    keep_papers(&w, 9, other, mine); /* no member's */
    assert_null(aw_find(&w, HSP_AACT_KEEP_PAPERS));
    hsp_agent_free(w.a);
}

/* hspmdd begins another generation while the node is a member. From then on the node obeys that
 * generation. */
static void a_generation_begins(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_msg again = {.type = HSP_MSG_WELCOME,
                            .u.welcome = {.protocol = HSP_PROTO_VERSION,
                                          .cluster = mine,
                                          .generation = (uint64_t)1 << 32,
                                          .term = 1000000,
                                          .incarnation = {1, 1},
                                          .heartbeat_ms = 500,
                                          .dead_ms = 3000}};
    struct hsp_m_kept found = {
        .job = 4, .name = "", .cluster = mine, .generation = (uint64_t)1 << 32, .plan = 7};
    aw_begin(&w);
    meet(&w, &found, 1, mine, 5);
    aw_from_daemon(&w, again);
    assert_true(obeys(&w, HSP_MSG_STOP, 1));
    again.u.welcome.cluster = other; /* nobody's: it has not said hello to that one */
    again.u.welcome.generation = (uint64_t)2 << 32;
    aw_from_daemon(&w, again);
    found.generation = (uint64_t)2 << 32;
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    w.now += 100;
    aw_beats(&w);
    aw_tick(&w);
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_UP});
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_SCANNED, .scan = w.scan});
    const struct hsp_m_hello *h = &aw_sent(&w, HSP_AACT_SEND, HSP_MSG_HELLO)->u.hello;
    assert_true(hsp_digest_equal(h->cluster, mine) && h->generation == (uint64_t)1 << 32);
    assert_int_equal(h->term, 1000000);
    hsp_agent_free(w.a);
}

/* An administrator deletes state of a parked node: only the state of the named job of the named
 * cluster goes. */
static void what_is_discarded(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_m_kept found = {.job = 4, .name = "", .cluster = mine, .plan = 7};
    struct hsp_msg m = {
        .type = HSP_MSG_PAPERS,
        .u.papers = {.job = 4, .what = HSP_PAPERS_DISCARD, .cluster = other, .reason = ""}};
    aw_begin(&w);
    meet(&w, &found, 1, mine, 5);
    aw_from_daemon(&w, m);
    m.u.papers.job = 5;
    m.u.papers.cluster = mine;
    aw_from_daemon(&w, m);
    assert_null(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_STOP));
    assert_null(aw_find(&w, HSP_AACT_DISCONNECT));
    m.u.papers.job = 4;
    aw_from_daemon(&w, m);
    bool told = aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_STOP) != NULL;
    assert_true(told || aw_find(&w, HSP_AACT_DISCARD) != NULL);
    if (told) { /* when its executors have, the agent says hello again */
        assert_null(aw_find(&w, HSP_AACT_DISCONNECT));
        for (uint32_t d = 0; hsp_agent_device_at(w.a, d) != NULL; d++) {
            aw_from_exec(
                &w, d,
                (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref = {.job = 4, .device = d}});
        }
    }
    assert_non_null(aw_find(&w, HSP_AACT_DISCONNECT));
    hsp_agent_free(w.a);
}

/* The connection ends while executors still stop the discarded jobs. The agent connects again. */
static void the_connection_ends_while_it_discards(void **state)
{
    (void)state;
    struct aw_world w;
    struct hsp_m_kept found = {.job = 4, .name = "", .cluster = mine, .plan = 7};
    aw_begin(&w);
    meet(&w, &found, 1, mine, 5);
    aw_from_daemon(
        &w, (struct hsp_msg){
                .type = HSP_MSG_PAPERS,
                .u.papers = {.job = 4, .what = HSP_PAPERS_DISCARD, .cluster = mine, .reason = ""}});
    assert_non_null(aw_sent(&w, HSP_AACT_SEND_EXEC, HSP_MSG_STOP));
    aw_step(&w, (struct hsp_agent_event){.type = HSP_AEV_CONN_DOWN, .text = "reset"});
    for (uint32_t d = 0; hsp_agent_device_at(w.a, d) != NULL; d++) {
        aw_from_exec(
            &w, d, (struct hsp_msg){.type = HSP_MSG_STOPPED, .u.devref = {.job = 4, .device = d}});
    }
    assert_null(aw_find(&w, HSP_AACT_DISCONNECT));
    w.now += 400; /* the first pauses are shorter */
    aw_tick(&w);
    assert_non_null(aw_find(&w, HSP_AACT_CONNECT));
    hsp_agent_free(w.a);
}

HSP_TEST_FILE(keeping_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_more_pieces_than_a_message_names),
        cmocka_unit_test(who_may_have_it_deleted),
        cmocka_unit_test(a_job_that_no_scan_lists),
        cmocka_unit_test(what_is_prepared_is_kept),
        cmocka_unit_test(a_parked_node),
        cmocka_unit_test(no_more_jobs_than_a_hello_names),
        cmocka_unit_test(papers_come_with_an_epoch),
        cmocka_unit_test(papers_of_a_dropped_epoch),
        cmocka_unit_test(papers_of_two_dropped_jobs),
        cmocka_unit_test(papers_go_when_all_have_obeyed),
        cmocka_unit_test(papers_go_when_the_executor_has_died),
        cmocka_unit_test(papers_are_told),
        cmocka_unit_test(a_generation_begins),
        cmocka_unit_test(what_is_discarded),
        cmocka_unit_test(the_connection_ends_while_it_discards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
