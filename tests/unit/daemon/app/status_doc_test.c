/* Tests the status document: its part about jobs, nodes and facts that the core knows. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "daemon/app/docs/status_doc.h"
#include "daemon/app/feed/metrics_collect.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/parked.h"
#include "proto/base/size.h"
#include "tests/unit/daemon/app/app_lib.h"
#include "tests/unit/daemon/app/status_lib.h"

static void transports_of_the_epoch_that_runs(void **state)
{
    (void)state;
    struct hsp_app *a = status_app(2);
    struct hsp_epoch_peer peers[2] = {{.device = HSP_DEVICE(0, 0)}, {.device = HSP_DEVICE(1, 0)}};
    struct hsp_job j = {.id = 1,
                        .name = "j",
                        .state = HSP_JOB_RUNNING,
                        .data_path = (char[]){""},
                        .checkpoint_path = (char[]){""},
                        .cur = {.epoch = 3,
                                .n_ranks = 2,
                                .n_peers = 2,
                                .peers = peers,
                                .data_tls = true,
                                .links = {.shm = 2, .local = 3, .tls = 4, .tcp = 5}}};
    a->cluster->jobs[a->cluster->n_jobs++] = &j;
    cJSON *all, *doc = status_job(a, &all);
    const cJSON *t = cJSON_GetObjectItemCaseSensitive(doc, "transport");
    assert_true(status_number(t, "shm") == 2 && status_number(t, "unix") == 3);
    assert_true(status_number(t, "tls") == 4 && status_number(t, "tcp") == 5);
    cJSON_Delete(all);
    j.cur.links = (struct hsp_links){0}; /* alone, or begun before they were told of */
    doc = status_job(a, &all);
    assert_null(cJSON_GetObjectItemCaseSensitive(doc, "transport"));
    assert_string_equal(status_text(doc, "data_plane"), "tls");
    cJSON_Delete(all);
    a->cluster->cfg.data_tls = true;
    a->insecure = true;
    doc = status_job(a, &all);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(all, "insecure_loopback")));
    assert_string_equal(status_text(doc, "nccl_between_hosts"), "none");
    assert_null(status_text(doc, "trusted_network"));
    assert_string_equal(status_text(all, "nccl_between_hosts"), "none"); /* of the next epoch */
    cJSON_Delete(all);
    (void)snprintf(j.cur.trusted, sizeof j.cur.trusted, "10.0.0.0/8");
    a->cluster->cfg.trusted = "10.0.0.0/8, fd00::/8";
    doc = status_job(a, &all);
    assert_string_equal(status_text(doc, "nccl_between_hosts"), "clear");
    assert_string_equal(status_text(doc, "trusted_network"), "10.0.0.0/8");
    assert_string_equal(status_text(all, "trusted_network"), "10.0.0.0/8, fd00::/8");
    cJSON_Delete(all);
    a->cluster->cfg.data_tls = false;
    doc = status_job(a, &all);
    assert_string_equal(status_text(all, "nccl_between_hosts"), "clear");
    assert_null(status_text(all, "trusted_network"));
    cJSON_Delete(all);
    status_app_end(a);
}

