/* What leaves an epoch: the final model, checkpoints; and a checkpoint read back. See epoch.h.
 *
 * Gathering goes through the gather table, which names each element of each parameter once: its
 * owner sends it to the writer. On a shared path each rank writes what it owns. Otherwise two
 * writers on two nodes (where there are two) each write a whole checkpoint, so that any one node
 * may go. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/host/fileio.h"
#include "worker/app/epoch.h"
#include "worker/app/metricslog.h"
#include "worker/state/ckpt.h"
#include "worker/state/safetensors.h"

enum channel { CHANNEL_GATHER = 16, CHANNEL_WRITTEN, CHANNEL_HAVE, CHANNEL_ASK, CHANNEL_ANSWER };

/* Takes one row's data of one kind at the writer. */
typedef enum hsp_status (*sink_fn)(void *ctx, const struct hsp_pkg_row *r, uint8_t kind,
                                   const void *data, struct hsp_err *err);

static size_t box_bytes(const struct hsp_epoch *e, const struct hsp_box *b)
{
    return (size_t)hsp_box_count(b) * hsp_dtype_size(e->pkg.dtype);
}

/* Copies @box of my home at @version, densely. */
static enum hsp_status read_home(const struct hsp_epoch *e, uint64_t version, uint32_t param,
                                 uint8_t kind, const struct hsp_box *box, void *dst,
                                 struct hsp_err *err)
{
    const struct hsp_state_segment *s = e->seg[version % 2];
    uint32_t i = hsp_segment_find(s, param, kind);
    if (i == UINT32_MAX) {
        return hsp_err_set(err, HSP_EPROTO, 0, "%s is not at home here", e->pkg.params[param].name);
    }
    const struct hsp_segment_row *row = hsp_segment_row(s, i);
    if (!hsp_box_inside(box, &row->box)) {
        return hsp_err_set(err, HSP_EPROTO, 0, "a part of %s is not at home here",
                           e->pkg.params[param].name);
    }
    hsp_region_copy(hsp_dtype_size(row->dtype), box, &row->box,
                    (const uint8_t *)hsp_segment_area(s) + row->offset, box, dst);
    return HSP_OK;
}

struct gather {
    struct hsp_comm *comm;
    uint32_t writer;
    uint64_t version;
    uint8_t n_kinds;
    const uint8_t *kinds;
    sink_fn sink;
    void *ctx;
};

static enum hsp_status gather_one(struct hsp_epoch *e, const struct gather *g,
                                  const struct hsp_pkg_row *r, uint8_t kind, void *buf,
                                  struct hsp_err *err)
{
    size_t n = box_bytes(e, &r->box);
    uint32_t me = e->p->rank;
    enum hsp_status st = HSP_OK;
    if (r->from == me) {
        st = read_home(e, g->version, r->param, kind, &r->box, buf, err);
        if (st == HSP_OK && me != g->writer) {
            return g->comm->ops->send(g->comm, g->writer, CHANNEL_GATHER, buf, n, err);
        }
    } else if (me == g->writer) {
        st = g->comm->ops->recv(g->comm, r->from, CHANNEL_GATHER, buf, n, err);
    }
    return st == HSP_OK && me == g->writer ? g->sink(g->ctx, r, kind, buf, err) : st;
}

static enum hsp_status gather(struct hsp_epoch *e, const struct gather *g, struct hsp_err *err)
{
    size_t max = 1;
    for (uint32_t i = 0; i < e->pkg.gather.n; i++) {
        size_t n = box_bytes(e, &e->pkg.gather.row[i].box);
        max = n > max ? n : max;
    }
    void *buf = malloc(max);
    enum hsp_status st = buf != NULL ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "out of memory");
    for (uint32_t i = 0; st == HSP_OK && i < e->pkg.gather.n; i++) {
        for (uint8_t k = 0; st == HSP_OK && k < g->n_kinds; k++) {
            st = gather_one(e, g, &e->pkg.gather.row[i], g->kinds[k], buf, err);
        }
    }
    free(buf);
    return st;
}

/* ---- the final model ---- */

