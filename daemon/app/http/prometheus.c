/* Counts facts of the core, and writes all figures in Prometheus' text form. */
#include "daemon/app/http/prometheus.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double bounds[HSP_HIST_BOUNDS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                               1,     2.5,  5,     10,   30,  60,   300};

void hsp_hist_add(struct hsp_hist *h, double seconds)
{
    if (!(seconds >= 0)) {
        return;
    }
    h->count++;
    h->sum += seconds;
    for (size_t i = 0; i < HSP_HIST_BOUNDS; i++) {
        if (seconds <= bounds[i]) {
            h->bucket[i]++;
            return;
        }
    }
}

/* ---- counting ---- */

/* Seconds between two marks of a trace; negative when one is missing. */
static double between(hsp_msec from, hsp_msec to)
{
    return from != 0 && to >= from ? (double)(to - from) * 1e-3 : -1;
}

static void count_switch(struct hsp_metrics *m, struct hsp_job_metrics *j, const struct hsp_fact *f)
{
    const struct hsp_epoch_trace *t = f->trace;
    const double s[HSP_SWITCH_PHASES] = {
        [HSP_PHASE_DRAIN] = between(t->detect_ms, t->sealed_ms),
        [HSP_PHASE_PLAN] = between(t->sealed_ms != 0 ? t->sealed_ms : t->detect_ms, t->planned_ms),
        [HSP_PHASE_APPLY] = between(t->prepare_ms, t->ready_ms),
        [HSP_PHASE_TRANSFER] = t->transfer_ms * 1e-3,
        [HSP_PHASE_FIRST_STEP] = between(t->started_ms, t->first_step_ms),
        [HSP_PHASE_TOTAL] = between(t->detect_ms, t->first_step_ms)};
    for (size_t i = 0; i < HSP_SWITCH_PHASES; i++) {
        hsp_hist_add(&m->phase_s[i], s[i]);
    }
    if (j != NULL) {
        j->transfer_bytes += t->transfer_bytes;
        j->lost_steps += f->lost_steps;
        j->switches++;
    }
}

void hsp_metrics_fact(struct hsp_metrics *m, struct hsp_job_metrics *j, uint32_t node,
                      const struct hsp_fact *f, double unix_s)
{
    static const char *const changes[HSP_CHANGES] = {[HSP_CHANGE_JOIN] = "node.joined",
                                                     [HSP_CHANGE_ADOPT] = "node.adopted",
                                                     [HSP_CHANGE_LEAVE] = "node.left",
                                                     [HSP_CHANGE_DEATH] = "node.dead",
                                                     [HSP_CHANGE_EXECUTOR_DEATH] =
                                                         "node.executor_dead"};
    for (size_t i = 0; i < HSP_CHANGES; i++) {
        m->changes[i] += strcmp(f->type, changes[i]) == 0;
    }
    m->notices += strcmp(f->type, "node.preemption_notice") == 0;
    m->plans_infeasible += strcmp(f->type, "plan.infeasible") == 0;
    m->switches_aborted += strcmp(f->type, "switch.aborted") == 0;
    m->auth_denied += strcmp(f->type, "auth.denied") == 0;
    if (strncmp(f->type, "config.", 7) == 0) {
        m->reload_ok = strcmp(f->type, "config.reloaded") == 0;
    }
    if (node < HSP_MAX_NODES && strcmp(f->type, "node.suspect") == 0) {
        m->suspects[node]++;
    }
    if (f->trace != NULL) {
        count_switch(m, j, f);
    }
    if (j != NULL && strcmp(f->type, "ckpt.complete") == 0) {
        j->checkpoints++;
        j->ckpt_unix_s = unix_s;
    }
}