/* Reasons: of agents that are no members, of an hspmdd that is behind, of a drain that waits. */
static void nodes_that_are_no_members(void **state)
{
    (void)state;
    static const char *const states[] = {"foreign", "ahead", "unproven", "waiting"};
    struct hsp_app *a = status_app(1);
    struct hsp_job j = {.id = 1,
                        .name = "j",
                        .state = HSP_JOB_BEHIND,
                        .data_path = (char[]){""},
                        .checkpoint_path = (char[]){""}};
    struct hsp_job known = {.id = 2,
                            .name = "k",
                            .next_epoch = 9,
                            .next_plan = 9,
                            .data_path = (char[]){""},
                            .checkpoint_path = (char[]){""}};
    struct hsp_parked_job keeps[] = {{.name = "k", .job = 2, .cluster = {7, 8}, .epoch = 1},
                                     {.name = "j", .job = 1, .cluster = {7, 8}, .epoch = 1},
                                     {.name = "m", .job = 3, .cluster = {7, 9}, .epoch = 1}};
    struct hsp_parked parked[] = {
        {.name = "p0", .conn = 5, .as = HSP_PARKED_FOREIGN, .n_jobs = 3, .jobs = keeps},
        {.name = "p1", .as = HSP_PARKED_AHEAD, .ahead = true},
        {.name = "p2", .as = HSP_PARKED_UNPROVEN, .ahead = true},
        {.name = "p3", .as = HSP_PARKED_WAITS}};
    a->cluster->id = (struct hsp_digest){7, 8};
    a->cluster->jobs[a->cluster->n_jobs++] = &j;
    a->cluster->jobs[a->cluster->n_jobs++] = &known;
    a->cluster->nodes[0].draining = true;
    a->cluster->nodes[0].state = HSP_NODE_LIVE;
    a->cluster->nodes[0].dev[0].job = 1;
    a->cluster->parked = parked;
    a->cluster->n_parked = 4;
    a->cluster->behind = true;
    (void)snprintf(a->cluster->behind_why, sizeof a->cluster->behind_why, "why");
    cJSON *all = status_of(a, "");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(all, "nodes");
    assert_string_equal(status_text(cJSON_GetArrayItem(list, 0), "waits"),
                        "waits: job j is behind and stays here");
    assert_string_equal(status_text(cJSON_GetArrayItem(list, 0), "state"), "draining");
    for (int i = 0; i < 4; i++) {
        assert_string_equal(status_text(cJSON_GetArrayItem(list, 1 + i), "state"), states[i]);
    }
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(list, 1), "keeps");
    for (int i = 0; i < 3; i++) { /* only k is known here: j is behind, and may be adopted */
        const cJSON *k = cJSON_GetArrayItem(of, i);
        assert_int_equal(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(k, "on_record")), i == 0);
    }
    list = cJSON_GetObjectItemCaseSensitive(all, "behind_by");
    assert_int_equal(cJSON_GetArraySize(list), 1);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(list, 0)), "p1");
    cJSON_Delete(all);
    struct hsp_err err = {0};
    assert_true(hsp_cluster_parked_keeps(a->cluster, "m", &err));
    assert_err(&err, HSP_ENOENT,
               "job m is not known here: agents that are not members store its state, p0: if "
               "state_dir is right, hspmdctl job adopt m takes it over, node discard deletes it");
    assert_true(hsp_cluster_parked_keeps(a->cluster, "3", &err));
    assert_false(hsp_cluster_parked_keeps(a->cluster, "p0", &err));
    a->cluster->parked = NULL;
    a->cluster->n_parked = 0;
    status_app_end(a);
}

/* A drain that has ended is told from one that has not, and a node that has gone is gone. */
static void a_drain_that_has_ended(void **state)
{
    (void)state;
    static const char *const words[] = {"drained", "dead"};
    struct hsp_app *a = status_app(2);
    for (uint32_t i = 0; i < 2; i++) {
        a->cluster->nodes[i].draining = true;
        a->cluster->nodes[i].state = i == 0 ? HSP_NODE_LIVE : HSP_NODE_DEAD;
    }
    cJSON *all = status_of(a, "");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(all, "nodes");
    for (int i = 0; i < 2; i++) {
        const cJSON *n = cJSON_GetArrayItem(list, i);
        assert_string_equal(status_text(n, "state"), words[i]);
        assert_null(status_text(n, "waits"));
        assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(n, "draining")));
    }
    cJSON_Delete(all);
    status_app_end(a);
}

/* /metrics counts faults that need somebody, as status shows them; jobs of one name have their own
 * lines. */
