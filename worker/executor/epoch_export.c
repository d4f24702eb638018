/* hsp_epoch_gather goes through the gather table of PREPARE, whose rows are boxes that together
 * have each element of each parameter once. The owner of a row sends its data to the writer in
 * slabs, so that neither rank needs memory for more than one slab.
 *
 * The final model is the only result of the training, so an error of a disk does not end the epoch:
 * rank 0 reports the reason, and tries again with pauses (disk_retry.h) until the model is written
 * or the epoch ends. Rank 0 reserves room for the complete model before it sends GATHER to the
 * other ranks; if the writing fails all the same, rank 0 sends GATHER again for the next try. All
 * ranks stay until rank 0 sends WRITTEN, and a lost peer is handled as in training. If rank 0 is
 * armed for a next epoch while it waits, it sends LEAVE: the next epoch writes the model, on a
 * device with another disk. */
#include "worker/executor/epoch_export.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/size.h"
#include "proto/layout/box.h"
#include "worker/executor/disk_retry.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_control.h"
#include "worker/executor/epoch_verify.h"
#include "worker/executor/folder_mark.h"
#include "worker/executor/step_gather.h"
#include "worker/state/box_hash.h"
#include "worker/state/ckpt_sign.h"
#include "worker/state/final_folder.h"
#include "worker/state/folder.h"
#include "worker/state/region.h"
#include "worker/state/safetensors_write.h"

#define CHANNEL_OUTPUT 0x7ffffff2u /* an order of rank 0 to each rank */
#define MODEL          HSP_FINAL_MODEL
#define METRICS        "metrics.jsonl"
#define ARMED_MS       1000 /* longest time between two checks of a wait */
enum word { WRITTEN, GATHER, LEAVE };

size_t hsp_epoch_box_bytes(const struct hsp_ex_epoch *e, const struct hsp_box *b)
{
    return (size_t)hsp_box_count(b) * hsp_dtype_size(e->pkg.dtype);
}

enum hsp_status hsp_epoch_home_row(const struct hsp_ex_epoch *e, uint64_t version, uint32_t param,
                                   uint8_t kind, const struct hsp_box *box,
                                   const struct hsp_segment_row **ret, const void **ret_data,
                                   struct hsp_err *err)
{
    const struct hsp_state_segment *s = hsp_epoch_home(e, version);
    uint32_t i = hsp_segment_find(s, param, kind, box);
    if (i == UINT32_MAX) {
        return hsp_err_set(err, HSP_EPROTO, 0, "a part of %s is not owned here",
                           e->pkg.params[param].name);
    }
    const struct hsp_segment_row *row = hsp_segment_row_at(s, i);
    *ret = row;
    *ret_data = (const uint8_t *)hsp_segment_area(s) + row->offset;
    return HSP_OK;
}

static uint64_t slab_hash(const struct hsp_ex_epoch *e, uint32_t param, uint8_t kind,
                          const struct hsp_box *slab, const void *buf)
{
    const struct hsp_box_id id = {param, kind, (enum hsp_dtype)e->pkg.dtype,
                                  e->pkg.params[param].ext};
    return hsp_box_hash(&id, slab, slab, buf);
}

static enum hsp_status send_slab(const struct hsp_ex_epoch *e, const struct hsp_gather *g,
                                 uint32_t param, uint8_t kind, const struct hsp_box *slab,
                                 const void *buf, struct hsp_err *err)
{
    enum hsp_status st = g->comm->ops->send(g->comm, g->writer, HSP_CHANNEL_GATHER, buf,
                                            hsp_epoch_box_bytes(e, slab), err);
    if (st != HSP_OK || !g->hashed) {
        return st;
    }
    uint64_t hash = slab_hash(e, param, kind, slab, buf);
    return g->comm->ops->send(g->comm, g->writer, HSP_CHANNEL_GATHER, &hash, sizeof hash, err);
}

