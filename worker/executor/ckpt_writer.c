/* Without failures, the disk thread opens the file, writes slabs, closes the file, commits the
 * checkpoint and deletes old checkpoints.
 *
 * If a call hangs, the disk thread goes on alone with its own data. A commit that hung may still
 * succeed; then the checkpoint is complete and usable. Lack of memory and errors of the disk are
 * returned. If old checkpoints, left-overs, or a failed checkpoint take long to delete, a thread
 * goes on deleting them alone while the next checkpoint is written. */
#include "worker/executor/ckpt_writer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/str.h"
#include "worker/executor/epoch_control.h"
#include "worker/executor/folder_mark.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/ckpt_sign.h"
#include "worker/state/ckpt_steps.h"
#include "worker/state/region.h"

#define DELETION_MS 5000u /* longest time for which votes wait for deletions */

struct hsp_ckpt_writing { /* owns all memory of its pointers */
    char dir[PATH_MAX];
    struct hsp_ckpt_info info;
    uint32_t rank;
    bool marks, shared, whole;
    struct hsp_ckpt_piece *p;
    size_t n;
    struct hsp_pkg_param *params; /* names and extents of the pieces */
    uint32_t n_params;
    struct hsp_ckpt_stream *out; /* NULL: not open */
    void *slab;                  /* the part @part of piece @piece */
    size_t piece;
    struct hsp_box part;
    uint64_t bytes;
    struct hsp_data_cursor data; /* argument of a commit */
    char *config;
    struct hsp_ckpt_done done;
    size_t keep; /* argument of a deletion of old checkpoints */
    struct hsp_m_cut *cuts;
    uint32_t n_cuts;
    bool abandons; /* drop() deletes the files of the checkpoint */
};

/* ---- on the disk thread ---- */

static enum hsp_status do_open(void *ctx, struct hsp_err *err)
{
    struct hsp_ckpt_writing *x = ctx;
    enum hsp_status st = x->marks ? hsp_ckpt_sign(x->dir, &x->info, x->shared, err) : HSP_OK;
    x->abandons = x->whole; /* set first: the folder may be made before an error */
    return st == HSP_OK ? hsp_ckpt_stream_open(x->dir, &x->info, x->rank, x->p, x->n, &x->out, err)
                        : st;
}

static enum hsp_status do_put(void *ctx, struct hsp_err *err)
{
    struct hsp_ckpt_writing *x = ctx;
    return hsp_ckpt_stream_put(x->out, x->piece, &x->part, x->slab, err);
}

static enum hsp_status do_close(void *ctx, struct hsp_err *err)
{
    struct hsp_ckpt_writing *x = ctx;
    struct hsp_ckpt_stream *out = x->out;
    x->out = NULL;
    return hsp_ckpt_stream_close(out, &x->bytes, err);
}

static enum hsp_status do_commit(void *ctx, struct hsp_err *err)
{
    struct hsp_ckpt_writing *x = ctx;
    enum hsp_status st = hsp_ckpt_commit(x->dir, &x->info, &x->data, x->config, &x->done, err);
    x->abandons = x->abandons && st != HSP_OK;
    return st;
}

static enum hsp_status do_prune(void *ctx, struct hsp_err *err)
{
    struct hsp_ckpt_writing *x = ctx;
    return hsp_ckpt_prune(x->dir, &x->info, x->keep, x->cuts, x->n_cuts, err);
}

static void drop(void *ctx)
{
    struct hsp_ckpt_writing *x = ctx;
    x->out = hsp_ckpt_stream_discard(x->out);
    if (x->abandons) {
        (void)hsp_ckpt_abandon(x->dir, &x->info, NULL); /* an earlier error was reported */
    }
    for (uint32_t i = 0; x->params != NULL && i < x->n_params; i++) {
        free((char *)(uintptr_t)x->params[i].name);
    }
    free(x->params);
    free(x->p);
    free(x->slab);
    free(x->config);
    free(x->cuts);
    free(x);
}

/* ---- for the replication thread ---- */