static void what_needs_somebody_is_counted(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "hspmd_nodes{state=\"foreign\"} 2\n",
        "hspmd_nodes{state=\"unproven\"} 1\n",
        "hspmd_nodes{state=\"waiting\"} 0\n",
        "hspmd_nodes{state=\"away\"} 1\n",
        "hspmd_jobs{state=\"behind\"} 1\n",
        "hspmd_jobs{state=\"foreign\"} 1\n",
        "hspmd_jobs{state=\"failed\"} 1\n",
        "hspmd_jobs{state=\"paused\"} 1\n",
        "hspmd_jobs_held 1\n",
        "hspmd_job_step{job=\"tiny\",job_id=\"1\"} 11\n",
        "hspmd_job_step{job=\"tiny\",job_id=\"2\"} 22\n",
        "hspmd_job_step_seconds_count{job=\"tiny\",job_id=\"2\"} 0\n",
        "hspmd_gpu_info{node=\"a\",index=\"0\",model=\"\",job=\"tiny\",job_id=\"2\"} 1\n"};
    struct hsp_app *a = status_app(1);
    struct hsp_job_rec *rec = app_job("", 0, NULL);
    struct hsp_job jobs[] = {
        {.id = 1, .name = "tiny", .state = HSP_JOB_BEHIND, .stable = 11},
        {.id = 2, .name = "tiny", .state = HSP_JOB_PAUSED, .stable = 22, .doubted = true},
        {.id = 3, .name = "over", .state = HSP_JOB_FAILED},
        {.id = 4, .name = "x", .state = HSP_JOB_BEHIND, .unrecorded = true, .from = {1, 2}}};
    struct hsp_app_job told[] = {{.id = 1, .rec = rec}, {.id = 2, .rec = rec}};
    struct hsp_parked parked[] = {{.name = "p0", .as = HSP_PARKED_FOREIGN},
                                  {.name = "p1", .as = HSP_PARKED_FOREIGN},
                                  {.name = "p2", .as = HSP_PARKED_UNPROVEN}};
    struct hsp_buf b;
    a->cluster->parked = parked;
    a->cluster->n_parked = 3;
    a->cluster->nodes[0].dev[0].job = 2;
    a->jobs = told;
    a->n_jobs = 2;
    for (int i = 0; i < 4; i++) {
        a->cluster->jobs[a->cluster->n_jobs++] = &jobs[i];
    }
    hsp_buf_init(&b, 1u << 20);
    hsp_app_http_calls.metrics(a, &b);
    assert_false(b.failed);
    for (size_t i = 0; i < HSP_ARRAY_LEN(lines); i++) {
        if (strstr(hsp_buf_cstr(&b), lines[i]) == NULL) {
            fail_msg("no %s in %s", lines[i], hsp_buf_cstr(&b));
        }
    }
    hsp_buf_fini(&b);
    (void)hsp_job_rec_unref(rec);
    a->cluster->parked = NULL;
    a->cluster->n_parked = 0;
    status_app_end(a);
}

/* Reports of drivers about GPUs, and the states that agents derive from them. */
static void gpus_of_a_node(void **state)
{
    (void)state;
    struct hsp_app *a = status_app(1);
    struct hsp_device_note note = {
        .model = "NVIDIA H200", .uuid = "GPU-1", .cpus = "0-7", .sm = 90, .why = "XID 74"};
    struct hsp_m_path path = {0, 1, HSP_PATH_NVLINK, 4, 8e10, 0};
    struct hsp_cluster_node *n = &a->cluster->nodes[0];
    n->dev[1] = n->dev[0];
    n->dev[1].note = &note;
    n->dev[1].profile.gemm_bf16_flops = 8e14;
    n->dev[1].gemm_part[HSP_RATE_BF16 * HSP_N_GEMM_CLASSES + HSP_GEMM_FEW] = 0.125;
    n->dev[1].health = HSP_HEALTH_CORDON;
    n->paths = &path;
    n->n_paths = 1;
    cJSON *all = status_of(a, "");
    const cJSON *o = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(all, "nodes"), 0);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "devices");
    const cJSON *d = cJSON_GetArrayItem(list, 0);
    assert_string_equal(status_text(d, "health"), "fine");
    assert_string_equal(status_text(d, "reason"), "");
    assert_null(status_text(d, "model"));
    d = cJSON_GetArrayItem(list, 1);
    assert_string_equal(status_text(d, "health"), "cordoned");
    assert_string_equal(status_text(d, "reason"), "XID 74");
    assert_string_equal(status_text(d, "model"), "NVIDIA H200");
    assert_string_equal(status_text(d, "compute_capability"), "9.0");
    assert_string_equal(status_text(d, "near_processors"), "0-7");
    const cJSON *products = cJSON_GetObjectItemCaseSensitive(d, "products");
    const cJSON *bf16 = cJSON_GetObjectItemCaseSensitive(products, "bf16");
    assert_true(status_number(bf16, "even") == 8e14 && status_number(bf16, "few") == 1e14);
    assert_int_equal(cJSON_GetArraySize(bf16), 2); /* of the others nothing is known */
    assert_null(cJSON_GetObjectItemCaseSensitive(products, "tf32"));
    d = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(o, "paths"), 0);
    assert_string_equal(status_text(d, "kind"), "nvlink");
    assert_true(status_number(d, "links") == 4 && status_number(d, "bytes_per_second") == 8e10);
    cJSON_Delete(all);
    n->dev[1].note = NULL;
    n->paths = NULL;
    status_app_end(a);
}

