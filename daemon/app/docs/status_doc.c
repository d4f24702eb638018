#include "daemon/app/docs/status_doc.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/docs/doc_put.h"
#include "daemon/app/docs/facts_doc.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "daemon/cluster/health.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/namesake.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/paths.h"
#include "daemon/cluster/progress.h"
#include "daemon/cluster/spread.h"
#include "daemon/planner/durability.h"
#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/program/corpus.h"
#include "proto/program/data_cursor.h"
#include "proto/wire/identity.h"

/* Of a training that diverges. */
static void put_loss(cJSON *o, const char *key, double v)
{
    const char *word = hsp_feed_word(v);
    if (word != NULL) {
        put_text(o, key, word);
    } else {
        put(o, key, v);
    }
}

struct name {
    char text[HSP_NAME_MAX + 16];
};

static struct name device_name(const struct hsp_cluster *c, hsp_device_id d)
{
    struct name n;
    (void)snprintf(n.text, sizeof n.text, "%s/%u", c->nodes[HSP_DEVICE_NODE(d)].name,
                   HSP_DEVICE_INDEX(d));
    return n;
}

/* Of the peers @from to @to of an epoch. */
static cJSON *device_names(const struct hsp_cluster *c, const struct hsp_cl_epoch *e, uint32_t from,
                           uint32_t to)
{
    cJSON *list = cJSON_CreateArray();
    for (uint32_t r = from; e->epoch != 0 && r < to; r++) {
        struct name n = device_name(c, e->peers[r].device);
        (void)cJSON_AddItemToArray(list, cJSON_CreateString(n.text));
    }
    return list;
}

static void put_plan(struct hsp_app *a, cJSON *o, uint32_t job, uint64_t no)
{
    struct hsp_app_job *j = hsp_app_job_find(a, job);
    const struct hsp_plan_rec *p = j != NULL ? hsp_app_plan_find(j, no) : NULL;
    cJSON *x = p != NULL ? cJSON_AddObjectToObject(o, "plan") : NULL;
    if (x != NULL) {
        put_text(x, "summary", p->summary);
        put_text(x, "source", p->source);
        put_text(x, "why", p->why);
        put(x, "ranks", p->n_ranks);
        put(x, "step_seconds", p->step_s);
    }
}

/* The cost of the loss of one node. */
static void put_spread(const struct hsp_app *a, cJSON *o, const struct hsp_job *j)
{
    struct hsp_spread s;
    char text[512], since[64], more[48] = "", allow[160] = "";
    const char *node = hsp_cluster_not_allowed(a->cluster, j);
    if (!hsp_cluster_spread(a->cluster, j, &s)) {
        return;
    }
    put(o, "nodes_per_shard_min", s.min_nodes);
    (void)snprintf(since, sizeof since, "every step: there is no checkpoint");
    if (j->has_ckpt) {
        (void)snprintf(since, sizeof since, "the steps since checkpoint %" PRIu64, j->ckpt_step);
    }
    if (s.n_sole > 1) {
        (void)snprintf(more, sizeof more, " or of any of %" PRIu32 " others", s.n_sole - 1);
    }
    if (j->cur.epoch != 0 && !j->cur.settled) {
        (void)snprintf(text, sizeof text,
                       "copies %" PRIu32 ": the state of epoch %" PRIu64
                       " is being brought into place",
                       j->copies, j->cur.epoch);
    } else if (s.min_nodes == 0) {
        (void)snprintf(text, sizeof text, "a part of the state is on no connected node");
    } else if (s.min_nodes == 1) {
        if (node != NULL && j->copies > 1) {
            (void)snprintf(allow, sizeof allow,
                           "; node %s may not store a copy: hspmdctl node allow %s --holder", node,
                           node);
        }
        (void)snprintf(text, sizeof text, "a loss of node %s%s would cost %s%s",
                       a->cluster->nodes[s.node].name, more, since, allow);
    } else {
        (void)snprintf(text, sizeof text,
                       "copies %" PRIu32 ": every part of the state is on at least %" PRIu32
                       " nodes",
                       j->copies, s.min_nodes);
    }
    put_text(o, "durability", text);
}