/* Copies the parameters and pieces of the order into memory that the disk thread owns. */
static bool copy_pieces(const struct hsp_ex_epoch *e, const struct hsp_ckpt_order *o,
                        struct hsp_ckpt_writing *x)
{
    bool ok = true;
    x->n_params = e->pkg.n_params;
    x->params = calloc((size_t)x->n_params + 1, sizeof *x->params);
    x->p = calloc(o->n + 1, sizeof *x->p);
    if (x->params == NULL || x->p == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < x->n_params; i++) {
        x->params[i] = e->pkg.params[i];
        x->params[i].name = strdup(e->pkg.params[i].name);
        ok = ok && x->params[i].name != NULL;
    }
    for (x->n = 0; x->n < o->n; x->n++) {
        struct hsp_ckpt_piece *p = &x->p[x->n];
        *p = o->p[x->n];
        p->name = x->params[p->tensor].name;
        p->full = x->params[p->tensor].ext;
        p->held = p->box;
        p->data = NULL; /* the data come in slabs */
    }
    return ok;
}

/* Allocates memory for the largest slab. */
static bool take_slab(const struct hsp_ckpt_order *o, struct hsp_ckpt_writing *x)
{
    size_t max = 1;
    for (size_t i = 0; i < o->n; i++) {
        struct hsp_slabs s;
        hsp_slabs_init(&s, &o->p[i].box, hsp_dtype_size(o->p[i].dtype), HSP_GATHER_BYTES);
        max = s.bytes > max ? s.bytes : max;
    }
    x->slab = malloc(max);
    return x->slab != NULL;
}

static bool copy_rest(const struct hsp_ex_epoch *e, struct hsp_ckpt_writing *x)
{
    x->keep = e->pkg.ckpt_keep > 0 ? e->pkg.ckpt_keep : 1;
    x->config = strdup(e->pkg.config_json);
    x->cuts = calloc((size_t)e->p->n_cuts + 1, sizeof *x->cuts);
    if (x->config == NULL || x->cuts == NULL) {
        return false;
    }
    x->n_cuts = e->p->n_cuts;
    if (x->n_cuts > 0) {
        memcpy(x->cuts, e->p->cuts, x->n_cuts * sizeof *x->cuts);
    }
    return true;
}

/* Copies the order for the disk thread. Returns NULL if memory is lacking. */
static struct hsp_ckpt_writing *make(const struct hsp_ex_epoch *e, const struct hsp_ckpt_order *o)
{
    struct hsp_ckpt_writing *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return NULL;
    }
    hsp_epoch_ckpt_dir(e, x->dir);
    x->info = *o->info;
    x->rank = o->rank;
    x->marks = hsp_epoch_marks_folder(e);
    x->shared = e->p->checkpoint_shared;
    x->whole = o->whole;
    if (!copy_pieces(e, o, x) || !take_slab(o, x) || !copy_rest(e, x)) {
        drop(x);
        return NULL;
    }
    return x;
}

/* Returns the time limit for deletions. */
static struct hsp_disk_wait deletion(struct hsp_ex_epoch *e)
{
    struct hsp_disk_wait wait = hsp_epoch_disk_wait(e);
    wait.ms = wait.ms < DELETION_MS ? wait.ms : DELETION_MS;
    wait.deletes = true;
    return wait;
}

struct left_overs {
    char dir[PATH_MAX];
    struct hsp_ckpt_info up_to;
};

static enum hsp_status do_sweep(void *ctx, struct hsp_err *err)
{
    const struct left_overs *l = ctx;
    return hsp_ckpt_sweep(l->dir, &l->up_to, err);
}

/* Deletes the left-overs of failed attempts on a disk thread of its own, whose path has a suffix.
 * If the deletion takes longer than the time limit, the checkpoint is written meanwhile, and no
 * second deletion begins. Does nothing while a thread of an earlier epoch still writes at the path,
 * because the files of that thread are no left-overs. Errors are not reported: if room is lacking
 * afterwards, the next write fails. */
static void sweep(struct hsp_ex_epoch *e, const struct hsp_ckpt_order *o)
{
    char name[PATH_MAX];
    struct hsp_disk_thread *disk = NULL;
    struct hsp_disk_wait wait = deletion(e);
    bool any = o->sweeps > 0 && !hsp_disk_writes(&e->env->disks, e->p->checkpoint_path);
    struct left_overs *l = any ? calloc(1, sizeof *l) : NULL;
    if (l == NULL) {
        return;
    }
    hsp_epoch_ckpt_dir(e, l->dir);
    l->up_to = *o->info;
    l->up_to.step = o->sweeps;
    hsp_str_printf(name, sizeof name, "left-overs in %s", l->dir);
    wait.deletes = false;
    if (hsp_disk_open(&e->env->disks, name, l, free, &disk, NULL) != HSP_OK) {
        free(l);
        return;
    }
    (void)hsp_disk_do(disk, do_sweep, &wait, NULL);
    (void)hsp_disk_end(disk, &wait);
}