struct model_file {
    const struct hsp_epoch *e;
    struct hsp_st_writer *w;
};

/* Writes a box into a whole tensor of the file, run by run. */
static enum hsp_status model_sink(void *ctx, const struct hsp_pkg_row *r, uint8_t kind,
                                  const void *data, struct hsp_err *err)
{
    struct model_file *f = ctx;
    const struct hsp_pkg_param *p = &f->e->pkg.params[r->param];
    struct hsp_box whole = hsp_box_whole(p->rank, p->ext);
    size_t elem = hsp_dtype_size(f->e->pkg.dtype);
    struct hsp_walk w;
    int64_t from, to;
    enum hsp_status st = HSP_OK;
    (void)kind;
    hsp_walk_init(&w, &r->box, &r->box, &whole);
    while (st == HSP_OK && hsp_walk_next(&w, &from, &to)) {
        st = hsp_st_write(f->w, r->param, (uint64_t)to * elem,
                          (const uint8_t *)data + (size_t)from * elem, (size_t)w.run * elem, err);
    }
    return st;
}

static enum hsp_status make_dirs(const char *path, struct hsp_err *err)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    for (size_t i = 1; i <= len && len < sizeof part; i++) {
        if (path[i] == '/' || path[i] == '\0') {
            memcpy(part, path, i);
            part[i] = '\0';
            if (mkdir(part, 0755) != 0 && errno != EEXIST) {
                return hsp_err_set(err, HSP_EIO, errno, "cannot create folder %s", part);
            }
        }
    }
    return HSP_OK;
}

static enum hsp_status open_model(struct hsp_epoch *e, const char *path, struct hsp_st_writer **ret,
                                  struct hsp_err *err)
{
    struct hsp_st_entry *entries = calloc(e->pkg.n_params, sizeof *entries);
    struct hsp_st_meta meta = {"format", "pt"};
    if (entries == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "out of memory for the final model");
    }
    for (uint32_t i = 0; i < e->pkg.n_params; i++) {
        entries[i] = (struct hsp_st_entry){
            .name = e->pkg.params[i].name, .dtype = e->pkg.dtype, .rank = e->pkg.params[i].rank};
        memcpy(entries[i].ext, e->pkg.params[i].ext, sizeof entries[i].ext);
    }
    enum hsp_status st = hsp_st_create(path, entries, e->pkg.n_params, &meta, 1, ret, err);
    free(entries);
    return st;
}

/* Closes the model under its final name, or takes it away. */
static enum hsp_status close_model(struct hsp_st_writer *w, enum hsp_status st, const char *tmp,
                                   const char *path, struct hsp_err *err)
{
    if (w == NULL) {
        return st;
    }
    if (st != HSP_OK) {
        (void)hsp_st_discard(w);
        return st;
    }
    st = hsp_st_finish(w, err);
    if (st == HSP_OK && rename(tmp, path) != 0) {
        st = hsp_err_set(err, HSP_EIO, errno, "cannot rename %s", tmp);
    }
    return st;
}

static enum hsp_status write_texts(struct hsp_epoch *e, const char *dir,
                                   const struct hsp_buf *metrics, struct hsp_err *err)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/config.json", dir);
    enum hsp_status st =
        hsp_file_write(path, e->pkg.config_json, strlen(e->pkg.config_json), 0644, err);
    if (st == HSP_OK) {
        (void)snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
        st = hsp_file_write(path, metrics->data, metrics->len, 0644, err);
    }
    return st;
}

