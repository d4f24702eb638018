#include "daemon/app/feed/metrics_collect.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "daemon/app/state/sessions.h"
#include "daemon/cluster/health.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/parked.h"
#include "proto/base/size.h"

/* ---- counting ---- */

void hsp_app_count_fact(struct hsp_app *a, struct hsp_app_job *j, const struct hsp_fact *f)
{
    const struct hsp_cluster_node *n =
        f->node != NULL ? hsp_cluster_node_by_name(a->cluster, f->node) : NULL;
    uint32_t at = n != NULL ? (uint32_t)(n - a->cluster->nodes) : HSP_MAX_NODES;
    if (n != NULL && n->incarnation == n->same_since && strcmp(f->type, "node.joined") == 0) {
        a->metrics.suspects[at] = 0; /* its number may have been that of a node since forgotten */
    }
    hsp_metrics_fact(&a->metrics, j != NULL ? &j->metrics : NULL, at, f,
                     (double)hsp_app_unix_ms() * 1e-3);
}

void hsp_app_count_time(struct hsp_app *a)
{
    hsp_msec now = hsp_app_now();
    for (size_t i = 0; i < a->n_jobs; i++) {
        const struct hsp_job *core = hsp_cluster_job(a->cluster, a->jobs[i].id);
        if (core != NULL) {
            hsp_metrics_time(&a->jobs[i].metrics, hsp_metrics_class(core->state, core->ticket != 0),
                             now);
        }
    }
}

/* ---- the process ---- */

static void read_process(struct hsp_view_process *p)
{
    char text[1024] = "";
    struct rlimit limit;
    FILE *f = fopen("/proc/self/stat", "re");
    if (f != NULL) {
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        (void)fclose(f); /* was only read */
    }
    /* The name in parentheses may hold anything: fields are counted behind the last one (proc(5):
     * 14 and 15 are CPU time, 22 the start, both in ticks; 23 bytes, 24 pages). */
    const char *s = strrchr(text, ')');
    unsigned long long user = 0, sys = 0, start = 0, size = 0, pages = 0;
    double hz = (double)sysconf(_SC_CLK_TCK);
    if (s != NULL && sscanf(s,
                            ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d "
                            "%*d %*d %*d %llu %llu %llu",
                            &user, &sys, &start, &size, &pages) == 5) {
        struct timespec now, boot;
        (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with these clocks */
        (void)clock_gettime(CLOCK_BOOTTIME, &boot);
        p->cpu_s = (double)(user + sys) / hz;
        p->start_unix_s = (double)(now.tv_sec - boot.tv_sec) +
                          (double)(now.tv_nsec - boot.tv_nsec) * 1e-9 + (double)start / hz;
        p->virtual_bytes = (double)size;
        p->rss_bytes = (double)pages * (double)sysconf(_SC_PAGESIZE);
    }
    DIR *d = opendir("/proc/self/fd");
    while (d != NULL && readdir(d) != NULL) {
        p->open_fds++;
    }
    if (d != NULL) {
        p->open_fds -= p->open_fds < 3 ? p->open_fds : 3; /* ".", ".." and this one */
        (void)closedir(d);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        p->max_fds = limit.rlim_cur;
    }
}

/* ---- the snapshot ---- */

#define FOREIGN    (HSP_JOB_BEHIND + 1) /* as status says of a job that is not adopted */
#define JOB_STATES (FOREIGN + 1)

static const struct hsp_view_count no_nodes[] = {
    {"away", 0},     {"live", 0},    {"suspect", 0}, {"dead", 0},    {"left", 0},
    {"draining", 0}, {"drained", 0}, {"leaving", 0}, {"foreign", 0}, {"ahead", 0},
    {"unproven", 0}, {"waiting", 0}, {NULL, 0}};

struct snapshot {
    struct hsp_metrics_view v;
    struct hsp_view_count node_states[HSP_ARRAY_LEN(no_nodes)], job_states[JOB_STATES + 1];
    struct hsp_view_node *nodes;
    struct hsp_view_device *devices;
    struct hsp_view_job *jobs;
};

static void count_node(struct snapshot *s, const char *state)
{
    for (struct hsp_view_count *c = s->node_states; c->state != NULL; c++) {
        c->n += strcmp(c->state, state) == 0;
    }
}

static void count_states(const struct hsp_cluster *c, struct snapshot *s)
{
    memcpy(s->node_states, no_nodes, sizeof no_nodes);
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct hsp_cluster_node *n = &c->nodes[i];
        if (n->name[0] != '\0') {
            count_node(s, hsp_cluster_node_word(c, n));
        }
    }
    for (uint32_t i = 0; i < c->n_parked; i++) {
        count_node(s, hsp_parked_name(c->parked[i].as));
    }
    for (int i = 0; i < JOB_STATES; i++) {
        s->job_states[i].state =
            i == FOREIGN ? "foreign" : hsp_job_state_name((enum hsp_job_state)i);
    }
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        s->job_states[hsp_ci_not_adopted(c->jobs[i]) ? FOREIGN : (int)c->jobs[i]->state].n++;
        s->v.n_held += hsp_ci_in_doubt(c->jobs[i]);
    }
    s->v.node_states = s->node_states;
    s->v.job_states = s->job_states;
}

