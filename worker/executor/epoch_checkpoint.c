/* On a path that all nodes share, each rank writes its own parts directly from its home. On other
 * paths two *writers* on two nodes (if the job has two nodes) each write a complete checkpoint, so
 * that one survives the loss of a node. All ranks first send the hashes of the parts that they own,
 * and the writer puts these hashes at the begin of the file. Then the ranks send the data in slabs
 * (hsp_epoch_gather), and the writer hashes each slab again. All files are written by a disk thread
 * (ckpt_writer.h), since a call to a file system may hang.
 *
 * Example: ranks 0 and 1 are on nodes n0 and n1 and own 100 MiB each. Rank 0 receives the hashes of
 * rank 1, then 25 slabs of 4 MiB, and commits its checkpoint. Then rank 1 writes its own checkpoint
 * in the same way. */
#include "worker/executor/epoch_checkpoint.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/str.h"
#include "proto/layout/box.h"
#include "worker/data/documents.h"
#include "worker/executor/ckpt_writer.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_export.h"
#include "worker/executor/epoch_verify.h"
#include "worker/executor/folder_mark.h"
#include "worker/state/box_hash.h"
#include "worker/state/ckpt.h"
#include "worker/state/region.h"

enum channel { CHANNEL_WRITTEN = HSP_CHANNEL_GATHER + 1, CHANNEL_HASH };

/* The pieces of a checkpoint (one kind of one row of the gather table), ordered by row and then by
 * kind. A rank that writes a complete checkpoint lists all pieces; in a shared checkpoint each rank
 * keeps only the pieces that it owns. */
struct pieces {
    size_t n;
    struct hsp_ckpt_piece *p;
};

static enum hsp_status pieces_init(const struct hsp_ex_epoch *e, struct pieces *s,
                                   struct hsp_err *err)
{
    *s = (struct pieces){.p = calloc((size_t)e->pkg.gather.n * e->pkg.n_kinds + 1, sizeof *s->p)};
    if (s->p == NULL) {
        return hsp_err_nomem(err, "a checkpoint");
    }
    for (uint32_t i = 0; i < e->pkg.gather.n; i++) {
        const struct hsp_pkg_row *r = &e->pkg.gather.row[i];
        for (uint8_t k = 0; k < e->pkg.n_kinds; k++) {
            s->p[s->n++] = (struct hsp_ckpt_piece){.name = e->pkg.params[r->param].name,
                                                   .tensor = r->param,
                                                   .kind = e->pkg.kinds[k],
                                                   .dtype = e->pkg.dtype,
                                                   .full = e->pkg.params[r->param].ext,
                                                   .box = r->box,
                                                   .held = r->box};
        }
    }
    return HSP_OK;
}

static uint32_t owner_of(const struct hsp_ex_epoch *e, size_t piece)
{
    return e->pkg.gather.row[piece / e->pkg.n_kinds].from;
}

/* Makes @p, a piece that this rank owns, point to its data in this rank's home. */
static enum hsp_status at_home(const struct hsp_ex_epoch *e, uint64_t version,
                               struct hsp_ckpt_piece *p, struct hsp_err *err)
{
    const struct hsp_segment_row *row;
    enum hsp_status st =
        hsp_epoch_home_row(e, version, p->tensor, p->kind, &p->box, &row, &p->data, err);
    if (st == HSP_OK) {
        p->held = row->box;
    }
    return st;
}

static void ckpt_about(const struct hsp_ex_epoch *e, uint64_t version, uint32_t n_ranks,
                       struct hsp_ckpt_info *ret)
{
    memset(ret, 0, sizeof *ret);
    (void)snprintf(ret->job, sizeof ret->job, "%s", e->p->job_name);
    ret->step = version;
    ret->term = e->pkg.term;
    ret->epoch = e->number;
    ret->n_ranks = n_ranks;
    ret->n_params = e->pkg.n_params;
    ret->job_id = e->p->job;
    ret->whose = (struct hsp_whose){e->p->ckpt_cluster, e->p->generation};
    ret->old_name = e->p->ckpt_old_name;
}

/* Returns true if no other epoch of this executor is writing a checkpoint: then unfinished files
 * are left-overs of failed attempts. */
static bool writes_alone(const struct hsp_ex_epoch *e)
{
    return atomic_load(&e->env->writing) == 1;
}

/* Returns the version below which a rank may delete left-overs before it writes @version to a
 * shared path. Rank 0 deletes those of all ranks. The other ranks delete, too, because against the
 * configuration the path may not be shared, and then no other rank sees their files. These ranks
 * keep the files of the previous attempt, which rank 0 may still commit. */