enum hsp_status hsp_epoch_write_final(struct hsp_epoch *e, struct hsp_buf *metrics,
                                      struct hsp_err *err)
{
    static const uint8_t params_only[] = {HSP_STATE_PARAM};
    char dir[PATH_MAX / 2], tmp[PATH_MAX], path[PATH_MAX];
    struct model_file f = {.e = e};
    struct gather g = {.comm = e->mesh[HSP_MESH_DATA],
                       .writer = 0,
                       .version = e->p->steps,
                       .n_kinds = 1,
                       .kinds = params_only,
                       .sink = model_sink,
                       .ctx = &f};
    enum hsp_status st = HSP_OK;
    (void)snprintf(dir, sizeof dir, "%s/%s/final", e->p->checkpoint_path, e->p->job_name);
    (void)snprintf(tmp, sizeof tmp, "%s/model.safetensors.tmp", dir);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (e->p->rank == 0 && (st = make_dirs(dir, err)) == HSP_OK) {
        st = open_model(e, tmp, &f.w, err);
    }
    if (st == HSP_OK) {
        st = gather(e, &g, err);
    }
    st = close_model(f.w, st, tmp, path, err);
    if (st == HSP_OK) {
        st = hsp_metrics_merge(e, metrics, err);
    }
    if (st == HSP_OK && e->p->rank == 0) {
        st = write_texts(e, dir, metrics, err);
    }
    return st;
}

/* ---- checkpoints ---- */

/* The pieces of a checkpoint a rank writes, with their data. */
struct pieces {
    const struct hsp_epoch *e;
    size_t n, cap;
    struct hsp_ckpt_piece *p;
    enum hsp_status failed;
};

static enum hsp_status piece_sink(void *ctx, const struct hsp_pkg_row *r, uint8_t kind,
                                  const void *data, struct hsp_err *err)
{
    struct pieces *s = ctx;
    size_t bytes = box_bytes(s->e, &r->box);
    void *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL || s->n == s->cap) {
        free(copy);
        return hsp_err_set(err, HSP_ENOMEM, 0, "out of memory for a checkpoint");
    }
    memcpy(copy, data, bytes);
    s->p[s->n++] = (struct hsp_ckpt_piece){.name = s->e->pkg.params[r->param].name,
                                           .tensor = r->param,
                                           .kind = kind,
                                           .dtype = s->e->pkg.dtype,
                                           .full = s->e->pkg.params[r->param].ext,
                                           .box = r->box,
                                           .held = r->box,
                                           .data = copy};
    return HSP_OK;
}

static enum hsp_status pieces_init(const struct hsp_epoch *e, struct pieces *s, struct hsp_err *err)
{
    s->e = e;
    s->cap = (size_t)e->pkg.gather.n * e->pkg.n_kinds;
    s->p = calloc(s->cap + 1, sizeof *s->p);
    return s->p != NULL ? HSP_OK
                        : hsp_err_set(err, HSP_ENOMEM, 0, "out of memory for a checkpoint");
}

static void pieces_fini(struct pieces *s)
{
    for (size_t i = 0; s->p != NULL && i < s->n; i++) {
        free((void *)(uintptr_t)s->p[i].data); /* ours: made by piece_sink */
    }
    free(s->p);
}

static void ckpt_about(const struct hsp_epoch *e, uint64_t version, uint32_t n_ranks,
                       struct hsp_ckpt_info *ret)
{
    memset(ret, 0, sizeof *ret);
    (void)snprintf(ret->job, sizeof ret->job, "%s", e->p->job_name);
    ret->step = version;
    ret->term = e->pkg.term;
    ret->epoch = e->number;
    ret->n_ranks = n_ranks;
    ret->n_params = e->pkg.n_params;
}

static void ckpt_dir(const struct hsp_epoch *e, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/%s", e->p->checkpoint_path, e->p->job_name);
}

static enum hsp_status commit(const struct hsp_epoch *e, const char *dir,
                              const struct hsp_ckpt_info *info, struct hsp_err *err)
{
    enum hsp_status st = hsp_ckpt_commit(dir, info, e->pkg.config_json, err);
    if (st == HSP_EEXIST) {
        st = HSP_OK; /* the same version of the same job was written before a roll-back */
    }
    return st == HSP_OK ? hsp_ckpt_prune(dir, e->pkg.ckpt_keep > 0 ? e->pkg.ckpt_keep : 1, err)
                        : st;
}

/* Rank 0 collects how the writers fared; everybody returns its own link's fate, rank 0 the worst.
 */
