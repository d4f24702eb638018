#include "daemon/app/perform/commit.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/app/perform/actions.h"
#include "daemon/app/perform/actions_impl.h"
#include "daemon/app/perform/store_stall.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/tasks.h"

/* The number of batches that may wait in memory while the disk takes no writes; above it the
 * process ends. Each batch costs some kilobytes. */
#define WAITING_MAX 16384u
/* Packages are made for this long before the finished ones are sent. */
#define PIECE_NS 10000000u

struct writing {
    struct hsp_app_task work;
    struct hsp_batch *first,
        *last;                /* borrowed from the queue; NULL: the store is only looked for */
    struct hsp_batch *at;     /* whose packages are being made, NULL: all are */
    struct hsp_batch *untold; /* the loop's: the first of which the loop has not been told all */
    bool written;
    const char *dir;                       /* borrowed */
    const struct hsp_state_folder *folder; /* borrowed */
    struct hsp_store *store;
    enum hsp_status status; /* of the rows */
    struct hsp_err err;
};

/* ---- on the pool thread ---- */

/* Writes the rows of all batches in one transaction, and deletes in it the metrics of jobs that are
 * forgotten: so they are gone together with the job, whenever the process ends. */
static enum hsp_status write_all(struct writing *w)
{
    size_t n = 0, n_gone = 0;
    for (struct hsp_batch *b = w->first; b != NULL; b = b != w->last ? b->next : NULL) {
        n += b->n_rows;
        n_gone += b->n_gone;
    }
    if (n + n_gone == 0) {
        return HSP_OK;
    }
    struct hsp_store_row *rows = calloc(n + 1, sizeof *rows);
    uint32_t *gone = calloc(n_gone + 1, sizeof *gone);
    bool ok = rows != NULL && gone != NULL;
    n = n_gone = 0;
    for (struct hsp_batch *b = w->first; ok && b != NULL; b = b != w->last ? b->next : NULL) {
        if (b->n_rows > 0) {
            memcpy(rows + n, b->rows, b->n_rows * sizeof *rows);
        }
        n += b->n_rows;
        for (size_t i = 0; i < b->n_gone; i++) {
            gone[n_gone++] = b->gone[i];
        }
    }
    enum hsp_status st = ok ? hsp_store_apply(w->store, rows, n, gone, n_gone, &w->err)
                            : hsp_err_nomem(&w->err, "the rows to write");
    free(gone);
    free(rows);
    return st;
}

static void make_tables(struct prepare_group *g)
{
    const struct hsp_epoch_plan *from = NULL;
    g->arena = hsp_arena_new(g->mem_cap);
    if (g->arena == NULL) {
        g->status = hsp_err_nomem(&g->err, "the packages of an epoch");
    }
    if (g->status == HSP_OK) {
        g->status = hsp_plan_rec_build(g->plan, g->mem_cap, &g->built, &g->err);
    }
    if (g->status == HSP_OK && g->from != NULL) {
        g->status = hsp_plan_rec_build(g->from, g->mem_cap, &from, &g->err);
    }
    if (g->status == HSP_OK) {
        g->status = hsp_epoch_tables_make(g->built, from, from != NULL ? &g->net : NULL, &g->action,
                                          g->arena, &g->tables, &g->err);
    }
}

/* Which versions are due, where all members of the epoch know that not all need be. */
static void put_due(const struct hsp_job_spec *job, struct hsp_m_prepare *p)
{
    if (p->due_every != 0 && job->every != 1) {
        p->due_every = job->every != 0 ? job->every : HSP_DUE_AUTO;
        p->due_overhead = job->overhead;
        p->due_recompute_s = job->max_recompute_s;
    } else {
        p->due_every = 0;
    }
}

static void make_blob(struct queued_action *d)
{
    struct prepare_group *g = d->group;
    d->status = g->status;
    d->err = g->err;
    if (d->status == HSP_OK) {
        const struct hsp_job_rec *rec = g->plan->job;
        put_due(rec->spec, &d->msg.u.prepare);
        const struct hsp_package_job job = {.init_from = rec->spec->init_from,
                                            .config_json = rec->config_json,
                                            .ckpt_keep = rec->spec->ckpt_keep,
                                            .term = g->term};
        struct hsp_arena_position mark = hsp_arena_mark(g->arena);
        (void)hsp_buf_grow(&d->blob, g->blob_len); /* most are alike: memory is asked for once */
        d->status = hsp_epoch_package(g->built, &g->tables, &job, &g->action, g->names,
                                      d->msg.u.prepare.rank, g->arena, &d->blob, &d->err);
        hsp_arena_rewind(g->arena, mark);
        g->blob_len = d->blob.len;
    }
    d->msg.blob = d->blob.data;
    d->msg.blob_len = (uint32_t)d->blob.len;
}