static uint64_t sweeps(const struct hsp_ex_epoch *e, uint64_t version)
{
    return !writes_alone(e) ? 0 : e->p->rank == 0 ? version : e->ckpt_written;
}

static enum hsp_status commit(struct hsp_ex_epoch *e, struct hsp_ckpt_writer *w, uint64_t version,
                              uint64_t *ret_content, struct hsp_err *err)
{
    char dir[PATH_MAX];
    struct hsp_data_cursor data;
    struct hsp_ckpt_done done = {0};
    struct hsp_err old = {0};
    hsp_epoch_ckpt_dir(e, dir);
    enum hsp_status st = hsp_epoch_cursor(e, version, &data, err);
    if (st == HSP_OK) {
        st = hsp_ckpt_writer_commit(w, &data, &done, err);
    }
    if (st == HSP_OK) {
        *ret_content = done.content;
    }
    if (st == HSP_OK && done.aside != 0) {
        hsp_log(e->env->log, HSP_LOG_NOTICE, "executor",
                "%s: job %u had the name of job %u: its step %" PRIu64
                " is kept as step-%010" PRIu64 ".job-%u",
                dir, done.aside, e->p->job, version, version, done.aside);
    }
    if (st == HSP_OK && writes_alone(e) && hsp_ckpt_writer_prune(w, &old) != HSP_OK) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "an old checkpoint of job %u stays: %s",
                e->p->job, old.msg); /* the new checkpoint is committed */
    }
    return st;
}

/* Logs a failure on a rank other than 0; rank 0 gets only its code. */
static void log_failure(const struct hsp_ex_epoch *e, enum hsp_status st, const struct hsp_err *why)
{
    if (st != HSP_OK && st != HSP_ECANCELED && e->p->rank != 0) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "a checkpoint of job %u is not written: %s",
                e->p->job, why->msg);
    }
}

/* The ranks that could not write their files; collected at rank 0. */
struct unable {
    uint32_t first, n; /* the first rank; the number of ranks with the same code */
    int32_t code;      /* code of the first rank; HSP_OK: all could write */
};

static void count_unable(struct unable *u, uint32_t r, int32_t code)
{
    if (code != HSP_OK && u->code == HSP_OK) {
        *u = (struct unable){.first = r, .code = code};
    }
    u->n += code != HSP_OK && code == u->code;
}

static enum hsp_status blame(const struct hsp_ex_epoch *e, const struct unable *u,
                             struct hsp_err *err)
{
    char dir[PATH_MAX], more[32] = "";
    const char *who = e->pkg.peers[u->first].name;
    hsp_epoch_ckpt_dir(e, dir);
    if (u->n > 1) {
        (void)snprintf(more, sizeof more, " and %u more", u->n - 1);
    }
    switch (u->code) {
    case HSP_ECANCELED: return hsp_err_set(err, HSP_ECANCELED, 0, "the epoch is over");
    case HSP_ENOENT:
        return hsp_err_set(
            err, HSP_EIO, 0,
            "%s%s: %s is not there, but is on %s: mount checkpoint.path on all nodes", who, more,
            dir, e->pkg.peers[0].name);
    case HSP_ETIMEDOUT:
        return hsp_err_set(err, HSP_EIO, 0, "%s%s: %s does not answer; is its file server up?", who,
                           more, dir);
    default:
        return hsp_err_set(err, HSP_EIO, 0,
                           "%s%s could not write to %s: the log of hspmd-worker there says why",
                           who, more, dir);
    }
}

/* Collects the results of the writers at rank 0. *disk: in: the result of this rank's disk; out, at
 * rank 0: the first failure of all ranks. Returns errors of the links only. */
static enum hsp_status collect(struct hsp_ex_epoch *e, const bool *writes, enum hsp_status *disk,
                               struct hsp_err *err)
{
    /* when the epoch is over, the wait for the disk ends early: the disk has not failed */
    int32_t code = *disk == HSP_ETIMEDOUT && hsp_epoch_is_over(e) ? HSP_ECANCELED : *disk;
    struct unable others = {0};
    struct hsp_err link = {0};
    enum hsp_status st = HSP_OK;
    if (*disk != HSP_OK) {
        log_failure(e, code, err);
        (void)hsp_err_wrap(err, "%s", e->pkg.peers[e->p->rank].name);
    }
    if (e->p->rank != 0) {
        return writes[e->p->rank]
                   ? e->mesh[HSP_MESH_STATE]->ops->send(e->mesh[HSP_MESH_STATE], 0, CHANNEL_WRITTEN,
                                                        &code, sizeof code, err)
                   : HSP_OK;
    }
    for (uint32_t r = 1; st == HSP_OK && r < e->p->n_ranks; r++) {
        if (writes[r] &&
            (st = e->mesh[HSP_MESH_STATE]->ops->recv(e->mesh[HSP_MESH_STATE], r, CHANNEL_WRITTEN,
                                                     &code, sizeof code, &link)) == HSP_OK) {
            count_unable(&others, r, code);
        }
    }
    if (st == HSP_OK && *disk == HSP_OK && others.code != HSP_OK) {
        *disk = blame(e, &others, err);
    }
    if (st != HSP_OK && err != NULL) {
        *err = link;
    }
    return st;
}