static enum hsp_status take_slab(const struct hsp_ex_epoch *e, const struct hsp_gather *g,
                                 const struct hsp_pkg_row *r, uint8_t kind,
                                 const struct hsp_box *slab, void *buf, struct hsp_err *err)
{
    uint64_t hash = 0;
    enum hsp_status st = g->comm->ops->recv(g->comm, r->from, HSP_CHANNEL_GATHER, buf,
                                            hsp_epoch_box_bytes(e, slab), err);
    if (st == HSP_OK && g->hashed) {
        st = g->comm->ops->recv(g->comm, r->from, HSP_CHANNEL_GATHER, &hash, sizeof hash, err);
    }
    if (st == HSP_OK && g->hashed && hash != slab_hash(e, r->param, kind, slab, buf)) {
        st = hsp_err_set(err, HSP_EDIGEST, 0, "%s from %s is damaged", e->pkg.params[r->param].name,
                         e->pkg.peers[r->from].name);
    }
    return st;
}

/* Brings one slab from its owner's home to the sink at the writer; @buf has room for it. */
static enum hsp_status gather_slab(struct hsp_ex_epoch *e, const struct hsp_gather *g,
                                   uint32_t index, uint8_t k, const struct hsp_box *slab, void *buf,
                                   struct hsp_err *err)
{
    const struct hsp_pkg_row *r = &e->pkg.gather.row[index];
    uint32_t me = e->p->rank;
    enum hsp_status st = HSP_OK;
    if (r->from == me) {
        const struct hsp_segment_row *row;
        const void *home;
        st = hsp_epoch_home_row(e, g->version, r->param, g->kinds[k], slab, &row, &home, err);
        if (st == HSP_OK) {
            hsp_region_copy(hsp_dtype_size(e->pkg.dtype), slab, &row->box, home, slab, buf);
        }
        if (st == HSP_OK && me != g->writer) {
            return send_slab(e, g, r->param, g->kinds[k], slab, buf, err);
        }
    } else if (me == g->writer) {
        st = take_slab(e, g, r, g->kinds[k], slab, buf, err);
    }
    return st == HSP_OK && me == g->writer ? g->sink(g->ctx, index, k, slab, buf, err) : st;
}

enum hsp_status hsp_epoch_gather(struct hsp_ex_epoch *e, const struct hsp_gather *g,
                                 struct hsp_err *err)
{
    size_t max = 1, elem = hsp_dtype_size(e->pkg.dtype);
    struct hsp_slabs s;
    struct hsp_box slab;
    for (uint32_t i = 0; i < e->pkg.gather.n; i++) {
        hsp_slabs_init(&s, &e->pkg.gather.row[i].box, elem, HSP_GATHER_BYTES);
        max = s.bytes > max ? s.bytes : max;
    }
    void *buf = malloc(max);
    enum hsp_status st = buf != NULL ? HSP_OK : hsp_err_nomem(err, "the final model");
    for (uint32_t i = 0; st == HSP_OK && i < e->pkg.gather.n; i++) {
        for (uint8_t k = 0; st == HSP_OK && k < g->n_kinds; k++) {
            hsp_slabs_init(&s, &e->pkg.gather.row[i].box, elem, HSP_GATHER_BYTES);
            while (st == HSP_OK && hsp_slabs_next(&s, &slab)) {
                st = gather_slab(e, g, i, k, &slab, buf, err);
            }
        }
    }
    free(buf);
    return st;
}

/* ---- the final model ---- */

struct model_file {
    const struct hsp_ex_epoch *e;
    struct hsp_st_writer *w;
    enum hsp_status status; /* status of the disk; after an error slabs are still received */
    struct hsp_err *why;
};

/* Writes a slab to its places in the file, which has complete tensors: one write for each
 * contiguous run of bytes. */
static enum hsp_status model_sink(void *ctx, uint32_t row, uint8_t kind, const struct hsp_box *slab,
                                  const void *data, struct hsp_err *err)
{
    struct model_file *f = ctx;
    const struct hsp_pkg_row *r = &f->e->pkg.gather.row[row];
    const struct hsp_pkg_param *p = &f->e->pkg.params[r->param];
    struct hsp_box whole = hsp_box_whole(p->rank, p->ext);
    size_t elem = hsp_dtype_size(f->e->pkg.dtype);
    struct hsp_walk w;
    int64_t from, to;
    (void)kind;
    (void)err;
    hsp_walk_init(&w, slab, slab, &whole);
    while (f->status == HSP_OK && hsp_walk_next(&w, &from, &to)) {
        f->status =
            hsp_st_write(f->w, r->param, (uint64_t)to * elem,
                         (const uint8_t *)data + (size_t)from * elem, (size_t)w.run * elem, f->why);
    }
    return HSP_OK;
}