/* REASON of a node whose agent, or another one, is refused. */
static char *reason_of_node(struct hsp_app *a, char *ret, size_t size)
{
    cJSON *all = status_of(a, "");
    const cJSON *n = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(all, "nodes"), 0);
    (void)snprintf(ret, size, "%s", status_text(n, "reason"));
    cJSON_Delete(all);
    return ret;
}

static void agents_that_are_refused(void **state)
{
    (void)state;
    struct hsp_app *a = status_app(1);
    const struct hsp_net_peer peer = {.name = "10.0.0.7:44", .role = HSP_ROLE_WORKER, .source = 7};
    const struct hsp_refusal *x;
    char reason[400];
    struct hsp_cluster_node *n = &a->cluster->nodes[0];
    n->source = 7;
    n->conn = 0;
    (void)snprintf(n->reason, sizeof n->reason, "silent");
    assert_string_equal(reason_of_node(a, reason, sizeof reason), "silent");
    (void)hsp_refusals_note(&a->refusals, &peer, hsp_app_now(), &x);
    assert_non_null(strstr(reason_of_node(a, reason, sizeof reason),
                           "silent; an agent at 10.0.0.7 is refused: its worker key"));
    cJSON *all = status_of(a, "");
    const cJSON *r = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(all, "refused"), 0);
    assert_string_equal(status_text(r, "address"), "10.0.0.7");
    assert_string_equal(status_text(r, "key"), "worker");
    cJSON_Delete(all);
    n->conn = 5; /* back; another host has its name */
    n->reason[0] = '\0';
    assert_string_equal(reason_of_node(a, reason, sizeof reason), "");
    (void)snprintf(n->namesake.peer, sizeof n->namesake.peer, "10.0.0.9:1");
    n->namesake.until_ms = hsp_app_now() + 100000;
    assert_string_equal(
        reason_of_node(a, reason, sizeof reason),
        "another agent under this name is refused, from 10.0.0.9:1: set `node` of one of them");
    status_app_end(a);
}

/* @value as the row @key. */
static struct hsp_cluster_row row(const char *key, const struct hsp_buf *value)
{
    return (struct hsp_cluster_row){key, value->data, (uint32_t)value->len};
}

/* Jobs with an unreadable row stand beside the others, in each state. */
static void rows_that_cannot_be_read(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_app *a = status_app(1);
    struct hsp_job_rec *rec = app_job("", 0, NULL);
    struct hsp_job j = {.id = 1,
                        .name = "j",
                        .state = HSP_JOB_DONE,
                        .data_path = (char[]){""},
                        .checkpoint_path = (char[]){"/c"}};
    struct hsp_buf good, bad;
    hsp_buf_init(&good, 1 << 20);
    hsp_buf_init(&bad, 1 << 20);
    hsp_job_rec_encode(rec, &good);
    hsp_buf_puts(&bad, "rubbish");
    const struct hsp_cluster_row rows[] = {row("app/plan/1/1", &bad), row("app/job/1", &bad),
                                           row("app/job/2", &good),   row("app/job/3", &good),
                                           row("app/plan/3/7", &bad), row("app/plan/9/1", &bad)};
    a->cluster->jobs[a->cluster->n_jobs++] = &j;
    assert_ok(hsp_app_jobs_load(a, rows, 6, &err), &err);
    assert_non_null(hsp_app_job_find(a, 2));
    assert_null(hsp_app_job_fault(a, 2));
    assert_null(hsp_app_job_find(a, 1));
    assert_null(hsp_app_job_find(a, 3));
    assert_string_equal(hsp_app_job_fault(a, 1),
                        "stored row app/job/1 is not readable: a stored job is not readable");
    assert_non_null(strstr(hsp_app_job_fault(a, 3), "row app/plan/3/7"));
    assert_null(hsp_app_job_fault(a, 9));
    assert_string_equal(hsp_app_job_name(a, 1), "j"); /* as the core says */
    cJSON *all, *doc = status_job(a, &all);
    assert_string_equal(status_text(doc, "state"), "done");
    assert_string_equal(status_text(doc, "problem"), hsp_app_job_fault(a, 1));
    assert_string_equal(status_text(doc, "final_model"), "/c/j/final");
    cJSON_Delete(all);
    hsp_app_job_remove(a, 1);
    assert_null(hsp_app_job_fault(a, 1));
    hsp_app_jobs_free(a);
    hsp_buf_fini(&good);
    hsp_buf_fini(&bad);
    (void)hsp_job_rec_unref(rec);
    status_app_end(a);
}