/* Takes the hashes of this rank's parts from the seal of its home. The parts were just compared
 * with this seal. */
static enum hsp_status own_hashes(const struct hsp_ex_epoch *e, struct pieces *s, uint64_t version,
                                  struct hsp_err *err)
{
    const struct hsp_state_segment *home = hsp_epoch_home(e, version);
    enum hsp_status st = HSP_OK;
    for (size_t i = 0; st == HSP_OK && i < s->n; i++) {
        struct hsp_ckpt_piece p = s->p[i];
        if (owner_of(e, i) != e->p->rank || (st = at_home(e, version, &p, err)) != HSP_OK) {
            continue;
        }
        struct hsp_box_id id = {p.tensor, p.kind, p.dtype, p.full};
        s->p[i].hash =
            hsp_box_equal(&p.box, &p.held)
                ? hsp_segment_row_hash(home, hsp_segment_find(home, p.tensor, p.kind, &p.box))
                : hsp_box_hash(&id, &p.box, &p.held, p.data);
    }
    return st;
}

/* Writes the parts from the home of this rank slab by slab. */
static enum hsp_status put_parts(struct hsp_ckpt_writer *w, const struct hsp_ckpt_piece *p,
                                 size_t n, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        struct hsp_slabs s;
        struct hsp_box slab;
        hsp_slabs_init(&s, &p[i].box, hsp_dtype_size(p[i].dtype), HSP_GATHER_BYTES);
        while (st == HSP_OK && hsp_slabs_next(&s, &slab)) {
            st = hsp_ckpt_writer_put(w, i, &slab, &p[i].held, p[i].data, err);
        }
    }
    return st;
}

/* Writes the parts of this rank; @w is open after the call. The parts were compared with the seal,
 * and the file gets the hashes of the seal. If the writer finds that a part has changed since
 * (HSP_EDIGEST), the complete home is compared again. Returns the result of that comparison; *disk
 * is the result of the writing. */
static enum hsp_status write_parts(struct hsp_ex_epoch *e, uint64_t version,
                                   const struct hsp_ckpt_info *info, struct pieces *s,
                                   struct hsp_ckpt_writer *w, uint64_t *ret_bytes,
                                   enum hsp_status *disk, struct hsp_err *err)
{
    struct hsp_err why = {0};
    size_t mine = 0;
    *disk = own_hashes(e, s, version, err);
    for (size_t i = 0; *disk == HSP_OK && i < s->n; i++) {
        if (owner_of(e, i) == e->p->rank) {
            s->p[mine] = s->p[i];
            *disk = at_home(e, version, &s->p[mine++], err);
        }
    }
    if (*disk == HSP_OK) {
        const struct hsp_ckpt_order o = {
            .info = info, .rank = e->p->rank, .p = s->p, .n = mine, .sweeps = sweeps(e, version)};
        e->ckpt_written = version;
        *disk = hsp_ckpt_writer_open(e, &o, w, err);
    }
    *disk = *disk == HSP_OK ? put_parts(w, s->p, mine, err) : *disk;
    *disk = *disk == HSP_OK ? hsp_ckpt_writer_close(w, ret_bytes, err) : *disk;
    enum hsp_status st =
        *disk == HSP_EDIGEST ? hsp_epoch_verify_home(e, version, e->pkg.n_kinds, &why) : HSP_OK;
    return st == HSP_OK ? st : hsp_err_set(err, st, 0, "%s", why.msg);
}