/* Puts the steps that would be computed again after a loss of devices that leaves each part of the
 * state on some node, and the stable step. */
static void put_again(cJSON *o, const struct hsp_job *core, const struct hsp_app_job *j,
                      uint64_t step)
{
    char text[HSP_DURABILITY_BYTES];
    if (!core->cur.settled || j == NULL || j->rec == NULL) {
        return;
    }
    hsp_durability_again(j->rec->spec, core->cur.live, text, sizeof text);
    put_text(o, "loss_costs", text);
    put(o, "stable_step", (double)core->stable);
    put(o, "steps_above_stable", step > core->stable ? (double)(step - core->stable) : 0);
    if (core->cur.due_steps > 0) {
        put(o, "due_steps", (double)core->cur.due_steps);
    }
}

/* Puts the bytes of the running layout in state folders, if they are known. */
static void put_folders(struct hsp_app *a, cJSON *o, const struct hsp_job *core)
{
    struct hsp_app_job *j = hsp_app_job_find(a, core->id);
    struct hsp_plan_rec *p =
        j != NULL && core->cur.epoch != 0 ? hsp_app_plan_find(j, core->cur.plan) : NULL;
    const struct hsp_job_plan *of = p != NULL ? hsp_ci_plan(core, core->cur.plan) : NULL;
    const uint64_t *bytes = p != NULL ? hsp_plan_rec_folder_bytes(p) : NULL;
    double *node = bytes != NULL ? calloc((size_t)a->cluster->n_nodes + 1, sizeof *node) : NULL;
    double all = 0, most = 0;
    for (uint32_t r = 0; node != NULL && r < p->n_ranks; r++) {
        uint32_t at = HSP_DEVICE_NODE(p->device[r]);
        at = at < a->cluster->n_nodes ? at : a->cluster->n_nodes;
        all += (double)bytes[r];
        node[at] += (double)bytes[r];
        most = node[at] > most ? node[at] : most;
    }
    if (node != NULL) {
        put(o, "folder_bytes", all);
        put(o, "node_folder_bytes_max", most);
    }
    if (of != NULL && of->info.n_replica_holders > 0) {
        put(o, "keeper_bytes", (double)of->info.keep_bytes);
    }
    free(node);
}

/* Puts the position of the newest committed version in the data. */
static void put_data(cJSON *o, const struct hsp_job *core, const struct hsp_app_job *j,
                     uint64_t step)
{
    const struct hsp_data_bind *d =
        core->data_known && j != NULL ? &j->rec->spec->train.data : NULL;
    struct hsp_data_cursor c;
    const uint64_t whole[2] = {0, core->data_tokens};
    bool documents = d != NULL && d->samples == HSP_SAMPLES_DOCUMENTS; /* only workers count them */
    struct hsp_corpus corpus = {
        .n_tokens = core->data_tokens, .n_train = 1, .start = documents ? whole : NULL};
    char digest[HSP_DIGEST_HEX];
    if (d == NULL ||
        (!documents && hsp_corpus_init(d, core->data_tokens, &corpus, NULL) != HSP_OK)) {
        return;
    }
    hsp_data_cursor_init(d, &corpus, core->data_digest, core->data_bytes, step, &c);
    cJSON *x = cJSON_AddObjectToObject(o, "data");
    hsp_digest_hex(c.digest, digest);
    put_text(x, "path", core->data_path);
    put(x, "bytes", (double)c.bytes);
    put(x, "tokens", (double)c.n_tokens);
    put_text(x, "digest", digest);
    if (documents) {
        put(x, "documents_read", (double)c.samples);
        return;
    }
    put(x, "pass", (double)hsp_data_cursor_pass(&c));
    put(x, "sample", (double)hsp_data_cursor_sample(&c));
    put(x, "pass_samples", (double)c.pass_samples);
    put(x, "tokens_read", (double)hsp_data_cursor_tokens(&c));
}