static void nodes_that_do_not_reach_each_other(void **state)
{
    (void)state;
    struct hsp_broken_pair pairs[2] = {{.a = 0, .b = 1, .since_ms = 2000},
                                       {.a = 1,
                                        .b = 2,
                                        .broken = true,
                                        .since_ms = 3000,
                                        .next_ms = 9500,
                                        .why = "c refuses calls of b"}};
    struct hsp_app *a = status_app(3);
    a->cluster->now_ms = 7000;
    a->cluster->pairs = pairs;
    a->cluster->n_pairs = 2;
    for (uint32_t of = 0; of < 3; of++) {
        cJSON *all = status_of(a, of == 0 ? "a" : of == 1 ? "b" : "");
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(all, "broken_links");
        assert_int_equal(cJSON_GetArraySize(list), of > 0);
        const cJSON *x = cJSON_GetArrayItem(list, 0);
        if (of > 0) {
            const cJSON *names = cJSON_GetObjectItemCaseSensitive(x, "nodes");
            assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(names, 1)), "c");
            assert_true(status_number(x, "seconds") == 4 &&
                        status_number(x, "next_seconds") == 2.5);
            assert_true(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(x, "slow")));
            assert_string_equal(status_text(x, "reason"), "c refuses calls of b");
        }
        cJSON_Delete(all);
    }
    a->cluster->pairs = NULL;
    a->cluster->n_pairs = 0;
    status_app_end(a);
}

static void where_the_ranks_of_a_stalled_job_stand(void **state)
{
    (void)state;
    struct hsp_epoch_peer peers[2] = {{.device = HSP_DEVICE(0, 0)}, {.device = HSP_DEVICE(1, 0)}};
    struct hsp_stand stand[2] = {{.said = true,
                                  .step = 7,
                                  .micro = 2,
                                  .instruction = 118,
                                  .n_threads = 1,
                                  .thread = {{HSP_DOING_RECEIVE, HSP_DEVICE(1, 0), 2900}}}};
    char nowhere[] = "";
    struct hsp_job *j = calloc(1, sizeof *j);
    struct hsp_app *a = status_app(2);
    assert_non_null(j);
    a->cluster->now_ms = 7000;
    j->id = 1;
    j->state = HSP_JOB_RUNNING;
    j->data_path = j->checkpoint_path = nowhere;
    j->cur = (struct hsp_cl_epoch){.epoch = 4, .n_ranks = 2, .n_peers = 2, .peers = peers};
    j->progress = (struct hsp_progress){
        .epoch = 4, .since_ms = 4000, .says = "all wait for b", .n = 2, .stand = stand};
    a->cluster->jobs[0] = j;
    a->cluster->n_jobs = 1;
    for (uint32_t epoch = 4; epoch < 6; epoch++) { /* of another epoch it says nothing */
        j->cur.epoch = epoch;
        cJSON *all = status_of(a, "");
        const cJSON *job = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(all, "jobs"), 0);
        const cJSON *x = cJSON_GetObjectItemCaseSensitive(job, "stalled");
        assert_true((x != NULL) == (epoch == 4));
        if (x != NULL) {
            const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(x, "ranks");
            const cJSON *r = cJSON_GetArrayItem(ranks, 0);
            const cJSON *t = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(r, "threads"), 0);
            assert_true(status_number(x, "seconds") == 3 && status_number(r, "instruction") == 118);
            assert_string_equal(status_text(t, "does"), "receives from");
            assert_string_equal(status_text(t, "peer"), "b/0");
            assert_null(cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(ranks, 1), "step"));
        }
        cJSON_Delete(all);
    }
    a->cluster->n_jobs = 0;
    status_app_end(a);
    free(j);
}