static enum hsp_status open_model(struct hsp_ex_epoch *e, const struct hsp_folder *in,
                                  struct hsp_st_writer **ret, struct hsp_err *err)
{
    struct hsp_st_entry *entries = calloc(e->pkg.n_params, sizeof *entries);
    char job[16], cluster[HSP_DIGEST_HEX];
    const struct hsp_st_meta meta[] = {
        {"format", "pt"}, {HSP_FINAL_JOB, job}, {HSP_FINAL_CLUSTER, cluster}};
    (void)snprintf(job, sizeof job, "%u", e->p->job);
    hsp_digest_hex(e->p->ckpt_cluster, cluster);
    if (entries == NULL) {
        return hsp_err_nomem(err, "the final model");
    }
    for (uint32_t i = 0; i < e->pkg.n_params; i++) {
        entries[i] = (struct hsp_st_entry){
            .name = e->pkg.params[i].name, .dtype = e->pkg.dtype, .rank = e->pkg.params[i].rank};
        memcpy(entries[i].ext, e->pkg.params[i].ext, sizeof entries[i].ext);
    }
    const struct hsp_st_head head = {entries, e->pkg.n_params, meta, HSP_ARRAY_LEN(meta)};
    enum hsp_status st = hsp_st_create_in(in, MODEL ".tmp", &head, ret, err);
    free(entries);
    return st;
}

/* Closes the file of the model and gives it its final name, or deletes it if @st is an error. */
static enum hsp_status close_model(struct hsp_st_writer *w, enum hsp_status st,
                                   const struct hsp_folder *in, struct hsp_err *err)
{
    if (st != HSP_OK) {
        (void)hsp_st_discard(w);
        return st;
    }
    st = hsp_st_finish(w, err);
    if (st == HSP_OK) {
        st = hsp_folder_rename(in, MODEL ".tmp", MODEL, err);
    }
    if (st != HSP_OK) { /* the file would take room of the next try; @st is reported */
        (void)unlinkat(in->fd, MODEL ".tmp", 0);
    }
    return st;
}

/* Joins the notes of the file metrics.jsonl that an earlier end of the job has written: the notes
 * of the first steps may be only in that file. */
static void join_earlier(const struct hsp_ex_epoch *e, const struct hsp_folder *in,
                         struct hsp_buf *metrics, struct hsp_notes_faults *faults)
{
    struct hsp_err why = {0};
    uint8_t *text = NULL;
    size_t len = 0;
    enum hsp_status st = hsp_folder_read(in, METRICS, metrics->max, &text, &len, &why);
    if (st == HSP_OK) {
        st = hsp_metrics_join((const char *)text, e->p, metrics, faults->lacking, &why);
    }
    free(text);
    if (st != HSP_OK && st != HSP_ENOENT) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor",
                METRICS " goes without the lines of the one that it replaces: %s", why.msg);
    }
}

static enum hsp_status write_texts(struct hsp_ex_epoch *e, const struct hsp_folder *in,
                                   struct hsp_buf *metrics, struct hsp_notes_faults *faults,
                                   struct hsp_err *err)
{
    const char *config = e->pkg.config_json;
    enum hsp_status st = hsp_folder_write(in, "config.json", config, strlen(config), err);
    if (st != HSP_OK) {
        return st;
    }
    join_earlier(e, in, metrics, faults);
    return hsp_folder_write(in, METRICS, metrics->data, metrics->len, err);
}

/* The data of the disk thread that opens the folder. */
struct final_place {
    char dir[PATH_MAX], aside[HSP_CKPT_NAME];
    struct hsp_ckpt_info us;
    bool marks, shared;
    struct hsp_folder in;
};

static enum hsp_status do_open_final(void *ctx, struct hsp_err *err)
{
    struct final_place *f = ctx;
    enum hsp_status st = f->marks ? hsp_ckpt_sign(f->dir, &f->us, f->shared, err) : HSP_OK;
    return st == HSP_OK ? hsp_final_open(f->dir, &f->us, f->aside, &f->in, err) : st;
}

static void drop_final(void *ctx)
{
    struct final_place *f = ctx;
    hsp_folder_close(&f->in);
    free(f);
}

/* Opens the folder JOB/final in checkpoint.path; neither JOB nor final may be a symbolic link.
 * Returns HSP_ETIMEDOUT if the path does not answer. The later writes to the folder have no time
 * limit. */