static enum hsp_status collect(struct hsp_epoch *e, const bool *writes, enum hsp_status mine,
                               struct hsp_err *err)
{
    int32_t code = mine;
    struct hsp_err link = {0};
    enum hsp_status st = HSP_OK;
    if (e->p->rank != 0) {
        return writes[e->p->rank]
                   ? e->mesh[HSP_MESH_STATE]->ops->send(e->mesh[HSP_MESH_STATE], 0, CHANNEL_WRITTEN,
                                                        &code, sizeof code, err)
                   : HSP_OK;
    }
    enum hsp_status worst = mine;
    for (uint32_t r = 1; st == HSP_OK && r < e->p->n_ranks; r++) {
        if (writes[r] &&
            (st = e->mesh[HSP_MESH_STATE]->ops->recv(e->mesh[HSP_MESH_STATE], r, CHANNEL_WRITTEN,
                                                     &code, sizeof code, &link)) == HSP_OK &&
            code != HSP_OK && worst == HSP_OK) {
            worst =
                hsp_err_set(err, HSP_EIO, 0, "%s could not write its part", e->pkg.peers[r].name);
        }
    }
    if (st != HSP_OK && err != NULL) {
        *err = link;
    }
    return st != HSP_OK ? st : worst;
}

static enum hsp_status write_shared(struct hsp_epoch *e, uint64_t version, uint64_t *bytes,
                                    bool *writes, struct hsp_err *err)
{
    char dir[PATH_MAX];
    struct hsp_ckpt_info info;
    struct pieces s = {0};
    ckpt_dir(e, dir);
    ckpt_about(e, version, e->p->n_ranks, &info);
    enum hsp_status st = pieces_init(e, &s, err);
    for (uint32_t i = 0; st == HSP_OK && i < e->pkg.gather.n; i++) {
        const struct hsp_pkg_row *r = &e->pkg.gather.row[i];
        for (uint8_t k = 0; st == HSP_OK && r->from == e->p->rank && k < e->pkg.n_kinds; k++) {
            void *buf = malloc(box_bytes(e, &r->box) + 1);
            st = buf != NULL ? read_home(e, version, r->param, e->pkg.kinds[k], &r->box, buf, err)
                             : hsp_err_set(err, HSP_ENOMEM, 0, "out of memory");
            if (st == HSP_OK) {
                st = piece_sink(&s, r, e->pkg.kinds[k], buf, err);
            }
            free(buf);
        }
    }
    if (st == HSP_OK && (st = make_dirs(dir, err)) == HSP_OK) {
        st = hsp_ckpt_write_shard(dir, &info, e->p->rank, s.p, s.n, bytes, err);
    }
    pieces_fini(&s);
    memset(writes, 1, e->p->n_ranks);
    st = collect(e, writes, st, err);
    return st == HSP_OK && e->p->rank == 0 ? commit(e, dir, &info, err) : st;
}

/* The node's part of NODE/INDEX. */
static bool same_node(const char *a, const char *b)
{
    size_t n = strcspn(a, "/");
    return n == strcspn(b, "/") && strncmp(a, b, n) == 0;
}

/* Rank 0 and the first rank of another node. */
static void pick_writers(const struct hsp_epoch *e, bool *writes)
{
    writes[0] = true;
    for (uint32_t r = 1; r < e->p->n_ranks; r++) {
        if (!same_node(e->pkg.peers[0].name, e->pkg.peers[r].name)) {
            writes[r] = true;
            return;
        }
    }
}

static enum hsp_status write_whole(struct hsp_epoch *e, uint64_t version, const struct pieces *s,
                                   uint64_t *bytes, struct hsp_err *err)
{
    char dir[PATH_MAX];
    struct hsp_ckpt_info info;
    ckpt_dir(e, dir);
    ckpt_about(e, version, 1, &info);
    enum hsp_status st = make_dirs(dir, err);
    if (st == HSP_OK) {
        st = hsp_ckpt_write_shard(dir, &info, 0, s->p, s->n, bytes, err);
    }
    return st == HSP_OK ? commit(e, dir, &info, err) : st;
}