/* Nobody looks at the facts of a job that has ended: facts that are over are not shown, and no
 * remaining time is negative. */
static void what_is_over_is_not_left_out(void **state)
{
    (void)state;
    struct hsp_broken_pair pair = {
        .a = 0, .b = 1, .broken = true, .since_ms = 3000, .next_ms = 6500, .why = "no answer"};
    struct hsp_job j = {.id = 1,
                        .name = "j",
                        .state = HSP_JOB_FAILED,
                        .data_path = (char[]){""},
                        .checkpoint_path = (char[]){""},
                        .n_facts = 2};
    j.facts[0] = (struct hsp_learnt){
        .fact = {HSP_FACT_OUT_OF_MEMORY, HSP_DEVICE(1, 0), HSP_DEVICE(1, 0), 4096, 0},
        .since_ms = 1000,
        .until_ms = 7000,
        .why = (char[]){"no memory for it"}};
    j.facts[1] = j.facts[0];
    j.facts[1].until_ms = 7001;
    struct hsp_app *a = status_app(2);
    a->store_stalled = true; /* so that the clock stands */
    a->stalled_at = 7000;
    a->cluster->now_ms = 2000;
    a->cluster->pairs = &pair;
    a->cluster->n_pairs = 1;
    a->cluster->jobs[a->cluster->n_jobs++] = &j;
    cJSON *all = status_of(a, "");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(all, "facts");
    assert_int_equal(cJSON_GetArraySize(list), 2); /* the pair is broken until it is measured */
    assert_string_equal(status_text(cJSON_GetArrayItem(list, 0), "kind"), "broken-link");
    for (int i = 0; i < 2; i++) {
        assert_true(status_number(cJSON_GetArrayItem(list, i), "left_seconds") == 1e-3);
    }
    cJSON_Delete(all);
    for (int i = 0; i < 2; i++) { /* it has ended: nothing of it is tried again */
        j.state = i == 0 ? HSP_JOB_DONE : HSP_JOB_CANCELLED;
        all = status_of(a, "");
        list = cJSON_GetObjectItemCaseSensitive(all, "facts");
        assert_int_equal(cJSON_GetArraySize(list), 1);
        assert_string_equal(status_text(cJSON_GetArrayItem(list, 0), "kind"), "broken-link");
        cJSON_Delete(all);
    }
    a->cluster->pairs = NULL;
    a->cluster->n_pairs = 0;
    status_app_end(a);
}

/* One that has gone says since when; one that is here, or never joined, does not. */
static void since_when_a_node_has_gone(void **state)
{
    (void)state;
    struct hsp_app *a = status_app(3);
    int64_t now = hsp_app_unix_ms() / 1000;
    for (uint32_t i = 1; i < 3; i++) {
        a->cluster->nodes[i].state = i == 1 ? HSP_NODE_DEAD : HSP_NODE_LEFT;
    }
    a->cluster->nodes[1].gone_s = (uint64_t)now - 100;
    cJSON *all = status_of(a, "");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(all, "nodes");
    const cJSON *n = cJSON_GetArrayItem(list, 1);
    assert_string_equal(status_text(n, "state"), "dead");
    assert_true(status_number(n, "gone_seconds") >= 100 && status_number(n, "gone_seconds") < 1000);
    assert_true(strcmp(status_text(n, "gone_since"), status_text(all, "ts")) < 0);
    for (int i = 0; i < 3; i += 2) {
        assert_null(cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(list, i), "gone_since"));
    }
    cJSON_Delete(all);
    status_app_end(a);
}

