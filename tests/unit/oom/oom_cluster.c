/* Plays every scenario of tests/unit/daemon/cluster with failing allocations: before the
 * coordinator makes a step, child processes make the same step, each with another allocation that
 * fails. The program is linked with --wrap of each function that has a __wrap_ function here. */
#include "daemon/cluster/cluster_check.h"
#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/row_read.h"
#include "daemon/cluster/spread.h"
#include "tests/lib/oom.h"
#include "tests/lib/testlib.h"
#include "tests/unit/proto/wire/msg_dump.h"

enum { MOST = 2 };                       /* failures tried in a step */
enum { ALL_STEPS = 250, ONE_OF = 1000 }; /* the long random stories come last */

struct call {
    const struct hsp_cluster_config *cfg;
    struct hsp_cluster *c;
    const struct hsp_job *job;
    const struct hsp_event *ev; /* NULL: load */
    const struct hsp_cluster_row *rows;
    uint32_t n;
    hsp_msec now_ms;
};

struct hsp_cluster *__real_hsp_cluster_new(const struct hsp_cluster_config *cfg);
struct hsp_cluster *__wrap_hsp_cluster_new(const struct hsp_cluster_config *cfg);
enum hsp_status __real_hsp_cluster_load(struct hsp_cluster *c, const struct hsp_cluster_row *rows,
                                        uint32_t n, hsp_msec now_ms, struct hsp_actions *ret,
                                        struct hsp_err *err);
enum hsp_status __wrap_hsp_cluster_load(struct hsp_cluster *c, const struct hsp_cluster_row *rows,
                                        uint32_t n, hsp_msec now_ms, struct hsp_actions *ret,
                                        struct hsp_err *err);
enum hsp_status __real_hsp_cluster_found(struct hsp_cluster *c, struct hsp_actions *ret,
                                         struct hsp_err *err);
enum hsp_status __wrap_hsp_cluster_found(struct hsp_cluster *c, struct hsp_actions *ret,
                                         struct hsp_err *err);
enum hsp_status __real_hsp_cluster_step(struct hsp_cluster *c, const struct hsp_event *ev,
                                        struct hsp_actions *ret, struct hsp_err *err);
enum hsp_status __wrap_hsp_cluster_step(struct hsp_cluster *c, const struct hsp_event *ev,
                                        struct hsp_actions *ret, struct hsp_err *err);

bool __real_hsp_cluster_spread(const struct hsp_cluster *c, const struct hsp_job *j,
                               struct hsp_spread *ret);
bool __wrap_hsp_cluster_spread(const struct hsp_cluster *c, const struct hsp_job *j,
                               struct hsp_spread *ret);

static void put_actions(const struct hsp_actions *a, struct hsp_buf *out)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const struct hsp_action *x = &a->item[i];
        hsp_buf_printf(out, "%d %u %s %s %u %d\n", (int)x->type, x->conn, x->text ? x->text : "",
                       x->key ? x->key : "", x->job, (int)x->status);
        hsp_buf_append(out, x->value, x->value != NULL ? x->len : 0);
        if (x->type == HSP_ACT_SEND || x->type == HSP_ACT_PREPARE) {
            hsp_msg_dump(x->msg, out);
        }
    }
}

static enum hsp_status make(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct call *k = ctx;
    struct hsp_cluster *c = __real_hsp_cluster_new(k->cfg);
    enum hsp_status st = c != NULL ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "no machine");
    hsp_cluster_free(c);
    hsp_cluster_restored_row(3, out); /* with which a shell begins one of an older store */
    return st;
}

static enum hsp_status found(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct call *k = ctx;
    struct hsp_actions a = {0};
    enum hsp_status st = __real_hsp_cluster_found(k->c, &a, err);
    if (st == HSP_OK) {
        put_actions(&a, out);
    }
    hsp_cluster_free(k->c);
    return st;
}