static void take_node(struct hsp_app *a, struct snapshot *s, uint32_t at)
{
    const struct hsp_cluster_node *n = &a->cluster->nodes[at];
    hsp_msec now = hsp_app_core_now(a);
    bool here = n->conn != 0;
    s->nodes[s->v.n_nodes++] = (struct hsp_view_node){
        .name = n->name,
        .beat_age_s = here && now >= n->last_ms ? (double)(now - n->last_ms) * 1e-3 : -1,
        .suspects = at < HSP_MAX_NODES ? a->metrics.suspects[at] : 0};
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        const struct hsp_node_device *v = &n->dev[d];
        if (v->present && n->state != HSP_NODE_LEFT) {
            s->devices[s->v.n_devices++] = (struct hsp_view_device){
                .node = n->name,
                .kind = v->kind,
                .job = hsp_app_job_name(a, v->job),
                .job_id = v->job,
                .index = d,
                .up = v->up,
                .here = here,
                .trouble = v->health >= HSP_HEALTH_CORDON ? hsp_health_name(v->health) : "",
                .speed = v->speed};
        }
    }
}

static void take_job(struct hsp_app *a, struct snapshot *s, const struct hsp_job *core)
{
    struct hsp_app_job *j = hsp_app_job_find(a, core->id);
    if (j == NULL || hsp_job_terminal(core->state)) {
        return; /* ended jobs are not watched: labels must not pile up */
    }
    const struct hsp_plan_rec *plan = hsp_app_plan_find(j, core->cur.plan);
    const struct hsp_m_step *newest = hsp_app_job_newest(j, core);
    s->jobs[s->v.n_jobs++] = (struct hsp_view_job){.name = core->name,
                                                   .id = core->id,
                                                   .step = hsp_app_job_step(a, core),
                                                   .steps = core->steps,
                                                   .epoch = core->cur.epoch,
                                                   .have_loss = newest != NULL,
                                                   .loss = newest != NULL ? newest->loss : 0,
                                                   .predicted_s = plan != NULL ? plan->step_s : 0,
                                                   .m = &j->metrics};
}

static void count_callers(const struct hsp_app *a, struct hsp_metrics_view *v)
{
    for (uint32_t i = 0; i < a->n_clients; i++) {
        v->n_agents += a->clients[i].conn != 0 && a->clients[i].kind == HSP_CALLER_AGENT;
        v->n_admins += a->clients[i].conn != 0 && a->clients[i].kind == HSP_CALLER_ADMIN;
    }
}

static void put_metrics(void *ctx, struct hsp_buf *out)
{
    struct hsp_app *a = ctx;
    const struct hsp_cluster *c = a->cluster;
    struct snapshot s = {.v = {.version = PACKAGE_VERSION,
                               .term = c->term,
                               .unix_s = (double)hsp_app_unix_ms() * 1e-3,
                               .m = &a->metrics}};
    hsp_app_count_time(a);
    count_states(c, &s);
    s.nodes = calloc((size_t)c->n_nodes + 1, sizeof *s.nodes);
    s.devices = calloc((size_t)c->n_nodes * HSP_NODE_DEVICES + 1, sizeof *s.devices);
    s.jobs = calloc((size_t)c->n_jobs + 1, sizeof *s.jobs);
    if (s.nodes == NULL || s.devices == NULL || s.jobs == NULL) {
        out->failed = true;
    } else {
        for (uint32_t i = 0; i < c->n_nodes; i++) {
            if (c->nodes[i].name[0] != '\0') {
                take_node(a, &s, i);
            }
        }
        for (uint32_t i = 0; i < c->n_jobs; i++) {
            take_job(a, &s, c->jobs[i]);
        }
        count_callers(a, &s.v);
        read_process(&s.v.process);
        s.v.nodes = s.nodes;
        s.v.devices = s.devices;
        s.v.jobs = s.jobs;
        hsp_metrics_render(&s.v, out);
    }
    free(s.nodes);
    free(s.devices);
    free(s.jobs);
}

static const char *health(void *ctx)
{
    const struct hsp_app *a = ctx;
    return a->failed || a->store_stalled ? "the state cannot be written"
           : a->damage[0] != '\0'        ? "the store is damaged: hspmdctl status says more"
           : a->closing                  ? "ending"
                                         : NULL;
}

const struct hsp_httpd_calls hsp_app_http_calls = {put_metrics, health};
