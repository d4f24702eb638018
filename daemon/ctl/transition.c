/* Compiles both plans, and adds up the bytes of the move between them. */
#include "daemon/ctl/transition.h"

#include <cjson/cJSON.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/plan_pick.h"
#include "daemon/ctl/remote.h"
#include "daemon/ctl/table.h"
#include "daemon/migrate/bsr.h"
#include "daemon/spmd/codegen/compile.h"
#include "daemon/spmd/sharding/param_home.h"
#include "proto/base/size.h"
#include "proto/base/str.h"

#define COMPILE_BYTES ((size_t)4 << 30)

/* The mesh of the switch: ranks of the new plan, then devices that only the old one uses. */
struct work {
    struct hsp_ctl *ctl;
    const struct hsp_loaded *l;
    const struct hsp_transition *t;
    struct hsp_cluster_desc cluster;
    const bool *gone; /* [cluster.n] */
    struct hsp_plan *from, *to;
    uint32_t *device; /* [n_mesh] of the cluster */
    /* [ranks of from, and its replica holders]: mesh rank, HSP_NONE */
    uint32_t n_mesh, *mesh;
    uint32_t n_kinds;              /* of state */
    struct hsp_cover *have, *want; /* [g->n_params] */
    struct hsp_bsr_net net;
    struct hsp_bsr_traffic m;
    struct hsp_template_count templates; /* of the new plan, after the old one */
};

/* The plan that a running job has now. */
static enum hsp_status ask_plan(struct work *w, const char *job, struct hsp_plan **ret,
                                struct hsp_err *err)
{
    struct hsp_plan_text text = {.name = job};
    struct hsp_msg m = {.type = HSP_MSG_PROGRAM, .u.query = {.name = job, .what = "plan"}};
    enum hsp_status st = hsp_remote_ask(w->ctl, &m, &text.text, &text.len, err);
    return st == HSP_OK ? hsp_read_plan(w->ctl->arena, w->l, &text, ret, err) : st;
}

static enum hsp_status read_files(struct work *w, struct hsp_err *err)
{
    struct hsp_arena *arena = w->ctl->arena;
    const bool *none = NULL;
    enum hsp_status st = hsp_load_cluster(arena, w->t->cluster, &w->cluster, err);
    if (st == HSP_OK) {
        st = hsp_pick_exclude(arena, &w->cluster, w->t->exclude != NULL ? w->t->exclude : "", &none,
                              err);
        w->gone = none;
    }
    if (st == HSP_OK) {
        st = hsp_is_job(w->t->from) ? ask_plan(w, w->t->from, &w->from, err)
                                    : hsp_load_plan(arena, w->l, w->t->from, &w->from, err);
    }
    return st == HSP_OK ? hsp_load_plan(arena, w->l, w->t->to, &w->to, err) : st;
}

static enum hsp_status too_few(const char *plan, uint32_t ranks, uint32_t devices,
                               struct hsp_err *err)
{
    return hsp_err_set(err, HSP_EINFEASIBLE, 0, "%s has %u rank%s; %u device%s there", plan, ranks,
                       hsp_s(ranks), devices, devices == 1 ? " is" : "s are");
}

/* Devices of the mesh, and where the old ranks are in it. */
static enum hsp_status place_ranks(struct work *w, struct hsp_err *err)
{
    uint32_t n = w->cluster.n, old = w->from->n_ranks;
    uint32_t *at = hsp_arena_array(w->ctl->arena, n, sizeof *at); /* mesh rank of a device */
    w->device = hsp_arena_array(w->ctl->arena, n, sizeof *w->device);
    w->mesh = hsp_arena_array(w->ctl->arena, (size_t)old + HSP_MAX_DEVICES, sizeof *w->mesh);
    if (at == NULL || w->device == NULL || w->mesh == NULL) {
        return hsp_err_nomem(err, "a transition");
    }
    for (uint32_t d = 0; d < n; d++) {
        at[d] = HSP_NONE;
        if (!w->gone[d] && w->n_mesh < w->to->n_ranks) {
            at[d] = w->n_mesh;
            w->device[w->n_mesh++] = d;
        }
    }
    if (w->n_mesh < w->to->n_ranks) {
        return too_few(w->t->to, w->to->n_ranks, w->n_mesh, err);
    }
    if (old > n) {
        return too_few(w->t->from, old, n, err);
    }
    for (uint32_t d = 0; d < old; d++) {
        if (!w->gone[d] && at[d] == HSP_NONE) {
            at[d] = w->n_mesh;
            w->device[w->n_mesh++] = d;
        }
        w->mesh[d] = at[d];
    }
    for (uint32_t k = 0; k < HSP_MAX_DEVICES;
         k++) { /* replica holders are not on the devices of the cluster */
        w->mesh[old + k] = HSP_NONE;
    }
    return HSP_OK;
}