static enum hsp_status write_private(struct hsp_epoch *e, uint64_t version, uint64_t *bytes,
                                     bool *writes, struct hsp_err *err)
{
    enum hsp_status mine = HSP_OK, st = HSP_OK;
    pick_writers(e, writes);
    for (uint32_t w = 0; st == HSP_OK && w < e->p->n_ranks; w++) {
        struct pieces s = {0};
        struct gather g = {.comm = e->mesh[HSP_MESH_STATE],
                           .writer = w,
                           .version = version,
                           .n_kinds = e->pkg.n_kinds,
                           .kinds = e->pkg.kinds,
                           .sink = piece_sink,
                           .ctx = &s};
        if (!writes[w]) {
            continue;
        }
        st = pieces_init(e, &s, err);
        if (st == HSP_OK) {
            st = gather(e, &g, err);
        }
        if (st == HSP_OK && w == e->p->rank) {
            mine = write_whole(e, version, &s, bytes, err);
        }
        pieces_fini(&s);
    }
    return st == HSP_OK ? collect(e, writes, mine, err) : st;
}

enum hsp_status hsp_epoch_checkpoint(struct hsp_epoch *e, uint64_t version, uint64_t *ret_bytes,
                                     struct hsp_err *err)
{
    bool *writes = calloc(e->p->n_ranks, sizeof *writes);
    if (writes == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "out of memory for a checkpoint");
    }
    enum hsp_status st = e->p->checkpoint_shared
                             ? write_shared(e, version, ret_bytes, writes, err)
                             : write_private(e, version, ret_bytes, writes, err);
    free(writes);
    return st;
}

/* ---- a checkpoint read back ---- */

static enum hsp_status read_part(const struct hsp_epoch *e, const struct hsp_ckpt *c,
                                 uint32_t param, uint8_t kind, const struct hsp_box *box, void *dst,
                                 struct hsp_err *err)
{
    const struct hsp_ckpt_tensor *t = hsp_ckpt_find(c, e->pkg.params[param].name, kind);
    if (t == NULL || t->dtype != e->pkg.dtype) {
        return hsp_err_set(err, HSP_ENOENT, 0, "the checkpoint has no fitting %s",
                           e->pkg.params[param].name);
    }
    return hsp_ckpt_read(c, t, box, box, dst, err);
}

/* A part this rank asks for, as it travels. */
struct ask {
    uint32_t param, kind, rank, more;
    int64_t lo[HSP_MAX_RANK], hi[HSP_MAX_RANK];
};

/* Serves one rank until it asks for no more. */
static enum hsp_status answer(struct hsp_epoch *e, const struct hsp_ckpt *c, uint32_t peer,
                              struct hsp_err *err)
{
    for (;;) {
        struct ask a;
        struct hsp_box box = {0};
        enum hsp_status st = e->mesh[HSP_MESH_STATE]->ops->recv(e->mesh[HSP_MESH_STATE], peer,
                                                                CHANNEL_ASK, &a, sizeof a, err);
        if (st != HSP_OK || a.more == 0) {
            return st;
        }
        if (a.param >= e->pkg.n_params || a.rank != e->pkg.params[a.param].rank) {
            return hsp_err_set(err, HSP_EPROTO, 0, "%s asks for what is not there",
                               e->pkg.peers[peer].name);
        }
        box.rank = (uint8_t)a.rank;
        memcpy(box.lo, a.lo, sizeof box.lo);
        memcpy(box.hi, a.hi, sizeof box.hi);
        struct hsp_box whole = hsp_box_whole(box.rank, e->pkg.params[a.param].ext);
        if (!hsp_box_inside(&box, &whole)) {
            return hsp_err_set(err, HSP_EPROTO, 0, "%s asks for what is not there",
                               e->pkg.peers[peer].name);
        }
        void *buf = malloc(box_bytes(e, &box) + 1);
        st = buf != NULL ? read_part(e, c, a.param, (uint8_t)a.kind, &box, buf, err)
                         : hsp_err_set(err, HSP_ENOMEM, 0, "out of memory");
        if (st == HSP_OK) {
            st = e->mesh[HSP_MESH_STATE]->ops->send(e->mesh[HSP_MESH_STATE], peer, CHANNEL_ANSWER,
                                                    buf, box_bytes(e, &box), err);
        }
        free(buf);
        if (st != HSP_OK) {
            return st;
        }
    }
}