/* Puts the parties that can read the traffic between devices of different hosts. @trusted: the
 * trusted network in words, "": none. */
static void put_plane(cJSON *o, bool tls, const char *trusted)
{
    put_text(o, "data_plane", tls ? "tls" : "clear");
    put_text(o, "nccl_between_hosts", tls && trusted[0] == '\0' ? "none" : "clear");
    if (tls && trusted[0] != '\0') {
        put_text(o, "trusted_network", trusted);
    }
}

/* Puts the transports of the executors: the number of connections of each kind. */
static void put_transport(cJSON *o, const struct hsp_links *n)
{
    cJSON *x =
        n->shm + n->local + n->tls + n->tcp > 0 ? cJSON_AddObjectToObject(o, "transport") : NULL;
    if (x != NULL) {
        put(x, "shm", n->shm);
        put(x, "unix", n->local);
        put(x, "tls", n->tls);
        put(x, "tcp", n->tcp);
    }
}

static cJSON *stand_doc(const struct hsp_cluster *c, hsp_device_id d, const struct hsp_stand *s)
{
    cJSON *o = cJSON_CreateObject();
    put_text(o, "device", device_name(c, d).text);
    if (!s->said) {
        return o;
    }
    put(o, "step", (double)s->step);
    (void)cJSON_AddBoolToObject(o, "validation", s->validation);
    if (s->instruction != UINT32_MAX) {
        put(o, "micro_batch", s->micro);
        put(o, "instruction", s->instruction);
    }
    cJSON *threads = cJSON_AddArrayToObject(o, "threads");
    for (uint32_t k = 0; k < s->n_threads; k++) {
        cJSON *t = cJSON_CreateObject();
        (void)cJSON_AddItemToArray(threads, t);
        put_text(t, "does", hsp_doing_text(s->thread[k].doing));
        if (s->thread[k].peer != HSP_NO_DEVICE) {
            put_text(t, "peer", device_name(c, s->thread[k].peer).text);
        }
        put(t, "seconds", 1e-3 * (double)s->thread[k].since_ms);
    }
    return o;
}

/* Puts the reason why no vote passes, and the place that each rank has last reported. */
static void put_stalled(cJSON *o, const struct hsp_cluster *c, const struct hsp_job *j)
{
    const struct hsp_progress *p = &j->progress;
    const struct hsp_cl_epoch *e = hsp_cluster_watched(j);
    if (p->says[0] == '\0' || e == NULL || e->epoch != p->epoch) {
        return;
    }
    cJSON *x = cJSON_AddObjectToObject(o, "stalled");
    put(x, "seconds", 1e-3 * (double)(c->now_ms - p->since_ms));
    put_text(x, "reason", p->says);
    cJSON *ranks = cJSON_AddArrayToObject(x, "ranks");
    for (uint32_t i = 0; i < p->n; i++) {
        (void)cJSON_AddItemToArray(ranks, stand_doc(c, e->peers[i].device, &p->stand[i]));
    }
}

/* The folder of the model that a job has made. */
static void put_final(cJSON *o, const struct hsp_job *j)
{
    char path[PATH_MAX];
    if (j->state == HSP_JOB_DONE && j->checkpoint_path[0] != '\0') {
        (void)snprintf(path, sizeof path, "%s/%s/final", j->checkpoint_path,
                       j->name); /* the model was written */
        put_text(o, "final_model", path);
    }
}