/* Second copies that the job promises are sources, too. */
static enum hsp_status find_copies(struct work *w, const struct hsp_cover *home,
                                   struct hsp_state_table *ret, struct hsp_err *err)
{
    uint32_t n = w->from->n_ranks;
    uint32_t *node = hsp_arena_array(w->ctl->arena, n, sizeof *node);
    if (node == NULL) {
        return hsp_err_nomem(err, "a transition");
    }
    for (uint32_t r = 0; r < n; r++) {
        node[r] = w->cluster.dev[r].node;
    }
    return w->l->job->copies < 2
               ? HSP_OK
               : hsp_copy_table(w->l->g, home, node, n, w->l->job->copies, w->ctl->arena, ret, err);
}

static enum hsp_status find_homes(struct work *w, struct hsp_err *err)
{
    const struct hsp_graph *g = w->l->g;
    struct hsp_state_table copies = {0};
    struct hsp_cover *old = hsp_arena_array(w->ctl->arena, g->n_params, sizeof *old);
    w->have = hsp_arena_array(w->ctl->arena, g->n_params, sizeof *w->have);
    w->want = hsp_arena_array(w->ctl->arena, g->n_params, sizeof *w->want);
    if (old == NULL || w->have == NULL || w->want == NULL) {
        return hsp_err_nomem(err, "a transition");
    }
    enum hsp_status st = hsp_plan_homes(g, w->to, w->want, err);
    st = st == HSP_OK ? hsp_plan_homes(g, w->from, old, err) : st;
    st = st == HSP_OK ? find_copies(w, old, &copies, err) : st;
    for (uint32_t p = 0; st == HSP_OK && p < g->n_params; p++) {
        st = hsp_have_home(&old[p], w->mesh, w->from->n_ranks, &w->have[p], err);
        if (st == HSP_OK) {
            st = hsp_have_copies(&copies, p, w->mesh, w->from->n_ranks + HSP_MAX_DEVICES,
                                 &w->have[p], err);
        }
    }
    for (uint32_t p = 0; p < g->n_params; p++) {
        hsp_cover_fini(&old[p]);
    }
    return st;
}

static enum hsp_status plan_traffic(struct work *w, struct hsp_err *err)
{
    struct hsp_state_table t = {0};
    const struct hsp_graph *g = w->l->g;
    w->n_kinds = w->l->job->train.hyper.optimizer == HSP_OPT_ADAMW ? 3 : 2;
    const struct hsp_bsr_opts o = {.elem_bytes =
                                       w->n_kinds * (uint32_t)hsp_dtype_size(g->spec.dtype)};
    struct hsp_arena *arena = w->ctl->arena;
    enum hsp_status st = hsp_bsr_net_make(&w->cluster, w->device, w->n_mesh, arena, &w->net, err);
    st = st == HSP_OK ? hsp_bsr_plan(g, w->have, w->want, &w->net, &o, arena, &t, err) : st;
    return st == HSP_OK ? hsp_bsr_measure(g, w->have, w->want, &w->net, &o, &t, arena, &w->m, err)
                        : st;
}

/* Compiles one plan for the templates that it leaves in @k. */
static enum hsp_status compile(const struct work *w, const struct hsp_plan *p,
                               struct hsp_templates *k, struct hsp_err *err)
{
    struct hsp_arena *arena = hsp_arena_new(COMPILE_BYTES);
    struct hsp_program_file f;
    struct hsp_plan total;
    enum hsp_status st =
        arena != NULL ? hsp_compile_kept(w->l->g, p, &w->l->job->train, k, arena, &f, &total, err)
                      : hsp_err_nomem(err, "a transition");
    (void)hsp_arena_free(arena);
    return st;
}

static enum hsp_status count_templates(struct work *w, struct hsp_err *err)
{
    struct hsp_templates *k = hsp_templates_new();
    enum hsp_status st =
        k != NULL ? compile(w, w->from, k, err) : hsp_err_nomem(err, "a transition");
    if (st == HSP_OK && !hsp_templates_count(k).stored) {
        st = hsp_err_nomem(err, "a transition");
    }
    st = st == HSP_OK ? compile(w, w->to, k, err) : st;
    if (st == HSP_OK) {
        w->templates = hsp_templates_count(k);
    }
    (void)hsp_templates_free(k);
    return st;
}