enum hsp_time_class hsp_metrics_class(enum hsp_job_state state, bool planning)
{
    switch (state) {
    case HSP_JOB_STARTING: return HSP_TIME_STARTUP;
    case HSP_JOB_RUNNING:
    case HSP_JOB_SWITCHING: /* the epoch before goes on until the new one is armed */
    case HSP_JOB_FINISHING: return HSP_TIME_PRODUCTIVE;
    case HSP_JOB_SEALING:
    case HSP_JOB_RECOVERING: return HSP_TIME_RECOVERING;
    case HSP_JOB_PENDING:
    case HSP_JOB_PAUSED: return planning ? HSP_TIME_PLANNING : HSP_TIME_STALLED;
    case HSP_JOB_DONE:
    case HSP_JOB_FAILED:
    case HSP_JOB_CANCELLED:
    case HSP_JOB_SUSPENDED:
    case HSP_JOB_BEHIND: return HSP_TIME_NONE;
    }
    return HSP_TIME_NONE;
}

void hsp_metrics_time(struct hsp_job_metrics *j, enum hsp_time_class next, hsp_msec now_ms)
{
    if (j->since_ms != 0 && now_ms > j->since_ms) {
        j->time_s[j->now] += (double)(now_ms - j->since_ms) * 1e-3;
    }
    j->since_ms = now_ms;
    j->now = next;
}

/* ---- the text ---- */

static void family(struct hsp_buf *o, const char *name, const char *type, const char *help)
{
    hsp_buf_printf(o, "# HELP hspmd_%s %s\n# TYPE hspmd_%s %s\n", name, help, name, type);
}

static void value(struct hsp_buf *o, double v)
{
    if (isnan(v)) {
        hsp_buf_puts(o, "NaN");
    } else if (isinf(v)) {
        hsp_buf_puts(o, v > 0 ? "+Inf" : "-Inf");
    } else {
        hsp_buf_printf(o, "%.15g", v);
    }
}

static void label(struct hsp_buf *o, bool first, const char *name, const char *text)
{
    hsp_buf_printf(o, "%s%s=\"", first ? "{" : ",", name);
    for (const char *s = text; *s != '\0'; s++) {
        if (*s == '\\' || *s == '"') {
            hsp_buf_u8(o, '\\');
        }
        hsp_buf_puts(o, *s == '\n' ? "\\n" : "");
        if (*s != '\n') {
            hsp_buf_u8(o, (uint8_t)*s);
        }
    }
    hsp_buf_puts(o, "\"");
}

static void end(struct hsp_buf *o, double v)
{
    hsp_buf_puts(o, "} ");
    value(o, v);
    hsp_buf_puts(o, "\n");
}

static void plain(struct hsp_buf *o, const char *name, const char *type, const char *help, double v)
{
    family(o, name, type, help);
    hsp_buf_printf(o, "hspmd_%s ", name);
    value(o, v);
    hsp_buf_puts(o, "\n");
}

/* A sample with one label. */
static void sample(struct hsp_buf *o, const char *name, const char *key, const char *text, double v)
{
    hsp_buf_printf(o, "hspmd_%s", name);
    label(o, true, key, text);
    end(o, v);
}

/* @labels: as label() makes them, "" none. */
static void hist(struct hsp_buf *o, const char *name, const char *labels, const struct hsp_hist *h)
{
    uint64_t below = 0;
    for (size_t i = 0; i <= HSP_HIST_BOUNDS; i++) {
        char le[32] = "+Inf";
        if (i < HSP_HIST_BOUNDS) {
            (void)snprintf(le, sizeof le, "%g", bounds[i]);
            below += h->bucket[i];
        }
        hsp_buf_printf(o, "hspmd_%s_bucket%s", name, labels);
        label(o, labels[0] == '\0', "le", le);
        end(o, (double)(i < HSP_HIST_BOUNDS ? below : h->count));
    }
    for (int i = 0; i < 2; i++) {
        hsp_buf_printf(o, "hspmd_%s_%s%s%s ", name, i == 0 ? "sum" : "count", labels,
                       labels[0] != '\0' ? "}" : "");
        value(o, i == 0 ? h->sum : (double)h->count);
        hsp_buf_puts(o, "\n");
    }
}

/* The labels of a job, which are not those of another job of its name; empty ones: none. */
static void job_labels(struct hsp_buf *o, bool first, const char *name, uint32_t id)
{
    char number[16] = "";
    if (id != 0) {
        (void)snprintf(number, sizeof number, "%" PRIu32, id);
    }
    label(o, first, "job", name);
    label(o, false, "job_id", number);
}