static cJSON *job_doc(struct hsp_app *a, const struct hsp_job *core)
{
    const struct hsp_app_job *j = hsp_app_job_find(a, core->id);
    const struct hsp_cl_epoch *e = core->cur.epoch != 0 ? &core->cur : &core->att;
    const struct hsp_m_step *newest = hsp_app_job_newest(j, core);
    uint64_t from;
    cJSON *o = cJSON_CreateObject();
    put(o, "id", core->id);
    put_text(o, "name", core->name);
    put_text(o, "state", hsp_ci_not_adopted(core) ? "foreign" : hsp_job_state_name(core->state));
    put_text(o, "reason", core->reason);
    const char *fault = hsp_app_job_fault(a, core->id);
    if (fault != NULL || core->problem[0] != '\0') {
        put_text(o, "problem", fault != NULL ? fault : core->problem);
    }
    put_stalled(o, a->cluster, core);
    (void)cJSON_AddBoolToObject(o, "suspending", core->suspending);
    (void)cJSON_AddBoolToObject(o, "held", hsp_ci_in_doubt(core));
    (void)cJSON_AddBoolToObject(o, "keeps_state", hsp_ci_keeps_state(core));
    (void)cJSON_AddBoolToObject(o, "diverged", hsp_app_job_diverges(j, core, &from));
    put(o, "priority", core->priority);
    put(o, "min", core->min);
    put(o, "max", core->max);
    put(o, "copies", core->copies);
    put(o, "step", (double)hsp_app_job_step(a, core));
    put(o, "steps", (double)core->steps);
    put(o, "epoch", (double)core->cur.epoch);
    if (e->epoch != 0) {
        put_plane(o, e->data_tls, e->trusted);
        put_transport(o, &e->links);
    }
    if (core->att.epoch != 0) {
        put(o, "next_epoch", (double)core->att.epoch);
    }
    if (newest != NULL) {
        put_loss(o, "loss", newest->loss);
        if (newest->seconds > 0) { /* earlier executors: none of the first step of an epoch */
            put(o, "step_seconds", newest->seconds);
        }
    }
    if (core->has_ckpt) {
        put(o, "checkpoint_step", (double)core->ckpt_step);
        cJSON *steps = cJSON_AddArrayToObject(o, "checkpoint_steps"); /* all that are known */
        for (uint32_t i = 0; i <= core->n_older; i++) {
            uint64_t step = i < core->n_older ? core->older[i].step : core->ckpt_step;
            (void)cJSON_AddItemToArray(steps, cJSON_CreateNumber((double)step));
        }
    }
    put_data(o, core, j, hsp_app_job_step(a, core));
    put_spread(a, o, core);
    put_again(o, core, j, hsp_app_job_step(a, core));
    put_folders(a, o, core);
    put_text(o, "checkpoint_path", core->checkpoint_path);
    (void)cJSON_AddBoolToObject(o, "checkpoint_shared", core->checkpoint_shared);
    put_final(o, core);
    (void)cJSON_AddItemToObject(o, "devices", device_names(a->cluster, e, 0, e->n_ranks));
    (void)cJSON_AddItemToObject(
        o, "keepers", device_names(a->cluster, e, e->n_ranks, e->n_ranks + e->n_replica_holders));
    put_plan(a, o, core->id, e->plan);
    cJSON *epochs = cJSON_AddArrayToObject(o, "epochs");
    for (size_t i = 0; j != NULL && i < j->n_epochs; i++) {
        (void)cJSON_AddItemToArray(epochs, hsp_epoch_line_json(&j->epochs[i]));
    }
    return o;
}

static void put_cards(cJSON *o, const struct hsp_cluster_node *n)
{
    cJSON *list = cJSON_AddArrayToObject(o, "network");
    for (uint32_t i = 0; i < n->n_cards; i++) {
        cJSON *x = cJSON_CreateObject();
        put_text(x, "name", n->card[i].name);
        put(x, "gbit_per_second", n->card[i].gbit_per_s);
        cJSON *near = cJSON_AddArrayToObject(x, "devices");
        for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
            if (n->dev[d].present && !n->dev[d].replica_holder && n->dev[d].profile.card == i) {
                (void)cJSON_AddItemToArray(near, cJSON_CreateNumber(d));
            }
        }
        (void)cJSON_AddItemToArray(list, x);
    }
}

/* The driver's note on a GPU. */
static void put_note(cJSON *x, const struct hsp_device_note *note)
{
    if (note == NULL || note->model[0] == '\0') {
        return;
    }
    put_text(x, "model", note->model);
    put_text(x, "uuid", note->uuid);
    put_text(x, "near_processors", note->cpus);
    if (note->sm != 0) {
        char text[16];
        (void)snprintf(text, sizeof text, "%" PRIu32 ".%" PRIu32, note->sm / 10, note->sm % 10);
        put_text(x, "compute_capability", text);
    }
}