/* Returns false if the time is over and more packages are to be made. */
static bool make_packages(struct hsp_batch *b, uint64_t begin)
{
    for (struct prepare_group *g = b->groups; g != NULL && !b->tabled; g = g->next) {
        make_tables(g);
    }
    b->tabled = true;
    while (b->n_made < b->n_queued_actions) {
        struct queued_action *d = &b->queued_actions[b->n_made];
        if (d->act.type == HSP_ACT_PREPARE) {
            make_blob(d);
        }
        b->n_made++;
        if (d->act.type == HSP_ACT_PREPARE && uv_hrtime() - begin > PIECE_NS) {
            return b->n_made == b->n_queued_actions;
        }
    }
    return true;
}

static void run_writing(struct hsp_app_task *work)
{
    struct writing *w = (struct writing *)work;
    uint64_t begin = uv_hrtime();
    if (!w->written) {
        w->status = hsp_state_folder_check(w->dir, w->folder, &w->err);
        w->status = w->status == HSP_OK ? write_all(w) : w->status;
        w->written = w->status == HSP_OK;
    }
    while (w->written && w->at != NULL && make_packages(w->at, begin)) {
        w->at = w->at != w->last ? w->at->next : NULL;
    }
}

/* ---- on the loop ---- */

/* Tells the loop which packages are finished, so that it sends them. A batch that is complete may
 * be freed after that. */
static void tell_made(struct writing *w)
{
    while (w->untold != NULL) {
        struct hsp_batch *b = w->untold;
        b->on_disk = true;
        b->n_ready = b->n_made;
        if (b == w->at) {
            break;
        }
        w->untold = b != w->last ? b->next : NULL;
    }
    for (struct hsp_batch *b = w->untold; b != NULL; b = b != w->last ? b->next : NULL) {
        b->on_disk = true;
    }
}

static void done_writing(struct hsp_app_task *work)
{
    struct writing *w = (struct writing *)work;
    struct hsp_app *a = work->app;
    bool store_stalled = w->status != HSP_OK, more = !store_stalled && w->at != NULL && !a->closing;
    a->writing = false;
    if (w->status == HSP_ENOMEM || (store_stalled && a->n_batches > WAITING_MAX)) {
        hsp_app_fail(a, "the state cannot be written", &w->err);
    } else if (store_stalled) {
        hsp_app_store_stalled(a, &w->err);
    } else {
        hsp_app_unstuck(a);
        tell_made(w);
    }
    if (more && !a->failed) {
        a->writing = hsp_app_queue(a, &w->work);
        if (!a->writing) {
            (void)hsp_err_nomem(&w->err, "the writing of rows");
            hsp_app_fail(a, "packages cannot be made", &w->err);
        }
    }
    if (!a->writing) {
        free(w);
    }
    if (!store_stalled) {
        hsp_app_perform_rest(a);
        hsp_app_write_on(a);
    }
}

/* @look: also where nothing waits. */
static void begin_writing(struct hsp_app *a, bool look)
{
    if (uv_is_active((uv_handle_t *)&a->retry) && a->store_stalled) {
        return; /* soon */
    }
    struct hsp_batch *first = a->head;
    while (first != NULL && first->on_disk) {
        first = first->next;
    }
    if ((first == NULL && !look) || a->writing || a->failed) {
        return;
    }
    struct writing *w = calloc(1, sizeof *w);
    struct hsp_err err = {0};
    if (w != NULL) {
        w->work.run = run_writing;
        w->work.done = done_writing;
        w->first = w->at = w->untold = first;
        w->last = first != NULL ? a->tail : NULL;
        w->dir = a->cfg->state_dir;
        w->folder = &a->folder;
        w->store = a->store;
    }
    a->writing = w != NULL && hsp_app_queue(a, &w->work);
    if (!a->writing) {
        free(w);
        (void)hsp_err_nomem(&err, "the writing of rows");
        hsp_app_fail(a, "the state cannot be written", &err);
    }
}

void hsp_app_write_on(struct hsp_app *a)
{
    begin_writing(a, false);
}

void hsp_app_look_for_store(struct hsp_app *a)
{
    begin_writing(a, true);
}