static void job_sample(struct hsp_buf *o, const char *name, const struct hsp_view_job *j, double v)
{
    hsp_buf_printf(o, "hspmd_%s", name);
    job_labels(o, true, j->name, j->id);
    end(o, v);
}

static void job_hist(struct hsp_buf *o, const char *name, const struct hsp_view_job *j,
                     const struct hsp_hist *h)
{
    struct hsp_buf labels;
    hsp_buf_init(&labels, 4 * HSP_NAME_MAX);
    job_labels(&labels, true, j->name, j->id);
    hist(o, name, hsp_buf_cstr(&labels), h);
    o->failed = o->failed || labels.failed;
    hsp_buf_fini(&labels);
}

static void put_states(struct hsp_buf *o, const struct hsp_metrics_view *v)
{
    family(o, "nodes", "gauge",
           "Nodes by state; those that are foreign, ahead, unproven or waiting are no members.");
    for (const struct hsp_view_count *s = v->node_states; s->state != NULL; s++) {
        sample(o, "nodes", "state", s->state, (double)s->n);
    }
    family(o, "jobs", "gauge", "Known jobs by state.");
    for (const struct hsp_view_count *s = v->job_states; s->state != NULL; s++) {
        sample(o, "jobs", "state", s->state, (double)s->n);
    }
    plain(o, "jobs_held", "gauge",
          "Jobs that may have ended since the store was written: they wait for resume or cancel.",
          (double)v->n_held);
}

static void put_nodes(struct hsp_buf *o, const struct hsp_metrics_view *v)
{
    family(o, "heartbeat_age_seconds", "gauge", "Time since a node was heard.");
    for (size_t i = 0; i < v->n_nodes; i++) {
        if (v->nodes[i].beat_age_s >= 0) {
            sample(o, "heartbeat_age_seconds", "node", v->nodes[i].name, v->nodes[i].beat_age_s);
        }
    }
    family(o, "node_suspect_total", "counter", "How often a node missed a heartbeat.");
    for (size_t i = 0; i < v->n_nodes; i++) {
        sample(o, "node_suspect_total", "node", v->nodes[i].name, (double)v->nodes[i].suspects);
    }
}

static const char *device_state(const struct hsp_view_device *d)
{
    return !d->here                ? "away"
           : d->trouble[0] != '\0' ? d->trouble
           : !d->up                ? "down"
           : d->job[0] != '\0'     ? "busy"
                                   : "idle";
}

static void put_devices(struct hsp_buf *o, const struct hsp_metrics_view *v)
{
    static const char *const states[] = {"idle", "busy", "down", "away", "cordoned", "lost"};
    family(o, "gpus", "gauge", "Devices by model and state; those of a CPU have the model cpu.");
    for (size_t k = 0; k < v->n_devices; k++) {
        bool first = true; /* of its model */
        for (size_t i = 0; i < k && first; i++) {
            first = strcmp(v->devices[i].kind, v->devices[k].kind) != 0;
        }
        for (size_t s = 0; first && s < sizeof states / sizeof states[0]; s++) {
            size_t n = 0;
            for (size_t i = k; i < v->n_devices; i++) {
                n += strcmp(v->devices[i].kind, v->devices[k].kind) == 0 &&
                     strcmp(device_state(&v->devices[i]), states[s]) == 0;
            }
            hsp_buf_puts(o, "hspmd_gpus");
            label(o, true, "model", v->devices[k].kind);
            label(o, false, "state", states[s]);
            end(o, (double)n);
        }
    }
    for (int pass = 0; pass < 2; pass++) {
        const char *name = pass == 0 ? "gpu_info" : "device_relative_speed_ratio";
        family(o, name, "gauge",
               pass == 0 ? "Job of a device; always 1." : "Speed observed over the speed probed.");
        for (size_t i = 0; i < v->n_devices; i++) {
            const struct hsp_view_device *d = &v->devices[i];
            char index[16];
            (void)snprintf(index, sizeof index, "%" PRIu32, d->index);
            hsp_buf_printf(o, "hspmd_%s", name);
            label(o, true, "node", d->node);
            label(o, false, "index", index);
            if (pass == 0) {
                label(o, false, "model", d->kind);
                job_labels(o, false, d->job, d->job_id);
            }
            end(o, pass == 0 ? 1 : d->speed);
        }
    }
}