static enum hsp_status write_shared(struct hsp_ex_epoch *e, uint64_t version,
                                    struct hsp_ckpt_sum *ret, bool *writes, enum hsp_status *disk,
                                    struct hsp_err *err)
{
    struct hsp_ckpt_info info;
    struct hsp_ckpt_writer w = {0};
    struct pieces s = {0};
    bool abandon = false;
    ckpt_about(e, version, e->p->n_ranks, &info);
    *disk = pieces_init(e, &s, err);
    enum hsp_status st =
        *disk == HSP_OK ? hsp_epoch_verify_home(e, version, e->pkg.n_kinds, err) : HSP_OK;
    if (st == HSP_OK && *disk == HSP_OK) {
        st = write_parts(e, version, &info, &s, &w, &ret->bytes, disk, err);
    }
    free(s.p);
    if (st == HSP_OK) { /* after an error the epoch ends, and the other ranks see a lost peer */
        memset(writes, 1, e->p->n_ranks);
        st = collect(e, writes, disk, err);
        if (st == HSP_OK && *disk == HSP_OK && e->p->rank == 0 &&
            (*disk = commit(e, &w, version, &ret->content, err)) != HSP_OK) {
            if (*disk == HSP_EDIGEST && e->p->n_ranks > 1) { /* although all ranks have written */
                (void)hsp_err_wrap(err, "some written files are not seen here: checkpoint.path "
                                        "must be one folder on all nodes (or shared: false)");
            }
            (void)hsp_err_wrap(err, "%s", e->pkg.peers[0].name);
        }
        /* no rank writes files of this attempt any more */
        abandon = st == HSP_OK && *disk != HSP_OK && e->p->rank == 0;
    }
    hsp_ckpt_writer_end(&w, abandon);
    return st;
}

/* ---- one whole checkpoint, streamed ---- */

/* The state of a writer. If its disk fails, the writer stops writing and goes on receiving, because
 * the other ranks go on sending their slabs. */
struct stream {
    const struct hsp_ex_epoch *e;
    struct hsp_ckpt_writer out;
    enum hsp_status status; /* status of the disk */
    struct hsp_err why;
};

static enum hsp_status stream_sink(void *ctx, uint32_t row, uint8_t kind,
                                   const struct hsp_box *slab, const void *data,
                                   struct hsp_err *err)
{
    struct stream *s = ctx;
    (void)err;
    if (s->status == HSP_OK) {
        size_t piece = (size_t)row * s->e->pkg.n_kinds + kind;
        s->status = hsp_ckpt_writer_put(&s->out, piece, slab, slab, data, &s->why);
    }
    return HSP_OK;
}

/* Copies the hashes of rank @owner's pieces from @list (@take) or to @list, in the order of the
 * pieces. Returns the number of these pieces. */
static uint64_t list_hashes(const struct hsp_ex_epoch *e, struct pieces *s, uint32_t owner,
                            uint64_t *list, bool take)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (owner_of(e, i) != owner) {
            continue;
        }
        if (take) {
            s->p[i].hash = list[n];
        } else {
            list[n] = s->p[i].hash;
        }
        n++;
    }
    return n;
}

/* Sends the number of this rank's hashes to the writer, then the hashes. A rank without pieces
 * sends the number 0. So each writer waits until all ranks have finished with the writer before
 * it. */
static enum hsp_status send_hashes(struct hsp_ex_epoch *e, struct pieces *s, uint32_t writer,
                                   uint64_t *list, struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_STATE];
    uint64_t n = list_hashes(e, s, e->p->rank, list, false);
    enum hsp_status st = comm->ops->send(comm, writer, CHANNEL_HASH, &n, sizeof n, err);
    return st == HSP_OK && n > 0
               ? comm->ops->send(comm, writer, CHANNEL_HASH, list, n * sizeof *list, err)
               : st;
}

static enum hsp_status take_hashes(struct hsp_ex_epoch *e, struct pieces *s, uint32_t from,
                                   uint64_t *list, struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_STATE];
    uint64_t n = 0, want = list_hashes(e, s, from, list, false);
    enum hsp_status st = comm->ops->recv(comm, from, CHANNEL_HASH, &n, sizeof n, err);
    if (st == HSP_OK && n != want) {
        st = hsp_err_set(err, HSP_EPROTO, 0, "%s has %" PRIu64 " pieces of state, not %" PRIu64,
                         e->pkg.peers[from].name, n, want);
    }
    if (st == HSP_OK && n > 0) {
        st = comm->ops->recv(comm, from, CHANNEL_HASH, list, n * sizeof *list, err);
    }
    if (st == HSP_OK) {
        (void)list_hashes(e, s, from, list, true);
    }
    return st;
}

/* Collects the hashes of all pieces at the writer. */
static enum hsp_status exchange_hashes(struct hsp_ex_epoch *e, struct pieces *s, uint32_t writer,
                                       struct hsp_err *err)
{
    uint64_t *list = calloc(s->n + 1, sizeof *list);
    if (list == NULL) {
        return hsp_err_nomem(err, "a checkpoint");
    }
    enum hsp_status st = e->p->rank != writer ? send_hashes(e, s, writer, list, err) : HSP_OK;
    for (uint32_t r = 0; st == HSP_OK && e->p->rank == writer && r < e->p->n_ranks; r++) {
        if (r != writer) {
            st = take_hashes(e, s, r, list, err);
        }
    }
    free(list);
    return st;
}