/* ---- links ---- */

struct link {
    const char *name, *kind; /* "network card" or "within the node" */
    double sent, got, us;
};

static struct link device_link(const struct work *w, uint32_t rank)
{
    const struct hsp_bsr_flow *f = &w->m.rank[rank];
    struct link l = {.name = w->cluster.dev[w->device[rank]].name, .kind = "within the node"};
    double sent_us = 0, got_us = 0;
    for (int c = HSP_LINK_DOMAIN; c < HSP_LINK_NIC; c++) {
        l.sent += (double)f->sent[c];
        l.got += (double)f->got[c];
        sent_us += (double)f->sent[c] * w->net.link[c].us_per_byte;
        got_us += (double)f->got[c] * w->net.link[c].us_per_byte;
    }
    l.us = sent_us > got_us ? sent_us : got_us;
    return l;
}

/* Named by the first device that uses it. */
static const char *card_name(const struct work *w, uint32_t nic)
{
    uint32_t r = 0;
    while (w->net.place[r].nic != nic) {
        r++;
    }
    return w->cluster.dev[w->device[r]].name;
}

static struct link card_link(const struct work *w, uint32_t nic)
{
    const struct hsp_bsr_flow *f = &w->m.nic[nic];
    struct link l = {.name = card_name(w, nic),
                     .kind = "network card",
                     .sent = (double)f->sent[HSP_LINK_NIC],
                     .got = (double)f->got[HSP_LINK_NIC]};
    l.us = (l.sent > l.got ? l.sent : l.got) * w->net.nic_us_per_byte[nic];
    return l;
}

static struct link link_at(const struct work *w, uint32_t i)
{
    return i < w->net.n_nics ? card_link(w, i) : device_link(w, i - w->net.n_nics);
}

static double moved(const struct work *w)
{
    return (double)w->m.needed;
}

/* The part of the switch that the first @n kinds of state take. */
static double of_kinds(const struct work *w, double all, uint32_t n)
{
    return all * n / w->n_kinds;
}

/* ---- answers ---- */

static enum hsp_status print_table(struct work *w)
{
    static const struct hsp_column columns[] = {
        {"DEVICE", false}, {"LINK", false}, {"SENT", true}, {"RECEIVED", true}, {"BUSY", true}};
    struct hsp_ctl *ctl = w->ctl;
    struct hsp_table *t = hsp_table_new(ctl, columns, HSP_ARRAY_LEN(columns));
    for (uint32_t i = 0; i < w->net.n_nics + w->n_mesh; i++) {
        const struct link l = link_at(w, i);
        const char *cells[] = {l.name, l.kind, hsp_ctl_bytes(ctl, l.sent),
                               hsp_ctl_bytes(ctl, l.got), hsp_ctl_time(ctl, l.us)};
        if (l.sent + l.got > 0) {
            hsp_table_row(t, cells);
        }
    }
    (void)fprintf(ctl->out, "%s: %s -> %s\n\n", w->l->job->name, w->t->from, w->t->to);
    (void)hsp_table_print(t);
    (void)fprintf(
        ctl->out, "\nmoved %s, %s of it between hosts; %s stays where it is; %s passed on\n",
        hsp_ctl_bytes(ctl, moved(w)), hsp_ctl_bytes(ctl, (double)w->m.bytes[HSP_LINK_NIC]),
        hsp_ctl_bytes(ctl, (double)w->m.bytes[HSP_LINK_DEVICE]),
        hsp_ctl_bytes(ctl, (double)w->m.relayed));
    if (w->m.nic_load > 0) {
        (void)fprintf(ctl->out,
                      "busiest network card: that of %s, %s; no plan can have less than %s\n",
                      card_name(w, w->m.busiest), hsp_ctl_bytes(ctl, (double)w->m.nic_load),
                      hsp_ctl_bytes(ctl, (double)w->m.floor));
    }
    const uint32_t n = w->templates.made + w->templates.kept;
    (void)fprintf(ctl->out, "programs: %u template%s, %u of them new\n", n, hsp_s(n),
                  w->templates.made);
    double us = 1e6 * w->m.seconds;
    (void)fprintf(ctl->out,
                  "phases: prepared while the old plan trains; then weights %s in %s, optimizer "
                  "state %s in %s; then the first step\n",
                  hsp_ctl_bytes(ctl, of_kinds(w, moved(w), 1)),
                  hsp_ctl_time(ctl, of_kinds(w, us, 1)),
                  hsp_ctl_bytes(ctl, of_kinds(w, moved(w), w->n_kinds - 1)),
                  hsp_ctl_time(ctl, of_kinds(w, us, w->n_kinds - 1)));
    return HSP_OK;
}