static enum hsp_status call_for(struct hsp_ckpt_writer *w, hsp_disk_fn *fn,
                                const struct hsp_disk_wait *wait, struct hsp_err *err)
{
    enum hsp_status st = hsp_disk_do(w->disk, fn, wait, err);
    w->work = st == HSP_ETIMEDOUT ? NULL : w->work;
    return st;
}

static enum hsp_status call(struct hsp_ckpt_writer *w, hsp_disk_fn *fn, struct hsp_err *err)
{
    const struct hsp_disk_wait wait = hsp_epoch_disk_wait(w->e);
    return call_for(w, fn, &wait, err);
}

enum hsp_status hsp_ckpt_writer_open(struct hsp_ex_epoch *e, const struct hsp_ckpt_order *o,
                                     struct hsp_ckpt_writer *ret, struct hsp_err *err)
{
    struct hsp_ckpt_writing *x = make(e, o);
    *ret = (struct hsp_ckpt_writer){.e = e};
    if (x == NULL) {
        return hsp_err_nomem(err, "a checkpoint");
    }
    sweep(e, o);
    enum hsp_status st =
        hsp_disk_open(&e->env->disks, e->p->checkpoint_path, x, drop, &ret->disk, err);
    if (st != HSP_OK) {
        drop(x); /* @x has no file yet */
        return st;
    }
    ret->work = x;
    bool marks = x->marks; /* if the call hangs, the disk thread may free @x */
    st = call(ret, do_open, err);
    if (marks && st == HSP_OK) {
        atomic_store(&e->marked, true);
    }
    return st;
}

enum hsp_status hsp_ckpt_writer_put(struct hsp_ckpt_writer *w, size_t i, const struct hsp_box *slab,
                                    const struct hsp_box *held, const void *data,
                                    struct hsp_err *err)
{
    if (hsp_epoch_is_over(w->e)) {
        return hsp_err_set(err, HSP_ECANCELED, 0, "the epoch is over");
    }
    if (w->work != NULL) {
        w->work->piece = i;
        w->work->part = *slab;
        hsp_region_copy(hsp_dtype_size(w->work->p[i].dtype), slab, held, data, slab, w->work->slab);
    }
    return call(w, do_put, err);
}

enum hsp_status hsp_ckpt_writer_close(struct hsp_ckpt_writer *w, uint64_t *ret_bytes,
                                      struct hsp_err *err)
{
    enum hsp_status st = call(w, do_close, err);
    if (st == HSP_OK) {
        *ret_bytes = w->work->bytes;
    }
    return st;
}

enum hsp_status hsp_ckpt_writer_commit(struct hsp_ckpt_writer *w,
                                       const struct hsp_data_cursor *data,
                                       struct hsp_ckpt_done *ret, struct hsp_err *err)
{
    if (w->work != NULL) {
        w->work->data = *data;
    }
    enum hsp_status st = call(w, do_commit, err);
    if (st == HSP_OK) {
        *ret = w->work->done;
    }
    return st;
}

enum hsp_status hsp_ckpt_writer_prune(struct hsp_ckpt_writer *w, struct hsp_err *err)
{
    const struct hsp_disk_wait wait = deletion(w->e);
    enum hsp_status st = call_for(w, do_prune, &wait, err);
    return st == HSP_ETIMEDOUT ? HSP_OK : st;
}

void hsp_ckpt_writer_end(struct hsp_ckpt_writer *w, bool abandon)
{
    if (w->disk != NULL) {
        const struct hsp_disk_wait wait = deletion(w->e); /* deletes an uncommitted attempt */
        if (w->work != NULL && abandon) {
            w->work->abandons = true;
        }
        w->work = NULL;
        w->disk = hsp_disk_end(w->disk, &wait);
    }
}