static enum hsp_status advance(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct call *k = ctx;
    struct hsp_actions a = {0};
    free(k->c->actions); /* as in a new machine: each may be the one that finds no memory */
    k->c->actions = NULL;
    k->c->cap_actions = 0;
    enum hsp_status st = k->ev != NULL
                             ? __real_hsp_cluster_step(k->c, k->ev, &a, err)
                             : __real_hsp_cluster_load(k->c, k->rows, k->n, k->now_ms, &a, err);
    if (st == HSP_OK) {
        put_actions(&a, out);
        hsp_cluster_check(k->c);
        hsp_cluster_dump(k->c, out);
    } else if (st != HSP_ENOMEM) { /* the story's own failure */
        hsp_buf_printf(out, "%d %s", (int)st, err->msg);
        st = HSP_OK;
    }
    hsp_cluster_free(k->c);
    return st;
}

static enum hsp_status spread(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct call *k = ctx;
    struct hsp_spread s = {0};
    bool is = __real_hsp_cluster_spread(k->c, k->job, &s);
    hsp_buf_printf(out, "%u %u", s.min_nodes, s.n_sole);
    return is ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "no memory for the spread");
}

bool __wrap_hsp_cluster_spread(const struct hsp_cluster *c, const struct hsp_job *j,
                               struct hsp_spread *ret)
{
    struct call k = {.c = (struct hsp_cluster *)(uintptr_t)c, .job = j};
    bool is = __real_hsp_cluster_spread(c, j, ret);
    if (is) {
        hsp_oom_fork("spread", spread, &k, MOST);
    }
    return is;
}

struct hsp_cluster *__wrap_hsp_cluster_new(const struct hsp_cluster_config *cfg)
{
    struct call k = {.cfg = cfg};
    hsp_oom_fork("new", make, &k, MOST);
    return __real_hsp_cluster_new(cfg);
}

enum hsp_status __wrap_hsp_cluster_found(struct hsp_cluster *c, struct hsp_actions *ret,
                                         struct hsp_err *err)
{
    struct call k = {.c = c};
    hsp_oom_fork("found", found, &k, MOST);
    return __real_hsp_cluster_found(c, ret, err);
}

enum hsp_status __wrap_hsp_cluster_load(struct hsp_cluster *c, const struct hsp_cluster_row *rows,
                                        uint32_t n, hsp_msec now_ms, struct hsp_actions *ret,
                                        struct hsp_err *err)
{
    struct call k = {.c = c, .rows = rows, .n = n, .now_ms = now_ms};
    hsp_oom_fork("load", advance, &k, n > 0 ? 4 * MOST : MOST);
    return __real_hsp_cluster_load(c, rows, n, now_ms, ret, err);
}

enum hsp_status __wrap_hsp_cluster_step(struct hsp_cluster *c, const struct hsp_event *ev,
                                        struct hsp_actions *ret, struct hsp_err *err)
{
    static uint64_t step;
    struct call k = {.c = c, .ev = ev};
    if (++step <= hsp_test_rounds(ALL_STEPS) || hsp_test_rand("step", step) % ONE_OF == 0) {
        hsp_oom_fork("step", advance, &k, MOST);
    }
    return __real_hsp_cluster_step(c, ev, ret, err);
}

/* ---- the files of tests, under their names here ---- */

HSP_TEST_AGAIN(oom_adoptjob_test, adopt_job_test)
HSP_TEST_AGAIN(oom_brokenpairs_test, broken_pairs_test)
HSP_TEST_AGAIN(oom_cluster_test, cluster_test)
HSP_TEST_AGAIN(oom_clusterdata_test, cluster_data_test)
HSP_TEST_AGAIN(oom_clusternodes_test, cluster_nodes_test)
HSP_TEST_AGAIN(oom_crowd_test, crowd_test)
HSP_TEST_AGAIN(oom_devicehealth_test, device_health_test)
HSP_TEST_AGAIN(oom_olderstore_test, older_store_test)
HSP_TEST_AGAIN(oom_givenup_test, given_up_test)
HSP_TEST_AGAIN(oom_identity_test, identity_test)
HSP_TEST_AGAIN(oom_replica_holders_test, replica_holders_test)
HSP_TEST_AGAIN(oom_keyholder_test, key_holder_test)
HSP_TEST_AGAIN(oom_slow_test, slow_test)