static bool add_number(cJSON *o, const char *key, double v)
{
    return cJSON_AddNumberToObject(o, key, v) != NULL;
}

static bool add_text(cJSON *o, const char *key, const char *text)
{
    return cJSON_AddStringToObject(o, key, text) != NULL;
}

/* An object at the end of a list; NULL without memory. */
static cJSON *add_object(cJSON *list)
{
    cJSON *o = cJSON_CreateObject();
    if (o != NULL && !cJSON_AddItemToArray(list, o)) {
        cJSON_Delete(o);
        o = NULL;
    }
    return o;
}

static bool add_link(cJSON *list, const struct link *l)
{
    cJSON *o = add_object(list);
    return o != NULL && add_text(o, "device", l->name) && add_text(o, "link", l->kind) &&
           add_number(o, "sent_bytes", l->sent) && add_number(o, "received_bytes", l->got) &&
           add_number(o, "busy_seconds", l->us / 1e6);
}

static bool add_phase(const struct work *w, cJSON *list, const char *name, uint32_t kinds)
{
    cJSON *o = add_object(list);
    return o != NULL && add_text(o, "name", name) &&
           add_number(o, "bytes", of_kinds(w, moved(w), kinds)) &&
           add_number(o, "seconds", of_kinds(w, w->m.seconds, kinds));
}

static bool add_all(const struct work *w, cJSON *o)
{
    bool ok = add_text(o, "apiVersion", "hspmd/v1") && add_text(o, "kind", "transition") &&
              add_text(o, "job", w->l->job->name) && add_text(o, "from", w->t->from) &&
              add_text(o, "to", w->t->to) && add_number(o, "moved_bytes", moved(w)) &&
              add_number(o, "kept_bytes", (double)w->m.bytes[HSP_LINK_DEVICE]) &&
              add_number(o, "network_bytes", (double)w->m.bytes[HSP_LINK_NIC]) &&
              add_number(o, "passed_on_bytes", (double)w->m.relayed) &&
              add_number(o, "busiest_card_bytes", (double)w->m.nic_load) &&
              add_text(o, "busiest_card", w->m.nic_load > 0 ? card_name(w, w->m.busiest) : "") &&
              add_number(o, "floor_bytes", (double)w->m.floor) &&
              add_number(o, "templates", w->templates.made + w->templates.kept) &&
              add_number(o, "new_templates", w->templates.made) &&
              add_number(o, "seconds", w->m.seconds);
    cJSON *phases = ok ? cJSON_AddArrayToObject(o, "phases") : NULL;
    ok = phases != NULL && add_phase(w, phases, "weights", 1) &&
         add_phase(w, phases, "optimizer state", w->n_kinds - 1);
    cJSON *links = ok ? cJSON_AddArrayToObject(o, "links") : NULL;
    ok = links != NULL;
    for (uint32_t i = 0; ok && i < w->net.n_nics + w->n_mesh; i++) {
        const struct link l = link_at(w, i);
        ok = add_link(links, &l);
    }
    return ok;
}

static enum hsp_status print_json(const struct work *w, struct hsp_err *err)
{
    cJSON *o = cJSON_CreateObject();
    char *text = o != NULL && add_all(w, o) ? cJSON_Print(o) : NULL;
    cJSON_Delete(o);
    if (text == NULL) {
        return hsp_err_nomem(err, "a transition");
    }
    (void)fprintf(w->ctl->out, "%s\n", text);
    cJSON_free(text);
    return HSP_OK;
}

enum hsp_status hsp_transition_show(struct hsp_ctl *ctl, const struct hsp_loaded *l,
                                    const struct hsp_transition *t, struct hsp_err *err)
{
    struct work w = {.ctl = ctl, .l = l, .t = t};
    enum hsp_status st = read_files(&w, err);
    st = st == HSP_OK ? place_ranks(&w, err) : st;
    st = st == HSP_OK ? find_homes(&w, err) : st;
    st = st == HSP_OK ? plan_traffic(&w, err) : st;
    st = st == HSP_OK ? count_templates(&w, err) : st;
    if (st == HSP_OK) {
        st = ctl->format == HSP_FORMAT_JSON ? print_json(&w, err) : print_table(&w);
    }
    for (uint32_t p = 0; p < l->g->n_params; p++) {
        if (w.have != NULL) {
            hsp_cover_fini(&w.have[p]);
        }
        if (w.want != NULL) {
            hsp_cover_fini(&w.want[p]);
        }
    }
    return st;
}