/* Fills my home from my own checkpoint @c, or from rank @server's. */
static enum hsp_status fill_home(struct hsp_epoch *e, uint64_t version, const struct hsp_ckpt *c,
                                 uint32_t server, struct hsp_err *err)
{
    struct hsp_state_segment *s = e->seg[version % 2];
    enum hsp_status st = HSP_OK;
    hsp_segment_unseal(s);
    for (uint32_t i = 0; st == HSP_OK && i < hsp_segment_n(s); i++) {
        const struct hsp_segment_row *row = hsp_segment_row(s, i);
        void *dst = (uint8_t *)hsp_segment_area(s) + row->offset;
        struct ask a = {.param = row->tensor, .kind = row->kind, .rank = row->box.rank, .more = 1};
        if (hsp_box_empty(&row->box)) {
            continue;
        }
        if (c != NULL) {
            st = read_part(e, c, row->tensor, row->kind, &row->box, dst, err);
            continue;
        }
        memcpy(a.lo, row->box.lo, sizeof a.lo);
        memcpy(a.hi, row->box.hi, sizeof a.hi);
        st = e->mesh[HSP_MESH_STATE]->ops->send(e->mesh[HSP_MESH_STATE], server, CHANNEL_ASK, &a,
                                                sizeof a, err);
        if (st == HSP_OK) {
            st = e->mesh[HSP_MESH_STATE]->ops->recv(e->mesh[HSP_MESH_STATE], server, CHANNEL_ANSWER,
                                                    dst, box_bytes(e, &row->box), err);
        }
    }
    if (st == HSP_OK && c == NULL) {
        struct ask end = {0};
        st = e->mesh[HSP_MESH_STATE]->ops->send(e->mesh[HSP_MESH_STATE], server, CHANNEL_ASK, &end,
                                                sizeof end, err);
    }
    if (st == HSP_OK) {
        hsp_segment_seal(s, version);
    }
    return st;
}

/* Who has the checkpoint: have[rank]. */
static enum hsp_status exchange_have(struct hsp_epoch *e, uint8_t *have, struct hsp_err *err)
{
    uint32_t me = e->p->rank;
    enum hsp_status st = HSP_OK;
    for (uint32_t r = 0; st == HSP_OK && r < e->p->n_ranks; r++) {
        if (r != me) {
            st = e->mesh[HSP_MESH_STATE]->ops->send(e->mesh[HSP_MESH_STATE], r, CHANNEL_HAVE,
                                                    &have[me], 1, err);
        }
    }
    for (uint32_t r = 0; st == HSP_OK && r < e->p->n_ranks; r++) {
        if (r != me) {
            st = e->mesh[HSP_MESH_STATE]->ops->recv(e->mesh[HSP_MESH_STATE], r, CHANNEL_HAVE,
                                                    &have[r], 1, err);
        }
    }
    return st;
}

enum hsp_status hsp_epoch_restore(struct hsp_epoch *e, uint64_t version, struct hsp_err *err)
{
    char dir[PATH_MAX];
    struct hsp_ckpt *c = NULL;
    struct hsp_err why = {0};
    uint32_t server = 0;
    uint8_t *have = calloc(e->p->n_ranks, 1);
    if (have == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "out of memory");
    }
    ckpt_dir(e, dir);
    have[e->p->rank] = hsp_ckpt_open(dir, version, &c, &why) == HSP_OK;
    enum hsp_status st = exchange_have(e, have, err);
    while (server < e->p->n_ranks && !have[server]) {
        server++;
    }
    if (st == HSP_OK && server == e->p->n_ranks) {
        st = hsp_err_set(err, HSP_ENOENT, 0, "no member has the checkpoint: %s", why.msg);
    }
    if (st == HSP_OK && (c != NULL || server != e->p->rank)) {
        st = fill_home(e, version, c, server, err);
    }
    for (uint32_t r = 0; st == HSP_OK && e->p->rank == server && r < e->p->n_ranks; r++) {
        if (!have[r]) {
            st = answer(e, c, r, err);
        }
    }
    (void)hsp_ckpt_close(c);
    free(have);
    return st;
}