/* In the order of job_values. */
static const struct {
    const char *name, *type, *help;
} of_job[] = {
    {"plan_epoch", "gauge", "Epoch that runs; 0 before the first."},
    {"job_step", "gauge", "Steps done."},
    {"job_steps", "gauge", "Steps asked for."},
    {"job_tokens_total", "counter", "Tokens trained on since the daemon started."},
    {"job_lost_steps_total", "counter", "Steps computed again."},
    {"job_switches_total", "counter", "Changes of the plan that came to an end."},
    {"state_transfer_bytes_total", "counter", "Training state moved by changes of the plan."},
    {"plan_predicted_step_seconds", "gauge", "Step time that the running plan predicts."},
    {"checkpoint_age_seconds", "gauge", "Time since the last checkpoint."},
    {"checkpoint_last_success_timestamp_seconds", "gauge", "When the last one was complete."},
};
#define OF_JOB (sizeof of_job / sizeof of_job[0])

/* NaN: not known, the sample is left out. */
static void job_values(const struct hsp_metrics_view *v, const struct hsp_view_job *j,
                       double ret[OF_JOB])
{
    const struct hsp_job_metrics *m = j->m;
    bool ckpt = m->ckpt_unix_s > 0;
    const double unknown = (double)NAN;
    const double all[OF_JOB] = {
        (double)j->epoch,
        (double)j->step,
        (double)j->steps,
        (double)m->tokens,
        (double)m->lost_steps,
        (double)m->switches,
        (double)m->transfer_bytes,
        j->predicted_s > 0 ? j->predicted_s : unknown,
        ckpt ? v->unix_s - m->ckpt_unix_s : unknown,
        ckpt ? m->ckpt_unix_s : unknown,
    };
    memcpy(ret, all, sizeof all);
}

static void put_jobs(struct hsp_buf *o, const struct hsp_metrics_view *v)
{
    static const char *const classes[HSP_TIME_CLASSES] = {[HSP_TIME_PRODUCTIVE] = "productive",
                                                          [HSP_TIME_STARTUP] = "startup",
                                                          [HSP_TIME_PLANNING] = "planning",
                                                          [HSP_TIME_RECOVERING] = "recovering",
                                                          [HSP_TIME_STALLED] = "stalled"};
    for (size_t f = 0; f < OF_JOB; f++) {
        family(o, of_job[f].name, of_job[f].type, of_job[f].help);
        for (size_t i = 0; i < v->n_jobs; i++) {
            double x[OF_JOB];
            job_values(v, &v->jobs[i], x);
            if (!isnan(x[f])) {
                job_sample(o, of_job[f].name, &v->jobs[i], x[f]);
            }
        }
    }
    family(o, "job_loss", "gauge", "Loss of the newest step.");
    for (size_t i = 0; i < v->n_jobs; i++) {
        if (v->jobs[i].have_loss) { /* one that is no number is shown: it is news */
            job_sample(o, "job_loss", &v->jobs[i], v->jobs[i].loss);
        }
    }
    family(o, "job_step_seconds", "histogram", "Time of one training step.");
    for (size_t i = 0; i < v->n_jobs; i++) {
        job_hist(o, "job_step_seconds", &v->jobs[i], &v->jobs[i].m->step_s);
    }
    family(
        o, "job_time_seconds_total", "counter",
        "Where the time of a job went, but for that when it was suspended or over; productive over "
        "the sum is its goodput.");
    for (size_t i = 0; i < v->n_jobs; i++) {
        for (size_t c = 0; c < HSP_TIME_CLASSES; c++) {
            hsp_buf_puts(o, "hspmd_job_time_seconds_total");
            job_labels(o, true, v->jobs[i].name, v->jobs[i].id);
            label(o, false, "class", classes[c]);
            end(o, v->jobs[i].m->time_s[c]);
        }
    }
}