/* Puts the measured rates of matrix products, by the type of their operands and by shape class. */
static void put_products(cJSON *x, const struct hsp_node_device *v)
{
    static const char *const types[] = {"fp32", "fp64", "tf32", "bf16"};
    const double even[] = {v->profile.gemm_fp32_flops, v->profile.gemm_fp64_flops,
                           v->profile.gemm_tf32_flops, v->profile.gemm_bf16_flops};
    cJSON *all = cJSON_AddObjectToObject(x, "products");
    for (size_t r = 0; r < HSP_ARRAY_LEN(types); r++) {
        const double *part = &v->gemm_part[r * HSP_N_GEMM_CLASSES];
        cJSON *of = even[r] > 0 ? cJSON_AddObjectToObject(all, types[r]) : NULL;
        for (int c = 0; of != NULL && c < HSP_N_GEMM_CLASSES; c++) {
            if (c == HSP_GEMM_EVEN || part[c] > 0) {
                put(of, hsp_gemm_class_name((enum hsp_gemm_class)c),
                    c == HSP_GEMM_EVEN ? even[r] : even[r] * part[c]);
            }
        }
    }
}

static void put_paths(cJSON *o, const struct hsp_cluster_node *n)
{
    cJSON *list = n->n_paths > 0 ? cJSON_AddArrayToObject(o, "paths") : NULL;
    for (uint32_t i = 0; i < n->n_paths; i++) {
        const struct hsp_m_path *p = &n->paths[i];
        cJSON *x = cJSON_CreateObject();
        const double pair[2] = {p->a, p->b};
        (void)cJSON_AddItemToObject(x, "devices", cJSON_CreateDoubleArray(pair, 2));
        put_text(x, "kind", hsp_path_kind_name((enum hsp_path_kind)p->kind));
        put(x, "links", p->links);
        if (p->bytes_per_s > 0) {
            put(x, "bytes_per_second", p->bytes_per_s);
        }
        if (p->latency_us > 0) {
            put(x, "latency_seconds", 1e-6 * p->latency_us);
        }
        (void)cJSON_AddItemToArray(list, x);
    }
}

/* The jobs for which a drain waits. */
static void put_waits(cJSON *o, const struct hsp_cluster *c, const struct hsp_cluster_node *n)
{
    char text[HSP_TEXT_MAX + 1];
    hsp_cluster_drain_text(c, n, text, sizeof text);
    if (text[0] != '\0') {
        put_text(o, "waits", text);
    }
}

/* Since when it is not here. */
static void put_gone(cJSON *o, const struct hsp_cluster_node *n)
{
    int64_t now = hsp_app_unix_ms(), since = (int64_t)n->gone_s * 1000;
    char text[HSP_TIME_TEXT];
    if (hsp_ci_node_gone(n) && n->gone_s != 0) {
        hsp_time_format(since, text);
        put_text(o, "gone_since", text);
        put(o, "gone_seconds", since < now ? 1e-3 * (double)(now - since) : 0);
    }
}

static cJSON *kept_doc(uint32_t job, const char *name, struct hsp_digest cluster)
{
    cJSON *x = cJSON_CreateObject();
    char id[HSP_DIGEST_HEX];
    hsp_digest_hex(cluster, id);
    put(x, "id", job);
    put_text(x, "job", name);
    put_text(x, "cluster", id);
    return x;
}

/* Puts the jobs that are not adopted and of which a member keeps state. */
static void put_keeps(cJSON *o, const struct hsp_cluster *c, const struct hsp_cluster_node *n)
{
    cJSON *list = NULL;
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        const struct hsp_job *j = c->jobs[i];
        const struct hsp_job_mark *k =
            hsp_ci_not_adopted(j) ? hsp_ci_marked(j, hsp_ci_index_of(c, n)) : NULL;
        if (k != NULL && k->keeps) {
            list = list != NULL ? list : cJSON_AddArrayToObject(o, "keeps");
            (void)cJSON_AddItemToArray(list, kept_doc(j->id, j->name, j->from));
        }
    }
}

