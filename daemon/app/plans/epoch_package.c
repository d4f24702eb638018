/* Builds the packages of an epoch from a compiled plan and the pieces of state that exist. */
#include "daemon/app/plans/epoch_package.h"

#include <string.h>

#include "daemon/app/plans/epoch_shards.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/sharding/param_home.h"
#include "daemon/spmd/sharding/param_owners.h"
#include "proto/layout/box.h"
#include "proto/program/binding_codec.h"
#include "proto/program/pool.h"
#include "proto/program/template_codec.h"

#define PLAN_TEXT_MAX ((size_t)HSP_MSG_BLOB_MAX) /* the text is sent as one blob */

/* A deep copy of the plan by way of its text: nothing is borrowed from the caller. */
static enum hsp_status copy_plan(struct hsp_epoch_plan *p, const struct hsp_plan *plan,
                                 uint32_t batch, struct hsp_err *err)
{
    struct hsp_buf text;
    hsp_buf_init(&text, PLAN_TEXT_MAX);
    hsp_plan_dump(plan, &text);
    enum hsp_status st = hsp_buf_status(&text);
    if (st == HSP_OK) {
        st = hsp_plan_parse(hsp_buf_cstr(&text), text.len, "plan", batch, p->arena, &p->plan, err);
    } else if (st == HSP_ENOMEM) {
        st = hsp_err_nomem(err, "the plan of an epoch");
    } else {
        st = hsp_err_set(err, st, 0, "the plan has more than %zu MiB of text", PLAN_TEXT_MAX >> 20);
    }
    hsp_buf_fini(&text);
    return st;
}

static enum hsp_status copy_devices(struct hsp_epoch_plan *p, const hsp_device_id *device,
                                    struct hsp_err *err)
{
    uint32_t n = p->plan->n_ranks;
    p->device = hsp_arena_memdup(p->arena, device, n * sizeof *device);
    return p->device != NULL ? HSP_OK : hsp_err_nomem(err, "the plan of an epoch");
}

/* The node number of each rank, for buddies. */
static uint32_t *rank_nodes(const struct hsp_epoch_plan *p, struct hsp_arena *arena)
{
    uint32_t *node = hsp_arena_array(arena, p->plan->n_ranks, sizeof *node);
    for (uint32_t r = 0; node != NULL && r < p->plan->n_ranks; r++) {
        node[r] = HSP_DEVICE_NODE(p->device[r]);
    }
    return node;
}

static enum hsp_status make_copies(struct hsp_epoch_plan *p, uint32_t wanted, struct hsp_err *err)
{
    enum hsp_status st =
        hsp_replica_table(p->graph, p->homes, p->plan->n_ranks, p->arena, &p->replicas, err);
    if (st != HSP_OK || wanted < 2) {
        return st;
    }
    uint32_t *node = rank_nodes(p, p->arena);
    if (node == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    p->n_spare = hsp_spare_ranks(node, p->plan->n_ranks, wanted);
    if (p->n_spare > HSP_MAX_REPLICA_HOLDERS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%u copies are too many", wanted);
    }
    return hsp_copy_table(p->graph, p->homes, node, p->plan->n_ranks, wanted, p->arena, &p->copies,
                          err);
}

/* The kinds of state every parameter has, read off the first rank's program. */
static void find_kinds(struct hsp_epoch_plan *p)
{
    bool seen[HSP_N_STATE_KINDS] = {false};
    for (uint32_t r = 0; r < p->programs.n; r++) {
        const struct hsp_program *prog = &p->programs.programs[r];
        for (uint32_t i = 0; i < prog->bind.n_state; i++) {
            seen[prog->tpl.tensors[prog->bind.state[i].tensor].state_kind] = true;
        }
    }
    for (uint8_t k = 0; k < HSP_N_STATE_KINDS; k++) {
        if (seen[k]) {
            p->kinds[p->n_kinds++] = k;
        }
    }
}

/* One version of all state. */
static uint64_t state_bytes(const struct hsp_epoch_plan *p)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < p->graph->n_params; i++) {
        struct hsp_box whole = hsp_box_whole(p->homes[i].rank, p->homes[i].extent);
        elements += (uint64_t)hsp_box_count(&whole);
    }
    return elements * p->n_kinds * hsp_dtype_size((enum hsp_dtype)p->graph->spec.dtype);
}