static enum hsp_status open_final(struct hsp_ex_epoch *e, struct hsp_folder *ret,
                                  struct hsp_err *err)
{
    struct final_place *f = calloc(1, sizeof *f);
    struct hsp_disk_thread *disk = NULL;
    const struct hsp_disk_wait wait = hsp_epoch_disk_wait(e);
    ret->fd = -1;
    if (f == NULL) {
        return hsp_err_nomem(err, "the final model");
    }
    hsp_epoch_ckpt_dir(e, f->dir);
    f->us = (struct hsp_ckpt_info){.job_id = e->p->job, .whose.cluster = e->p->ckpt_cluster};
    f->marks = hsp_epoch_marks_folder(e);
    f->shared = e->p->checkpoint_shared;
    f->in.fd = -1;
    enum hsp_status st =
        hsp_disk_open(&e->env->disks, e->p->checkpoint_path, f, drop_final, &disk, err);
    if (st != HSP_OK) {
        drop_final(f);
        return st;
    }
    st = hsp_disk_do(disk, do_open_final, &wait, err);
    if (st != HSP_ETIMEDOUT && f->aside[0] != '\0') {
        hsp_log(e->env->log, HSP_LOG_NOTICE, "executor",
                "%s/final was not written by job %u: it is kept as %s", f->dir, e->p->job,
                f->aside);
    }
    if (st == HSP_OK) {
        *ret = f->in;
        f->in.fd = -1;
    }
    (void)hsp_disk_end(disk, &wait);
    return st;
}

/* ---- until it is written ---- */

/* Waits @ms, or until this device is armed. *ret_epoch: the epoch for which the device is armed,
 * else 0. Returns HSP_ECANCELED if the epoch has ended. */
static enum hsp_status rest(struct hsp_ex_epoch *e, uint32_t ms, uint64_t *ret_epoch,
                            struct hsp_err *err)
{
    int64_t until = hsp_clock_ns() + (int64_t)ms * 1000000;
    struct timespec t = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    int r = 0;
    (void)pthread_mutex_lock(&e->lock);
    while (!e->cancelled && !e->lost && e->armed == 0 && r != ETIMEDOUT) {
        r = pthread_cond_timedwait(&e->cond, &e->lock, &t);
    }
    bool ended = e->cancelled || e->lost;
    *ret_epoch = e->armed;
    (void)pthread_mutex_unlock(&e->lock);
    return ended ? hsp_err_set(err, HSP_ECANCELED, 0, "the epoch has ended") : HSP_OK;
}

/* Called at rank 0 after try number @tries to write the outputs has failed: reports the reason, and
 * waits as rest() does. Returns HSP_ECANCELED if the epoch has ended. The reason is reported after
 * each try, because hspmdd may have been restarted and not know the earlier reports. */
static enum hsp_status await_disk(struct hsp_ex_epoch *e, uint32_t tries, struct hsp_err *why,
                                  uint64_t *ret_epoch, struct hsp_err *err)
{
    struct hsp_err unsent = {0};
    if (hsp_epoch_is_over(e)) { /* the end may have cut off the write; then no disk has failed */
        return hsp_err_set(err, HSP_ECANCELED, 0, "the epoch has ended");
    }
    (void)hsp_err_wrap(why, "%s", e->pkg.peers[0].name);
    hsp_disk_explain(why);
    struct hsp_msg m = {.type = HSP_MSG_CHECKPOINTED,
                        .epoch = e->number,
                        .u.ckpt = {.job = e->p->job, .step = e->p->steps, .reason = why->msg}};
    hsp_log(e->env->log, tries == 1 ? HSP_LOG_WARN : HSP_LOG_DEBUG, "executor",
            "the final model of job %u is not written: %s: it is tried again", e->p->job, why->msg);
    if (hsp_chan_send(e->env->chan, &m, &unsent) != HSP_OK) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "cannot report it: %s", unsent.msg);
    }
    return rest(e, hsp_disk_pause_ms(tries), ret_epoch, err);
}

static enum hsp_status say(struct hsp_ex_epoch *e, enum word word, struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_DATA];
    uint8_t byte = (uint8_t)word;
    enum hsp_status st = HSP_OK;
    for (uint32_t r = 1; st == HSP_OK && r < e->p->n_ranks; r++) {
        st = comm->ops->send(comm, r, CHANNEL_OUTPUT, &byte, 1, err);
    }
    return st;
}