/* Puts the reason of a node's state, and the reason that keeps its agent, or another agent of that
 * name, from joining. */
static void put_reason(const struct hsp_app *a, cJSON *o, const struct hsp_cluster_node *n)
{
    char text[HSP_TEXT_MAX], refused[HSP_REFUSAL_TEXT] = "";
    const char *namesake = hsp_cluster_namesake(n, hsp_app_core_now(a));
    const struct hsp_refusal *x =
        n->conn == 0 ? hsp_refusals_agent(&a->refusals, n->source, hsp_app_now()) : NULL;
    if (x != NULL) {
        hsp_refusal_text(x, refused);
    } else if (namesake != NULL) {
        (void)snprintf(
            refused, sizeof refused,
            "another agent under this name is refused, from %s: set `node` of one of them",
            namesake);
    }
    hsp_str_printf(text, sizeof text, "%s%s%s", n->reason,
                   n->reason[0] != '\0' && refused[0] != '\0' ? "; " : "", refused);
    put_text(o, "reason", text);
}

static cJSON *node_doc(struct hsp_app *a, const struct hsp_cluster_node *n)
{
    cJSON *o = cJSON_CreateObject();
    put_text(o, "name", n->name);
    put_text(o, "state", hsp_cluster_node_word(a->cluster, n));
    (void)cJSON_AddBoolToObject(o, "draining", n->draining);
    put_reason(a, o, n);
    put_gone(o, n);
    put_waits(o, a->cluster, n);
    put_keeps(o, a->cluster, n);
    put_text(o, "address", n->address);
    put(o, "incarnation", (double)n->incarnation);
    (void)cJSON_AddBoolToObject(o, "holder", n->holder);
    cJSON *link = n->measured ? cJSON_AddObjectToObject(o, "uplink") : NULL;
    if (link != NULL) {
        put(link, "latency_seconds", n->uplink.latency_s);
        put(link, "bytes_per_second", n->uplink.bytes_per_s);
    }
    if (n->folder_free > 0) {
        put(o, "folder_free_bytes", (double)n->folder_free);
    }
    put_cards(o, n);
    cJSON *devices = cJSON_AddArrayToObject(o, "devices");
    cJSON *replica_holders = cJSON_AddArrayToObject(o, "keepers");
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        const struct hsp_node_device *v = &n->dev[d];
        if (!v->present) {
            continue;
        }
        cJSON *x = cJSON_CreateObject();
        put(x, "index", d);
        (void)cJSON_AddBoolToObject(x, "up", v->up);
        put_text(x, "job", hsp_app_job_name(a, v->job));
        if (v->replica_holder) {
            (void)cJSON_AddItemToArray(replica_holders, x);
            continue;
        }
        put_text(x, "kind", v->kind);
        put_text(x, "address", v->address);
        put(x, "speed", v->profile.speed);
        put(x, "observed_speed", v->speed);
        put(x, "memory_bytes", (double)v->profile.mem_bytes);
        put(x, "gemm_flops_per_second", v->profile.gemm_fp32_flops);
        put_products(x, v);
        put_text(x, "health", hsp_health_name(v->health));
        put_text(x, "reason", hsp_device_why(v));
        put_note(x, v->note);
        (void)cJSON_AddItemToArray(devices, x);
    }
    put_paths(o, n);
    return o;
}

/* Puts the nodes that prove their identity and report that all of this hspmdd's store is out of
 * date. */
static void put_ahead(cJSON *o, const struct hsp_cluster *c)
{
    cJSON *list = cJSON_AddArrayToObject(o, "behind_by");
    for (uint32_t i = 0; i < c->n_parked; i++) {
        if (c->parked[i].ahead && c->parked[i].as == HSP_PARKED_AHEAD) {
            (void)cJSON_AddItemToArray(list, cJSON_CreateString(c->parked[i].name));
        }
    }
}