/* All programs of the plan, or pool: by rank, and of one plan after the other. */
static const struct hsp_program *program_at(const struct hsp_epoch_plan *p, uint32_t i)
{
    const struct hsp_program_file *f = &p->programs;
    return i < f->n ? &f->programs[i] : &f->shorter[i - f->n];
}

static enum hsp_status make_info(struct hsp_epoch_plan *p, struct hsp_err *err)
{
    uint32_t n = p->plan->n_ranks;
    p->info.n_ranks = n;
    p->info.device = p->device;
    p->info.mem_bytes = hsp_arena_array(p->arena, n, sizeof *p->info.mem_bytes);
    p->info.compute_s = hsp_arena_array(p->arena, n, sizeof *p->info.compute_s);
    p->wide_bytes = hsp_arena_array(p->arena, n, sizeof *p->wide_bytes);
    p->folder_bytes = hsp_arena_array(p->arena, n, sizeof *p->folder_bytes);
    p->info.folder_bytes = p->folder_bytes;
    if (p->info.mem_bytes == NULL || p->info.compute_s == NULL || p->wide_bytes == NULL ||
        p->folder_bytes == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    for (uint32_t r = 0; r < n; r++) {
        const struct hsp_program *of[HSP_MAX_POOL], *one = &p->programs.programs[r];
        uint32_t k = p->programs.n_shorter;
        for (uint32_t i = 0; i < k; i++) {
            of[i] = program_at(p, (i + 1) * n + r);
        }
        p->info.mem_bytes[r] = (uint64_t)(hsp_pool_memory(one, of, k) + hsp_pool_comm(one, of, k) +
                                          one->bind.state_bytes);
        p->folder_bytes[r] = 2 * (uint64_t)one->bind.state_bytes;
        p->wide_bytes[r] = (uint64_t)hsp_pool_wide(one, of, k);
    }
    hsp_epoch_add_copies(&p->copies,
                         2 * p->n_kinds * hsp_dtype_size((enum hsp_dtype)p->graph->spec.dtype),
                         p->folder_bytes, n);
    p->info.n_spare = p->n_spare;
    p->info.keep_bytes = p->n_spare > 0 ? 2 * state_bytes(p) : 0;
    p->info.step_s = p->plan->predicted_step_us * 1e-6;
    p->info.why = p->plan->why != NULL ? p->plan->why : "as written by hand";
    return hsp_epoch_shards(p->graph, p->homes, &p->copies, p->arena, &p->info, err);
}

enum hsp_status hsp_epoch_plan_build(const struct hsp_graph *g, const struct hsp_train_spec *train,
                                     struct hsp_templates *kept, const struct hsp_plan *plan,
                                     const hsp_device_id *device, uint32_t copies_wanted,
                                     size_t mem_cap, struct hsp_epoch_plan **ret,
                                     struct hsp_err *err)
{
    struct hsp_arena *arena = hsp_arena_new(mem_cap);
    struct hsp_epoch_plan *p = arena != NULL ? hsp_arena_alloc(arena, sizeof *p) : NULL;
    if (p == NULL) {
        (void)hsp_arena_free(arena);
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    *p = (struct hsp_epoch_plan){.arena = arena, .graph = g};
    struct hsp_cover *homes = hsp_arena_array(arena, g->n_params, sizeof *homes);
    struct hsp_plan total;
    enum hsp_status st = homes != NULL ? copy_plan(p, plan, train->data.global_batch, err)
                                       : hsp_err_nomem(err, "the plan of an epoch");
    if (st == HSP_OK) {
        st = hsp_compile_kept(g, p->plan, train, kept, arena, &p->programs, &total, err);
    }
    if (st == HSP_OK && kept != NULL) {
        struct hsp_template_count n = hsp_templates_count(kept);
        p->info.n_templates = n.made + n.kept;
        p->info.new_templates = n.made;
    }
    if (st == HSP_OK) {
        *p->plan = total;
    }
    if (st == HSP_OK) {
        st = hsp_plan_homes(g, p->plan, homes, err);
    }
    if (st == HSP_OK) {
        p->homes = homes;
        find_kinds(p);
    }
    if (st != HSP_OK || (st = copy_devices(p, device, err)) != HSP_OK ||
        (st = make_copies(p, copies_wanted, err)) != HSP_OK || (st = make_info(p, err)) != HSP_OK) {
        (void)hsp_epoch_plan_free(p);
        return st;
    }
    *ret = p;
    return HSP_OK;
}

struct hsp_epoch_plan *hsp_epoch_plan_free(struct hsp_epoch_plan *p)
{
    if (p != NULL) {
        for (uint32_t i = 0; p->homes != NULL && i < p->graph->n_params; i++) {
            hsp_cover_fini(&p->homes[i]);
        }
        (void)hsp_arena_free(p->arena); /* holds p itself */
    }
    return NULL;
}

/* ---- tables ---- */

/* The live pieces of the old layout, in the form daemon/spmd wants. */
struct live {
    uint32_t n_old, n_hold; /* members; with the replica holders */
    uint32_t *home;         /* old rank -> peer that has its home, HSP_NONE */
    /* old rank or replica holder -> its peer, with or without state */
    uint32_t *any;
    struct hsp_state_table copies; /* rows whose copy is live */
};

static bool copy_is_live(const struct hsp_prepare_action *a, const struct hsp_state_row *row)
{
    for (uint32_t i = 0; i < a->n_sources; i++) {
        if (a->sources[i].holder == row->to && a->sources[i].owner == row->from) {
            return true;
        }
    }
    return false;
}

static enum hsp_status find_live(const struct hsp_epoch_plan *from,
                                 const struct hsp_prepare_action *a, struct hsp_arena *arena,
                                 struct live *l, struct hsp_err *err)
{
    l->n_old = from->plan->n_ranks;
    l->n_hold = l->n_old + from->n_spare;
    l->home = hsp_arena_array(arena, l->n_old, sizeof *l->home);
    l->any = hsp_arena_array(arena, l->n_hold, sizeof *l->any);
    l->copies.row = hsp_arena_array(arena, from->copies.n, sizeof *l->copies.row);
    if (l->home == NULL || l->any == NULL || l->copies.row == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    for (uint32_t r = 0; r < l->n_old; r++) {
        l->home[r] = HSP_NONE;
    }
    for (uint32_t r = 0; r < l->n_hold; r++) {
        l->any[r] = HSP_NONE;
    }
    for (uint32_t i = 0; i < a->n_sources; i++) {
        const struct hsp_prepare_source *s = &a->sources[i];
        if (s->holder >= l->n_hold || s->owner >= l->n_old || s->peer >= a->n_peers) {
            return hsp_err_set(err, HSP_EINVAL, 0, "source %u is outside the old layout", i);
        }
        l->any[s->holder] = s->peer;
        if (s->holder == s->owner) {
            l->home[s->holder] = s->peer;
        }
    }
    for (uint32_t i = 0; i < from->copies.n; i++) {
        if (copy_is_live(a, &from->copies.row[i])) {
            l->copies.row[l->copies.n++] = from->copies.row[i];
        }
    }
    return HSP_OK;
}

static enum hsp_status have_all(const struct hsp_epoch_plan *from, const struct live *l,
                                struct hsp_cover *have, struct hsp_err *err)
{
    for (uint32_t i = 0; i < from->graph->n_params; i++) {
        enum hsp_status st = hsp_have_home(&from->homes[i], l->home, l->n_old, &have[i], err);
        if (st == HSP_OK) {
            st = hsp_have_copies(&l->copies, i, l->any, l->n_hold, &have[i], err);
        }
        if (st != HSP_OK) {
            return st;
        }
    }
    return HSP_OK;
}

/* Nodes that nothing is known of: each a host with one card, none faster than another. */
static enum hsp_status unknown_net(const struct hsp_prepare_action *a, struct hsp_arena *arena,
                                   struct hsp_epoch_net *ret, struct hsp_err *err)
{
    struct hsp_device_desc *dev = hsp_arena_array(arena, a->n_peers, sizeof *dev);
    hsp_device_id *device = hsp_arena_array(arena, a->n_peers, sizeof *device);
    if (dev == NULL || device == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    for (uint32_t i = 0; i < a->n_peers; i++) {
        device[i] = a->peers[i].device;
        dev[i].node = dev[i].host = HSP_DEVICE_NODE(device[i]);
    }
    *ret = (struct hsp_epoch_net){
        .cluster = {.n = a->n_peers, .dev = dev, .same_node = {20, 2e-4}, .cross = {60, 8e-4}},
        .device = device};
    return HSP_OK;
}

/* The network of the peers. */
static enum hsp_status make_net(const struct hsp_epoch_net *net, const struct hsp_prepare_action *a,
                                struct hsp_arena *arena, struct hsp_bsr_net *ret,
                                struct hsp_err *err)
{
    struct hsp_epoch_net unknown = {0};
    uint32_t *at = hsp_arena_array(arena, a->n_peers, sizeof *at);
    enum hsp_status st = at != NULL ? HSP_OK : hsp_err_nomem(err, "the plan of an epoch");
    if (st == HSP_OK && net == NULL) {
        st = unknown_net(a, arena, &unknown, err);
        net = &unknown;
    }
    for (uint32_t i = 0; st == HSP_OK && i < a->n_peers; i++) {
        while (at[i] < net->cluster.n && net->device[at[i]] != a->peers[i].device) {
            at[i]++;
        }
        if (at[i] == net->cluster.n) {
            st = hsp_err_set(err, HSP_EINVAL, 0, "peer %u is not in the network", i);
        }
    }
    struct hsp_bsr_pair *apart = hsp_arena_array(arena, a->n_apart, sizeof *apart);
    st = st == HSP_OK && apart == NULL ? hsp_err_nomem(err, "the plan of an epoch") : st;
    st = st == HSP_OK ? hsp_bsr_net_make(&net->cluster, at, a->n_peers, arena, ret, err) : st;
    for (uint32_t i = 0; st == HSP_OK && i < a->n_apart; i++) {
        apart[i] = (struct hsp_bsr_pair){a->apart[i].a, a->apart[i].b};
    }
    if (st == HSP_OK) {
        ret->n_apart = a->n_apart;
        ret->apart = apart;
    }
    return st;
}

static enum hsp_status make_transfer(const struct hsp_epoch_plan *p,
                                     const struct hsp_epoch_plan *from,
                                     const struct hsp_bsr_net *net,
                                     const struct hsp_prepare_action *a, struct hsp_arena *arena,
                                     struct hsp_state_table *ret, struct hsp_err *err)
{
    struct live l = {0};
    uint32_t n = p->graph->n_params;
    const struct hsp_bsr_opts o = {
        .elem_bytes = p->n_kinds * (uint32_t)hsp_dtype_size((enum hsp_dtype)p->graph->spec.dtype)};
    struct hsp_cover *have = hsp_arena_array(arena, n, sizeof *have);
    if (have == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    enum hsp_status st = find_live(from, a, arena, &l, err);
    if (st == HSP_OK) {
        st = have_all(from, &l, have, err);
    }
    if (st == HSP_OK) {
        st = hsp_bsr_plan(p->graph, have, p->homes, net, &o, arena, ret, err);
    }
    for (uint32_t i = 0; i < n; i++) {
        hsp_cover_fini(&have[i]);
    }
    return st;
}

/* Each element of each parameter once, from its owner to rank 0. */
static enum hsp_status make_gather(const struct hsp_epoch_plan *p, struct hsp_arena *arena,
                                   struct hsp_state_table *ret, struct hsp_err *err)
{
    uint32_t n_ranks = p->plan->n_ranks, n = 0;
    struct hsp_owned *owned =
        hsp_arena_array(arena, (size_t)p->graph->n_params * n_ranks, sizeof *owned);
    if (owned == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    for (uint32_t i = 0; i < p->graph->n_params; i++) {
        struct hsp_owned *of = owned + (size_t)i * n_ranks;
        enum hsp_status st = hsp_home_owners(&p->homes[i], n_ranks, arena, of, err);
        if (st != HSP_OK) {
            return st;
        }
        for (uint32_t r = 0; r < n_ranks; r++) {
            n += of[r].n;
        }
    }
    struct hsp_state_table t = {.row = hsp_arena_array(arena, n, sizeof *t.row)};
    if (t.row == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    for (size_t k = 0; k < (size_t)p->graph->n_params * n_ranks; k++) {
        for (uint32_t b = 0; b < owned[k].n; b++) {
            t.row[t.n++] = (struct hsp_state_row){.from = (uint32_t)(k % n_ranks),
                                                  .to = 0,
                                                  .param = (uint32_t)(k / n_ranks),
                                                  .box = owned[k].box[b]};
        }
    }
    *ret = t;
    return HSP_OK;
}

/* The rows of @all by peer, each with its sender and with its receiver, in the order of the table.
 * A row whose receiver is not below @n_peers is in no list. */
static enum hsp_status list_rows(const struct hsp_state_table *all, uint32_t n_peers,
                                 struct hsp_arena *arena, struct hsp_row_lists *ret,
                                 struct hsp_err *err)
{
    uint32_t *first = hsp_arena_array(arena, (size_t)n_peers + 2, sizeof *first);
    uint32_t *row = hsp_arena_array(arena, 2 * (size_t)all->n, sizeof *row);
    if (first == NULL || row == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    for (uint32_t i = 0; i < all->n; i++) { /* counted two places on: filling moves them back */
        const struct hsp_state_row *r = &all->row[i];
        if (r->to < n_peers) {
            first[r->to + 2]++;
            first[r->from + 2] += r->from != r->to;
        }
    }
    for (uint32_t k = 2; k < n_peers + 2; k++) {
        first[k] += first[k - 1];
    }
    for (uint32_t i = 0; i < all->n; i++) {
        const struct hsp_state_row *r = &all->row[i];
        if (r->to < n_peers) {
            row[first[r->to + 1]++] = i;
            if (r->from != r->to) {
                row[first[r->from + 1]++] = i;
            }
        }
    }
    *ret = (struct hsp_row_lists){all, first, row};
    return HSP_OK;
}

/* Most ranks have the template of another one: it is encoded once. */
static enum hsp_status encode_templates(const struct hsp_epoch_plan *p, struct hsp_arena *arena,
                                        struct hsp_encoded **ret, struct hsp_err *err)
{
    uint32_t n = p->plan->n_ranks * (p->programs.n_shorter + 1), n_kinds = 0;
    struct hsp_encoded *tpl = hsp_arena_array(arena, n, sizeof *tpl);
    uint32_t *kind = hsp_arena_array(arena, n, sizeof *kind); /* ranks whose template is new */
    enum hsp_status st =
        tpl != NULL && kind != NULL ? HSP_OK : hsp_err_nomem(err, "the plan of an epoch");
    for (uint32_t r = 0; st == HSP_OK && r < n; r++) {
        const struct hsp_template *t = &program_at(p, r)->tpl;
        uint32_t k = 0;
        while (k < n_kinds && !hsp_digest_equal(program_at(p, kind[k])->tpl.digest, t->digest)) {
            k++;
        }
        if (k < n_kinds) {
            tpl[r] = tpl[kind[k]];
            continue;
        }
        struct hsp_buf b;
        hsp_buf_init(&b, HSP_MSG_BLOB_MAX);
        st = hsp_template_encode(t, &b);
        tpl[r] = (struct hsp_encoded){hsp_arena_memdup(arena, b.data, b.len), b.len};
        hsp_buf_fini(&b);
        if (st != HSP_OK) {
            st = hsp_err_set(err, st, 0, "the program of rank %u is too large",
                             r % p->plan->n_ranks);
        } else if (tpl[r].data == NULL) {
            st = hsp_err_nomem(err, "the plan of an epoch");
        }
        kind[n_kinds++] = r;
    }
    *ret = tpl;
    return st;
}

static bool is_rank_of(const struct hsp_epoch_plan *p, hsp_device_id device)
{
    for (uint32_t r = 0; r < p->plan->n_ranks; r++) {
        if (p->device[r] == device) {
            return true;
        }
    }
    return false;
}

enum hsp_status hsp_epoch_tables_make(const struct hsp_epoch_plan *p,
                                      const struct hsp_epoch_plan *from,
                                      const struct hsp_epoch_net *net,
                                      const struct hsp_prepare_action *a, struct hsp_arena *arena,
                                      struct hsp_epoch_tables *ret, struct hsp_err *err)
{
    struct hsp_bsr_net places;
    uint32_t participants = p->plan->n_ranks + a->n_replica_holders; /* the owners of copies */
    struct hsp_epoch_tables *t = ret;
    *t = (struct hsp_epoch_tables){.voted = hsp_arena_array(arena, a->n_peers, sizeof *t->voted)};
    if (t->voted == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    for (uint32_t i = 0; from != NULL && i < a->n_peers; i++) {
        t->voted[i] = is_rank_of(from, a->peers[i].device);
    }
    enum hsp_status st = make_gather(p, arena, &t->gather, err);
    if (st == HSP_OK && from != NULL) {
        st = make_net(net, a, arena, &places, err);
    }
    if (st == HSP_OK && from != NULL) {
        st = make_transfer(p, from, &places, a, arena, &t->transfer, err);
    }
    if (st == HSP_OK) {
        st = list_rows(&t->gather, a->n_peers, arena, &t->gather_of, err);
    }
    if (st == HSP_OK) {
        st = list_rows(&t->transfer, a->n_peers, arena, &t->transfer_of, err);
    }
    if (st == HSP_OK) {
        st = list_rows(&p->copies, participants, arena, &t->copies_of, err);
    }
    if (st == HSP_OK) {
        st = list_rows(&p->replicas, p->plan->n_ranks, arena, &t->replicas_of, err);
    }
    return st == HSP_OK ? encode_templates(p, arena, &t->tpl, err) : st;
}

/* ---- packages ---- */

/* @ret: the rows of @peer, or all of them. */
static enum hsp_status rows_for(const struct hsp_row_lists *l, uint32_t peer, bool whole,
                                struct hsp_arena *arena, struct hsp_pkg_table *ret,
                                struct hsp_err *err)
{
    const uint32_t *list = l->row + (whole ? 0 : l->first[peer]);
    uint32_t n = whole ? l->all->n : l->first[peer + 1] - l->first[peer];
    struct hsp_pkg_row *row = hsp_arena_array(arena, n, sizeof *row);
    if (row == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_state_row *r = &l->all->row[whole ? i : list[i]];
        row[i] = (struct hsp_pkg_row){r->from, r->to, r->param, r->passed_on, r->box};
    }
    *ret = (struct hsp_pkg_table){n, row};
    return HSP_OK;
}

static enum hsp_status fill_params(const struct hsp_graph *g, struct hsp_arena *arena,
                                   struct hsp_package *pkg, struct hsp_err *err)
{
    pkg->n_params = g->n_params;
    pkg->params = hsp_arena_array(arena, g->n_params, sizeof *pkg->params);
    if (pkg->params == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    for (uint32_t i = 0; i < g->n_params; i++) {
        const struct hsp_tensor *t = &g->tensors[g->params[i].tensor];
        pkg->params[i].name = t->name;
        pkg->params[i].rank = t->rank;
        hsp_tensor_extents(g, g->params[i].tensor, 1, pkg->params[i].ext);
    }
    return HSP_OK;
}

/* @buckets: all executors of the plan know those of Reshards. */
static enum hsp_status encode_binding(const struct hsp_program *prog, bool buckets,
                                      struct hsp_buf *out)
{
    struct hsp_binding b = prog->bind;
    b.buckets = b.buckets && buckets;
    return hsp_binding_encode(&prog->tpl, &b, out);
}

/* The package with the binding of @prog behind it; NULL: of one that has no program. */
static enum hsp_status encode(const struct hsp_package *pkg, const struct hsp_program *prog,
                              bool buckets, struct hsp_buf *out, struct hsp_err *err)
{
    size_t mark;
    enum hsp_status st = hsp_package_open(pkg, out, &mark, err);
    if (st == HSP_OK && prog != NULL && encode_binding(prog, buckets, out) != HSP_OK) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "the program of rank %u is too large",
                           prog->bind.rank);
    }
    return st == HSP_OK ? hsp_package_close(out, mark, err) : st;
}

/* The programs of the further plans of a pool. */
static enum hsp_status add_shorter(const struct hsp_epoch_plan *p, const struct hsp_epoch_tables *t,
                                   uint32_t peer, bool buckets, struct hsp_arena *arena,
                                   struct hsp_package *pkg, struct hsp_err *err)
{
    uint32_t n = p->programs.n_shorter;
    enum hsp_status st = HSP_OK;
    pkg->shorter = hsp_arena_array(arena, n, sizeof *pkg->shorter);
    if (pkg->shorter == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    for (uint32_t k = 0; st == HSP_OK && k < n; k++) {
        uint32_t at = (k + 1) * p->plan->n_ranks + peer;
        const struct hsp_program *prog = program_at(p, at);
        struct hsp_buf b;
        hsp_buf_init(&b, HSP_MSG_BLOB_MAX);
        st = encode_binding(prog, buckets, &b);
        pkg->shorter[k] =
            (struct hsp_pkg_program){.tpl = t->tpl[at].data,
                                     .tpl_len = t->tpl[at].len,
                                     .binding = hsp_arena_memdup(arena, b.data, b.len),
                                     .binding_len = b.len};
        hsp_buf_fini(&b);
        if (st != HSP_OK) {
            st = hsp_err_set(err, st, 0, "the program of rank %u is too large", peer);
        } else if (pkg->shorter[k].binding == NULL) {
            st = hsp_err_nomem(err, "the plan of an epoch");
        }
    }
    pkg->n_shorter = n;
    return st;
}

enum hsp_status hsp_epoch_package(const struct hsp_epoch_plan *p, const struct hsp_epoch_tables *t,
                                  const struct hsp_package_job *job,
                                  const struct hsp_prepare_action *a, const char *const *names,
                                  uint32_t peer, struct hsp_arena *arena, struct hsp_buf *out,
                                  struct hsp_err *err)
{
    bool member = peer < p->plan->n_ranks;
    uint32_t participants = p->plan->n_ranks + a->n_replica_holders; /* the owners of copies */
    struct hsp_package pkg = {.dtype = (uint8_t)p->graph->spec.dtype,
                              .n_kinds = p->n_kinds,
                              .n_peers = a->n_peers,
                              .init_from = job->init_from,
                              .config_json = job->config_json,
                              .ckpt_keep = job->ckpt_keep,
                              .term = job->term};
    memcpy(pkg.kinds, p->kinds, sizeof pkg.kinds);
    pkg.peers = hsp_arena_array(arena, a->n_peers, sizeof *pkg.peers);
    if (pkg.peers == NULL) {
        return hsp_err_nomem(err, "the plan of an epoch");
    }
    for (uint32_t i = 0; i < a->n_peers; i++) {
        pkg.peers[i] = (struct hsp_pkg_peer){names[i], a->peers[i].address, t->voted[i], false};
    }
    for (uint32_t i = 0; i < a->n_apart; i++) {
        const struct hsp_prepare_apart *x = &a->apart[i];
        if (x->a == peer || x->b == peer) {
            pkg.peers[x->a == peer ? x->b : x->a].apart = true;
        }
    }
    bool writer = peer == 0 || peer == hsp_package_writer(pkg.peers, p->plan->n_ranks);
    enum hsp_status st = fill_params(p->graph, arena, &pkg, err);
    if (st == HSP_OK) {
        st = rows_for(&t->transfer_of, peer, false, arena, &pkg.transfer, err);
    }
    if (st == HSP_OK && peer < participants) {
        st = rows_for(&t->copies_of, peer, false, arena, &pkg.copies, err);
    }
    if (st == HSP_OK && member) {
        st = rows_for(&t->gather_of, peer, writer, arena, &pkg.gather, err);
    }
    if (st == HSP_OK && member) {
        st = rows_for(&t->replicas_of, peer, false, arena, &pkg.replicas, err);
    }
    if (member) {
        pkg.tpl = t->tpl[peer].data;
        pkg.tpl_len = t->tpl[peer].len;
    }
    if (st == HSP_OK && member) {
        st = add_shorter(p, t, peer, a->buckets, arena, &pkg, err);
    }
    if (st == HSP_OK) {
        st = encode(&pkg, member ? &p->programs.programs[peer] : NULL, a->buckets, out, err);
    }
    return st;
}