/* Compares this rank's weights with their seal, then gathers the model. The comparison is made
 * because after the job only the model remains. */
static enum hsp_status gather_model(struct hsp_ex_epoch *e, struct model_file *f,
                                    struct hsp_err *err)
{
    static const uint8_t params_only[] = {HSP_STATE_PARAM};
    struct hsp_gather g = {.comm = e->mesh[HSP_MESH_DATA],
                           .writer = 0,
                           .version = e->p->steps,
                           .n_kinds = 1,
                           .kinds = params_only,
                           .hashed = true,
                           .sink = model_sink,
                           .ctx = f};
    enum hsp_status st = hsp_epoch_verify_home(e, e->p->steps, 1, err);
    return st == HSP_OK ? hsp_epoch_gather(e, &g, err) : st;
}

/* Waits until this rank is armed, which happens soon after rank 0 is armed. */
static enum hsp_status await_armed(struct hsp_ex_epoch *e, uint64_t *ret_epoch, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (*ret_epoch = 0; st == HSP_OK && *ret_epoch == 0;) {
        st = rest(e, ARMED_MS, ret_epoch, err);
    }
    return st;
}

/* Called at every rank except 0: sends the part of this rank at each GATHER. *ret_epoch as in
 * hsp_epoch_write_final. */
static enum hsp_status serve_model(struct hsp_ex_epoch *e, uint64_t *ret_epoch, struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_DATA];
    uint8_t word = GATHER;
    enum hsp_status st = HSP_OK;
    while (st == HSP_OK && word == GATHER) {
        st = comm->ops->recv(comm, 0, CHANNEL_OUTPUT, &word, 1, err);
        if (st == HSP_OK && word == GATHER) {
            st = gather_model(e, NULL, err);
        }
    }
    return st == HSP_OK && word == LEAVE ? await_armed(e, ret_epoch, err) : st;
}

/* Tries once to write the model. *ret_disk, @why: the result of the disk. Returns errors of the
 * links to the other ranks. */
static enum hsp_status try_model(struct hsp_ex_epoch *e, const struct hsp_folder *in,
                                 enum hsp_status *ret_disk, struct hsp_err *why,
                                 struct hsp_err *err)
{
    struct model_file f = {.e = e, .why = why};
    *ret_disk = open_model(e, in, &f.w, why);
    if (*ret_disk != HSP_OK) {
        return HSP_OK;
    }
    enum hsp_status st = say(e, GATHER, err);
    if (st == HSP_OK) {
        st = gather_model(e, &f, err);
    }
    *ret_disk = close_model(f.w, st == HSP_OK ? f.status : st, in, why);
    return st;
}

/* Called at rank 0: writes the model, then the metrics and other texts into the same folder. */
static enum hsp_status write_outputs(struct hsp_ex_epoch *e, struct hsp_buf *metrics,
                                     struct hsp_notes_faults *faults, uint64_t *ret_epoch,
                                     struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    bool model = false, all = false;
    for (uint32_t tries = 1; st == HSP_OK && !all && *ret_epoch == 0; tries++) {
        struct hsp_err why = {0};
        struct hsp_folder in;
        enum hsp_status disk = open_final(e, &in, &why);
        if (disk == HSP_OK && !model) {
            st = try_model(e, &in, &disk, &why, err);
            model = st == HSP_OK && disk == HSP_OK;
        }
        all = disk == HSP_OK && model && write_texts(e, &in, metrics, faults, &why) == HSP_OK;
        hsp_folder_close(&in);
        if (st == HSP_OK && !all) {
            st = await_disk(e, tries, &why, ret_epoch, err);
        }
    }
    return st == HSP_OK ? say(e, all ? WRITTEN : LEAVE, err) : st;
}

enum hsp_status hsp_epoch_write_final(struct hsp_ex_epoch *e, struct hsp_buf *metrics,
                                      struct hsp_notes_faults *faults, uint64_t *ret_epoch,
                                      struct hsp_err *err)
{
    *ret_epoch = 0;
    enum hsp_status st = hsp_metrics_merge(e, metrics, faults, err);
    if (st != HSP_OK) {
        return st;
    }
    return e->p->rank == 0 ? write_outputs(e, metrics, faults, ret_epoch, err)
                           : serve_model(e, ret_epoch, err);
}