/* Returns true if the job of a parked agent is on record here or has ended here, so that it cannot
 * be adopted. */
static bool on_record(const struct hsp_cluster *c, const struct hsp_parked_job *p)
{
    enum hsp_standing how = hsp_ci_parked_standing(c, p);
    const struct hsp_job *j = hsp_cluster_job(c, p->job);
    bool ours = how == HSP_STANDS_KNOWN || how == HSP_STANDS_NEWER || how == HSP_STANDS_OVER;
    return ours && (j == NULL || j->state != HSP_JOB_BEHIND);
}

/* Makes the object of an agent that is no member: the reason, and the jobs whose state it keeps. */
static cJSON *parked_doc(const struct hsp_cluster *c, const struct hsp_parked *p)
{
    cJSON *o = cJSON_CreateObject();
    put_text(o, "name", p->name);
    put_text(o, "state", hsp_parked_name(p->as));
    (void)cJSON_AddBoolToObject(o, "ahead", p->ahead);
    put_text(o, "reason", p->why);
    put_text(o, "address", p->address);
    put(o, "incarnation", 0);
    cJSON *keeps = cJSON_AddArrayToObject(o, "keeps");
    for (uint32_t i = 0; i < p->n_jobs; i++) {
        const struct hsp_parked_job *j = &p->jobs[i];
        cJSON *x = kept_doc(j->job, j->name, j->cluster);
        put(x, "epoch", (double)j->epoch);
        (void)cJSON_AddBoolToObject(x, "papers_damaged", j->papers_damaged);
        (void)cJSON_AddBoolToObject(x, "on_record", on_record(c, j));
        (void)cJSON_AddItemToArray(keeps, x);
    }
    (void)cJSON_AddArrayToObject(o, "network");
    (void)cJSON_AddArrayToObject(o, "devices");
    (void)cJSON_AddArrayToObject(o, "keepers");
    return o;
}

static void put_identity(cJSON *o, const struct hsp_cluster *c)
{
    char id[HSP_DIGEST_HEX];
    hsp_digest_hex(c->id, id);
    put_text(o, "cluster", id);
    put(o, "generation", hsp_generation_number(c->generation));
    if (c->behind) {
        put_text(o, "behind", c->behind_why);
        put_ahead(o, c);
    }
}

/* Puts the pairs of nodes that cannot reach each other: those of node @name, or all if it is "". */
static void put_broken(cJSON *o, const struct hsp_cluster *c, const char *name)
{
    cJSON *list = cJSON_AddArrayToObject(o, "broken_links");
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        const struct hsp_broken_pair *p = &c->pairs[i];
        const char *pair[2] = {c->nodes[p->a].name, c->nodes[p->b].name};
        bool asked = name[0] == '\0' || strcmp(pair[0], name) == 0 || strcmp(pair[1], name) == 0;
        if (!p->broken || !asked) {
            continue;
        }
        cJSON *x = cJSON_CreateObject();
        (void)cJSON_AddItemToObject(x, "nodes", cJSON_CreateStringArray(pair, 2));
        put(x, "seconds", 1e-3 * (double)(c->now_ms - p->since_ms));
        put(x, "next_seconds",
            p->next_ms > c->now_ms ? 1e-3 * (double)(p->next_ms - c->now_ms) : 0);
        (void)cJSON_AddBoolToObject(x, "slow", p->slow);
        put_text(x, "reason", p->why);
        (void)cJSON_AddItemToArray(list, x);
    }
}