static void put_changes(struct hsp_buf *o, const struct hsp_metrics *m)
{
    static const char *const causes[HSP_CHANGES] = {[HSP_CHANGE_JOIN] = "join",
                                                    [HSP_CHANGE_ADOPT] = "adopt",
                                                    [HSP_CHANGE_LEAVE] = "leave",
                                                    [HSP_CHANGE_DEATH] = "death",
                                                    [HSP_CHANGE_EXECUTOR_DEATH] = "executor_death"};
    static const char *const phases[HSP_SWITCH_PHASES] = {
        [HSP_PHASE_DRAIN] = "drain",           [HSP_PHASE_PLAN] = "plan",
        [HSP_PHASE_APPLY] = "apply",           [HSP_PHASE_TRANSFER] = "transfer",
        [HSP_PHASE_FIRST_STEP] = "first_step", [HSP_PHASE_TOTAL] = "total"};
    char labels[32];
    family(o, "membership_changes_total", "counter", "Changes of the membership by cause.");
    for (size_t i = 0; i < HSP_CHANGES; i++) {
        sample(o, "membership_changes_total", "cause", causes[i], (double)m->changes[i]);
    }
    family(o, "switch_seconds", "histogram",
           "Parts of a change of the plan; total is from the event to the first step.");
    for (size_t i = 0; i < HSP_SWITCH_PHASES; i++) {
        (void)snprintf(labels, sizeof labels, "{phase=\"%s\"", phases[i]);
        hist(o, "switch_seconds", labels, &m->phase_s[i]);
    }
    family(o, "plan_solve_seconds", "histogram", "Time of one planning run.");
    hist(o, "plan_solve_seconds", "", &m->plan_solve_s);
    plain(o, "plan_infeasible_total", "counter",
          "Times that no plan was found, those asked again in vain not counted.",
          (double)m->plans_infeasible);
    plain(o, "switch_aborted_total", "counter", "Changes of the plan that were given up.",
          (double)m->switches_aborted);
    plain(o, "preemption_notices_total", "counter", "Nodes that said they would leave.",
          (double)m->notices);
    plain(o, "auth_denied_total", "counter",
          "Events auth.denied, at most one a caller in ten minutes.", (double)m->auth_denied);
    plain(o, "config_last_reload_successful", "gauge",
          "1 when the configuration last read is in use.", m->reload_ok ? 1 : 0);
}

/* Figures with standard names without our prefix. */
static void put_process(struct hsp_buf *o, const struct hsp_view_process *p)
{
    const struct {
        const char *name, *type, *help;
        double v;
    } all[] = {
        {"process_cpu_seconds_total", "counter", "CPU time in seconds.", p->cpu_s},
        {"process_start_time_seconds", "gauge", "Start as a Unix time.", p->start_unix_s},
        {"process_resident_memory_bytes", "gauge", "Resident memory.", p->rss_bytes},
        {"process_virtual_memory_bytes", "gauge", "Virtual memory.", p->virtual_bytes},
        {"process_open_fds", "gauge", "Open file descriptors.", (double)p->open_fds},
        {"process_max_fds", "gauge", "Limit of file descriptors.", (double)p->max_fds},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        hsp_buf_printf(o, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", all[i].name, all[i].help,
                       all[i].name, all[i].type, all[i].name, all[i].v);
    }
}

void hsp_metrics_render(const struct hsp_metrics_view *v, struct hsp_buf *out)
{
    family(out, "build_info", "gauge", "Version of the daemon; always 1.");
    sample(out, "build_info", "version", v->version, 1);
    plain(out, "term", "gauge", "Starts of the daemon on this state.", (double)v->term);
    family(out, "connections", "gauge", "Open connections by the kind of caller.");
    sample(out, "connections", "kind", "agent", v->n_agents);
    sample(out, "connections", "kind", "admin", v->n_admins);
    put_states(out, v);
    put_nodes(out, v);
    put_devices(out, v);
    put_jobs(out, v);
    put_changes(out, v->m);
    put_process(out, &v->process);
}