/* The fact about memory, and the one about a device, of all of them. */
static void assert_told_in_full(const cJSON *list)
{
    const cJSON *x = cJSON_GetArrayItem(list, 2);
    assert_string_equal(status_text(x, "job"), "j");
    assert_string_equal(status_text(x, "node"), "b");
    assert_string_equal(status_text(x, "reason"), "no memory for it");
    assert_true(status_number(x, "device") == 0);
    assert_true(status_number(x, "seconds") == 3 && status_number(x, "left_seconds") == 597);
    const char *since = status_text(x, "since"),
               *until = status_text(x, "until"); /* ten minutes later */
    assert_true(strcmp(since, until) < 0);
    assert_string_equal(strrchr(since, ':'), strrchr(until, ':'));
    x = cJSON_GetArrayItem(list, 0);
    assert_true(status_number(x, "seconds") == 2);
    assert_null(status_text(x, "until"));
    assert_non_null(status_text(x, "ends"));
}

/* Each fact has its kind, reason, begin and end: of one job, of one node, of all. */
static void what_plans_do_without(void **state)
{
    (void)state;
    struct hsp_broken_pair pair = {
        .a = 0, .b = 1, .broken = true, .since_ms = 3000, .next_ms = 9500, .why = "no answer"};
    struct hsp_job_mark mark = {
        .node = 1, .keep_refused = (char[]){"no room"}, .keep_since_ms = 6000};
    struct hsp_device_note note = {.why = "XID 48", .since_ms = 5000};
    struct hsp_job j = {.id = 1,
                        .name = "j",
                        .data_path = (char[]){""},
                        .checkpoint_path = (char[]){""},
                        .n_facts = 1,
                        .n_marks = 1,
                        .marks = &mark,
                        .keep_retry_ms = 37000};
    j.facts[0] = (struct hsp_learnt){
        .fact = {HSP_FACT_OUT_OF_MEMORY, HSP_DEVICE(1, 0), HSP_DEVICE(1, 0), 4096, 0},
        .since_ms = 4000,
        .until_ms = 604000,
        .why = (char[]){"no memory for it"}};
    struct hsp_app *a = status_app(2);
    a->store_stalled = true; /* so that the clock stands */
    a->stalled_at = 7000;
    a->cluster->now_ms = 6000; /* of the last event */
    a->cluster->pairs = &pair;
    a->cluster->n_pairs = 1;
    a->cluster->jobs[a->cluster->n_jobs++] = &j;
    struct hsp_node_device *d = &a->cluster->nodes[0].dev[0];
    d->health = HSP_HEALTH_CORDON;
    d->note = &note;
    a->cluster->nodes[0].conn = 5;
    static const char *const of[] = {"", "a", "b", "j", "1"};
    static const char *const kinds[] = {
        "cordoned broken-link out-of-memory keeper-refused ", "cordoned broken-link ",
        "broken-link out-of-memory keeper-refused ", "out-of-memory keeper-refused ",
        "out-of-memory keeper-refused "};
    for (uint32_t i = 0; i < 5; i++) {
        char got[128] = "";
        cJSON *all = status_of(a, of[i]);
        const cJSON *x, *list = cJSON_GetObjectItemCaseSensitive(all, "facts");
        cJSON_ArrayForEach(x, list)
        {
            size_t n = strlen(got);
            (void)snprintf(got + n, sizeof got - n, "%s ", status_text(x, "kind"));
        }
        assert_string_equal(got, kinds[i]);
        if (i == 0) {
            assert_told_in_full(list);
        }
        cJSON_Delete(all);
    }
    a->cluster->pairs = NULL;
    a->cluster->n_pairs = 0;
    d->note = NULL;
    status_app_end(a);
}

HSP_TEST_FILE(status_doc_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agents_that_are_refused),
        cmocka_unit_test(nodes_that_do_not_reach_each_other),
        cmocka_unit_test(where_the_ranks_of_a_stalled_job_stand),
        cmocka_unit_test(what_plans_do_without),
        cmocka_unit_test(what_is_over_is_not_left_out),
        cmocka_unit_test(since_when_a_node_has_gone),
        cmocka_unit_test(transports_of_the_epoch_that_runs),
        cmocka_unit_test(nodes_that_are_no_members),
        cmocka_unit_test(a_drain_that_has_ended),
        cmocka_unit_test(what_needs_somebody_is_counted),
        cmocka_unit_test(gpus_of_a_node),
        cmocka_unit_test(rows_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