/* Puts the callers with another key; the nodes of these callers are not known. */
static void put_refused(cJSON *o, const struct hsp_app *a)
{
    cJSON *list = cJSON_AddArrayToObject(o, "refused");
    hsp_msec now = hsp_app_now();
    for (uint32_t i = 0; i < HSP_REFUSALS; i++) {
        const struct hsp_refusal *r = &a->refusals.of[i];
        char text[HSP_REFUSAL_TEXT];
        cJSON *x = hsp_refusal_counts(r, now) ? cJSON_CreateObject() : NULL;
        if (x != NULL) {
            hsp_refusal_text(r, text);
            put_text(x, "address", r->host);
            put_text(x, "key", r->admin ? "admin" : "worker");
            put(x, "seconds", 1e-3 * (double)(now - r->last_ms));
            put_text(x, "reason", text);
            (void)cJSON_AddItemToArray(list, x);
        }
    }
}

char *hsp_app_status(struct hsp_app *a, const char *name)
{
    const struct hsp_cluster *c = a->cluster;
    const struct hsp_job *only = NULL;
    char now[HSP_TIME_TEXT];
    if (name[0] != '\0') {
        (void)hsp_cluster_job_called(c, name, &only, NULL); /* else a node */
    }
    hsp_time_format(hsp_app_unix_ms(), now);
    cJSON *o = cJSON_CreateObject();
    put_text(o, "apiVersion", "hspmd/v1");
    put_text(o, "kind", "status");
    put_text(o, "ts", now);
    put_identity(o, c);
    put(o, "term", (double)c->term);
    put_text(o, "address", a->address);
    if (a->insecure) {
        (void)cJSON_AddBoolToObject(o, "insecure_loopback", true);
    }
    put_plane(o, c->cfg.data_tls, c->cfg.trusted != NULL ? c->cfg.trusted : "");
    if (a->store_stalled || a->damage[0] != '\0') {
        put_text(o, "problem", a->store_stalled ? a->stalled_why : a->damage);
    }
    cJSON *jobs = cJSON_AddArrayToObject(o, "jobs");
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        if (name[0] == '\0' || c->jobs[i] == only) {
            (void)cJSON_AddItemToArray(jobs, job_doc(a, c->jobs[i]));
        }
    }
    cJSON *nodes = cJSON_AddArrayToObject(o, "nodes");
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        bool there = c->nodes[i].name[0] != '\0';
        if (there && only == NULL && (name[0] == '\0' || strcmp(c->nodes[i].name, name) == 0)) {
            (void)cJSON_AddItemToArray(nodes, node_doc(a, &c->nodes[i]));
        }
    }
    for (uint32_t i = 0; i < c->n_parked; i++) {
        if (only == NULL && (name[0] == '\0' || strcmp(c->parked[i].name, name) == 0)) {
            (void)cJSON_AddItemToArray(nodes, parked_doc(c, &c->parked[i]));
        }
    }
    if (only == NULL) {
        put_broken(o, c, name);
    }
    if (name[0] == '\0') {
        put_refused(o, a);
    }
    hsp_facts_put(o, c, only, name, hsp_app_core_now(a), hsp_app_unix_ms());
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    return text;
}

void hsp_app_status_line(struct hsp_app *a, char *ret, size_t size)
{
    const struct hsp_cluster *c = a->cluster;
    const struct hsp_job *runs = NULL;
    uint32_t live = 0, open = 0;
    if (a->store_stalled) {
        hsp_str_printf(ret, size, "cannot write %s", a->stalled_why); /* cut on purpose */
        return;
    }
    if (c->behind) {
        hsp_str_printf(ret, size, "%s", c->behind_why);
        return;
    }
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        live += c->nodes[i].state == HSP_NODE_LIVE || c->nodes[i].state == HSP_NODE_SUSPECT;
    }
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        open += !hsp_job_terminal(c->jobs[i]->state);
        runs = c->jobs[i]->cur.epoch != 0 ? c->jobs[i] : runs;
    }
    int n = snprintf(ret, size, "%" PRIu32 " node%s, %" PRIu32 " job%s", live, hsp_s(live), open,
                     hsp_s(open));
    if (runs != NULL && n > 0 && (size_t)n < size) {
        (void)snprintf(ret + n, size - (size_t)n, "; %s is %s, epoch %" PRIu64 ", step %" PRIu64,
                       runs->name, hsp_job_state_name(runs->state), runs->cur.epoch, runs->stable);
    }
}