/* Writes a complete checkpoint at rank @writer from the parts of all ranks. *ret_mine: at the
 * writer the result of its disk. Returns errors of the links only. */
static enum hsp_status write_whole(struct hsp_ex_epoch *e, struct pieces *s, uint64_t version,
                                   uint32_t writer, struct hsp_ckpt_sum *ret,
                                   enum hsp_status *ret_mine, struct hsp_err *err)
{
    struct hsp_ckpt_info info;
    struct stream w = {.e = e};
    struct hsp_gather g = {.comm = e->mesh[HSP_MESH_STATE],
                           .writer = writer,
                           .version = version,
                           .n_kinds = e->pkg.n_kinds,
                           .kinds = e->pkg.kinds,
                           .sink = stream_sink,
                           .ctx = &w};
    bool mine = writer == e->p->rank;
    ckpt_about(e, version, 1, &info);
    enum hsp_status st = exchange_hashes(e, s, writer, err);
    if (st == HSP_OK && mine) {
        const struct hsp_ckpt_order o = {.info = &info,
                                         .p = s->p,
                                         .n = s->n,
                                         .sweeps = writes_alone(e) ? version : 0,
                                         .whole = true};
        w.status = hsp_ckpt_writer_open(e, &o, &w.out, &w.why);
    }
    if (st == HSP_OK) {
        st = hsp_epoch_gather(e, &g, err);
    }
    if (st == HSP_OK && mine && w.status == HSP_OK) {
        w.status = hsp_ckpt_writer_close(&w.out, &ret->bytes, &w.why);
        w.status =
            w.status == HSP_OK ? commit(e, &w.out, version, &ret->content, &w.why) : w.status;
    }
    hsp_ckpt_writer_end(&w.out, false); /* deletes the files if they are not committed */
    if (st == HSP_OK && mine) {
        *ret_mine = w.status;
        if (w.status != HSP_OK && err != NULL) {
            *err = w.why;
        }
    }
    return st;
}

/* Lets the writers write one after the other, because two nodes may be one machine and write to one
 * folder. */
static enum hsp_status write_private(struct hsp_ex_epoch *e, uint64_t version,
                                     struct hsp_ckpt_sum *ret, bool *writes, enum hsp_status *disk,
                                     struct hsp_err *err)
{
    struct pieces s;
    enum hsp_status st = pieces_init(e, &s, err);
    writes[0] = true;
    writes[hsp_package_writer(e->pkg.peers, e->p->n_ranks)] = true;
    if (st == HSP_OK) {
        st = hsp_epoch_verify_home(e, version, e->pkg.n_kinds, err);
    }
    if (st == HSP_OK) {
        st = own_hashes(e, &s, version, err);
    }
    for (uint32_t w = 0; st == HSP_OK && w < e->p->n_ranks; w++) {
        if (writes[w]) {
            st = write_whole(e, &s, version, w, ret, disk, err);
        }
    }
    free(s.p);
    return st == HSP_OK ? collect(e, writes, disk, err) : st;
}

enum hsp_status hsp_epoch_checkpoint(struct hsp_ex_epoch *e, uint64_t version,
                                     struct hsp_ckpt_sum *ret, enum hsp_status *ret_disk,
                                     struct hsp_err *err)
{
    bool *writes = calloc(e->p->n_ranks, sizeof *writes);
    *ret_disk = HSP_OK;
    if (writes == NULL) {
        return hsp_err_nomem(err, "a checkpoint");
    }
    atomic_fetch_add(&e->env->writing, 1);
    enum hsp_status st = e->p->checkpoint_shared
                             ? write_shared(e, version, ret, writes, ret_disk, err)
                             : write_private(e, version, ret, writes, ret_disk, err);
    atomic_fetch_sub(&e->env->writing, 1);
    free(writes);
    return st;
}

enum hsp_status hsp_epoch_cursor(const struct hsp_ex_epoch *e, uint64_t version,
                                 struct hsp_data_cursor *ret, struct hsp_err *err)
{
    const struct hsp_dataset *d = &e->data->set;
    struct hsp_corpus corpus;
    enum hsp_status st = hsp_dataset_corpus(d, &e->prog.bind.data, &corpus, err);
    if (st == HSP_OK) {
        hsp_data_cursor_init(&e->prog.bind.data, &corpus, e->data->digest, d->n_bytes, version,
                             ret);
    }
    return st;
}
