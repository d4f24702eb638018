#include "worker/executor/epoch_verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/vec.h"
#include "worker/executor/epoch_damage.h"
#include "worker/executor/epoch_segments.h"
#include "worker/executor/epoch_sources.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_verify.h"

#define MAX_ROWS ((size_t)HSP_EPOCH_SOURCES * HSP_SEGMENT_MAX_ROWS)

struct rows {
    size_t n, cap;
    struct hsp_verify_row *row;
};

/* A verification that runs while an epoch is prepared. */
struct hsp_epoch_check {
    struct rows rows;
    struct hsp_verify *threads;
    int64_t begin_ns;
};

static enum hsp_status add(struct rows *l, const struct hsp_state_segment *s, uint32_t row,
                           struct hsp_err *err)
{
    if (!hsp_grow(&l->row, &l->cap, l->n + 1, sizeof *l->row, MAX_ROWS)) {
        return hsp_grow_error(l->n + 1, MAX_ROWS, "rows of state", err);
    }
    l->row[l->n++] = (struct hsp_verify_row){.seg = s, .row = row};
    return HSP_OK;
}

static enum hsp_status add_all(struct rows *l, const struct hsp_state_segment *s,
                               struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; st == HSP_OK && i < hsp_segment_n(s); i++) {
        st = add(l, s, i, err);
    }
    return st;
}

/* ---- the segments of the epoch ---- */

/* Returns the address of the @i-th segment of the epoch: the two segments of its home, then those
 * of its copies. Returns NULL if there is no such segment. */
static struct hsp_state_segment **own_segment(struct hsp_ex_epoch *e, uint32_t i)
{
    uint32_t home = e->member ? 2 : 0;
    if (i < home) {
        return &e->seg[i];
    }
    i -= home;
    return i < 2 * e->n_copies ? &e->copies[i / 2].seg[i % 2] : NULL;
}

static bool same_file(const struct hsp_state_segment *a, const struct hsp_state_segment *b)
{
    return memcmp(hsp_segment_key_of(a), hsp_segment_key_of(b), sizeof(struct hsp_segment_key)) ==
           0;
}

/* Returns the segment of the epoch that maps the same file as @s, or NULL if the file is of another
 * layout. */
static struct hsp_state_segment **own_mapping(struct hsp_ex_epoch *e,
                                              const struct hsp_state_segment *s)
{
    struct hsp_state_segment **own;
    for (uint32_t i = 0; (own = own_segment(e, i)) != NULL; i++) {
        if (same_file(*own, s)) {
            return own;
        }
    }
    return NULL;
}

/* ---- while a recovery is prepared ---- */

/* Lists the rows to verify. If a file is mapped twice, as a source and by the epoch, the mapping of
 * the epoch is used, because its pages are mapped already. */
static enum hsp_status list_rows(struct hsp_ex_epoch *e, struct rows *l, struct hsp_err *err)
{
    struct hsp_epoch_sources *src = e->from;
    enum hsp_status st = HSP_OK;
    struct hsp_state_segment **own;
    for (size_t i = 0; st == HSP_OK && i < src->shards.n; i++) {
        if (own_mapping(e, src->seg[i]) == NULL) {
            st = add_all(l, src->seg[i], err);
        }
    }
    for (uint32_t i = 0; st == HSP_OK && (own = own_segment(e, i)) != NULL; i++) {
        if (hsp_segment_version(*own) == e->p->step) {
            st = add_all(l, *own, err);
        }
    }
    return st;
}

static void set_check(struct hsp_ex_epoch *e, struct hsp_epoch_check *c)
{
    (void)pthread_mutex_lock(&e->lock);
    e->check = c;
    (void)pthread_mutex_unlock(&e->lock);
}

enum hsp_status hsp_epoch_verify_begin(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    if (e->p->mode != HSP_MODE_RECOVER) {
        return HSP_OK;
    }
    struct hsp_epoch_check *c = calloc(1, sizeof *c);
    struct hsp_epoch_sources *src = calloc(1, sizeof *src);
    if (c == NULL || src == NULL) {
        free(c);
        free(src);
        return hsp_err_nomem(err, "the verification of state");
    }
    enum hsp_status st = hsp_epoch_sources_open(e, e->p->from_plan, e->p->step, src, err);
    if (st == HSP_OK) {
        e->from = src;
        st = list_rows(e, &c->rows, err);
    } else {
        free(src);
    }
    if (st == HSP_OK) {
        c->begin_ns = hsp_clock_ns();
        st = hsp_verify_begin(c->rows.row, c->rows.n, 0, &c->threads, err);
    }
    if (st != HSP_OK) {
        free(c->rows.row);
        free(c);
        return st;
    }
    set_check(e, c);
    return HSP_OK;
}

void hsp_epoch_verify_stop(struct hsp_ex_epoch *e)
{
    (void)pthread_mutex_lock(&e->lock);
    if (e->check != NULL) {
        hsp_verify_stop(e->check->threads);
    }
    (void)pthread_mutex_unlock(&e->lock);
}

/* Removes the segment that maps the file of @s from the sources. */
static void forget_source(struct hsp_epoch_sources *src, const struct hsp_state_segment *s)
{
    for (size_t i = 0; i < src->shards.n; i++) {
        if (src->seg[i] == s || same_file(src->seg[i], s)) {
            (void)hsp_segment_close(src->seg[i]);
            src->seg[i] = src->seg[--src->shards.n];
            return;
        }
    }
}

/* Deletes the file of the damaged @s. If the epoch itself uses the file, a new segment is created
 * for the epoch. */
static enum hsp_status drop(struct hsp_ex_epoch *e, struct hsp_epoch_sources *src,
                            const struct hsp_state_segment *s, struct hsp_err *err)
{
    struct hsp_segment_key key = *hsp_segment_key_of(s);
    struct hsp_state_segment **own = own_mapping(e, s);
    forget_source(src, s);
    return own != NULL ? hsp_epoch_renew_segment(e, own, err)
                       : hsp_segment_remove(e->env->state_dir, &key, err);
}

/* Reports the first damaged row of each segment, and deletes the segment. In @l the rows of a
 * segment are adjacent. */
static enum hsp_status drop_damaged(struct hsp_ex_epoch *e, struct hsp_epoch_sources *src,
                                    const struct rows *l, bool live, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (size_t i = 0, end; st == HSP_OK && i < l->n; i = end) {
        const struct hsp_state_segment *s = l->row[i].seg;
        size_t bad = SIZE_MAX;
        for (end = i; end < l->n && l->row[end].seg == s; end++) {
            bad = bad == SIZE_MAX && l->row[end].damaged ? end : bad;
        }
        if (bad != SIZE_MAX) {
            hsp_epoch_tell_damaged_row(e, s, l->row[bad].row, hsp_segment_version(s), live);
            st = drop(e, src, s, err);
        }
    }
    return st;
}

/* Checks that all rows of the transfer table that this device has to send are on this device. Only
 * the first kind is looked for, because a segment with one kind of a part has all kinds. */
static enum hsp_status check_promises(const struct hsp_ex_epoch *e, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; st == HSP_OK && i < e->pkg.transfer.n; i++) {
        const struct hsp_pkg_row *r = &e->pkg.transfer.row[i];
        struct hsp_shard_pieces have = {0};
        struct hsp_boxes missing = {0};
        if (r->from != e->p->rank || r->passed_on) {
            continue;
        }
        st = hsp_shards_locate(&e->from->shards, r->param, e->pkg.kinds[0], &r->box, &have,
                               &missing, err);
        if (st == HSP_OK && missing.n > 0) {
            st =
                hsp_err_set(err, HSP_ENOENT, 0, "version %" PRIu64 " of %s is not here as promised",
                            e->p->step, e->pkg.params[r->param].name);
        }
        free(have.p);
        hsp_boxes_fini(&missing);
    }
    return st;
}

static void log_check(const struct hsp_ex_epoch *e, const struct hsp_epoch_check *c, size_t damaged)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < c->rows.n; i++) {
        const struct hsp_segment_row *r =
            hsp_segment_row_at(c->rows.row[i].seg, c->rows.row[i].row);
        bytes += hsp_box_count(&r->box) * (int64_t)hsp_dtype_size(r->dtype);
    }
    hsp_log(e->env->log, HSP_LOG_INFO, "executor",
            "epoch %" PRIu64 " of job %u: version %" PRIu64
            " verified here: %.1f MiB, ready after %.1f ms, %zu of %zu parts damaged",
            e->number, e->p->job, e->p->step, (double)bytes / (1 << 20),
            (double)(hsp_clock_ns() - c->begin_ns) * 1e-6, damaged, c->rows.n);
}

enum hsp_status hsp_epoch_verify_end(struct hsp_ex_epoch *e, bool want, struct hsp_err *err)
{
    struct hsp_epoch_check *c = e->check;
    size_t n = 0;
    if (c == NULL) {
        return HSP_OK;
    }
    if (!want) {
        hsp_epoch_verify_stop(e);
    }
    hsp_verify_end(c->threads, &n);
    set_check(e, NULL); /* from now on no thread can stop the verification */
    (void)hsp_verify_free(c->threads);
    (void)pthread_mutex_lock(&e->lock);
    bool whole = want && !e->cancelled;
    (void)pthread_mutex_unlock(&e->lock);
    enum hsp_status st = whole ? HSP_OK : hsp_err_set(err, HSP_ECANCELED, 0, "the epoch has ended");
    if (st == HSP_OK) {
        log_check(e, c, n);
    }
    if (st == HSP_OK && n > 0) {
        st = drop_damaged(e, e->from, &c->rows, false, err);
    }
    free(c->rows.row);
    free(c);
    return st == HSP_OK ? check_promises(e, err) : st;
}

/* ---- while an epoch runs ---- */

static int by_place(const void *a, const void *b)
{
    const struct hsp_verify_row *x = a, *y = b;
    if (x->seg != y->seg) {
        return (uintptr_t)x->seg < (uintptr_t)y->seg ? -1 : 1;
    }
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Sorts the rows by segment, and removes rows that are listed twice. */
static void tidy(struct rows *l)
{
    size_t n = 0;
    if (l->n > 1) {
        qsort(l->row, l->n, sizeof *l->row, by_place);
    }
    for (size_t i = 0; i < l->n; i++) {
        if (n == 0 || by_place(&l->row[i], &l->row[n - 1]) != 0) {
            l->row[n++] = l->row[i];
        }
    }
    l->n = n;
}

/* Adds to @l each row of a source segment of which row @r of the table takes only a part. */
static enum hsp_status add_cut(struct rows *l, const struct hsp_ex_epoch *e,
                               const struct hsp_epoch_sources *src, const struct hsp_pkg_row *r,
                               uint8_t kind, struct hsp_err *err)
{
    struct hsp_shard_pieces have = {0};
    struct hsp_boxes missing = {0};
    enum hsp_status st = hsp_shards_locate(&src->shards, r->param, e->pkg.kinds[kind], &r->box,
                                           &have, &missing, err);
    for (size_t i = 0; st == HSP_OK && i < have.n; i++) {
        const struct hsp_shard_piece *p = &have.p[i];
        if (!hsp_box_equal(&p->box, &hsp_segment_row_at(p->seg, p->row)->box)) {
            st = add(l, p->seg, p->row, err);
        }
    }
    free(have.p);
    hsp_boxes_fini(&missing); /* the transfer reports missing parts */
    return st;
}

enum hsp_status hsp_epoch_verify_cuts(struct hsp_ex_epoch *e, struct hsp_epoch_sources *src,
                                      uint8_t kind, struct hsp_err *err)
{
    struct rows l = {0};
    size_t n = 0;
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; st == HSP_OK && i < e->pkg.transfer.n; i++) {
        const struct hsp_pkg_row *r = &e->pkg.transfer.row[i];
        if (r->from == e->p->rank && !r->passed_on) {
            st = add_cut(&l, e, src, r, kind, err);
        }
    }
    tidy(&l);
    st = st == HSP_OK ? hsp_verify_rows(l.row, l.n, &n, err) : st;
    if (st == HSP_OK && n > 0) {
        st = drop_damaged(e, src, &l, true, err);
        st = st == HSP_OK ? hsp_err_set(err, HSP_EDIGEST, 0, "version %" PRIu64 " here is damaged",
                                        src->shards.version)
                          : st;
    }
    free(l.row);
    return st;
}

enum hsp_status hsp_epoch_verify_home(struct hsp_ex_epoch *e, uint64_t version, uint8_t n_kinds,
                                      struct hsp_err *err)
{
    struct hsp_state_segment *s = hsp_epoch_home(e, version);
    struct rows l = {0};
    size_t n = 0;
    enum hsp_status st =
        hsp_segment_version(s) == version
            ? HSP_OK
            : hsp_err_set(err, HSP_ENOENT, 0, "version %" PRIu64 " is not here", version);
    for (uint32_t i = 0; st == HSP_OK && i < e->pkg.gather.n; i++) {
        const struct hsp_pkg_row *r = &e->pkg.gather.row[i];
        for (uint8_t k = 0; st == HSP_OK && r->from == e->p->rank && k < n_kinds; k++) {
            uint32_t row = hsp_segment_find(s, r->param, e->pkg.kinds[k], &r->box);
            st = row != UINT32_MAX ? add(&l, s, row, err) : HSP_OK; /* else reading fails */
        }
    }
    tidy(&l);
    st = st == HSP_OK ? hsp_verify_rows(l.row, l.n, &n, err) : st;
    for (size_t i = 0; st == HSP_OK && n > 0 && i < l.n; i++) {
        if (l.row[i].damaged) {
            st = hsp_epoch_disown(e, s, l.row[i].row, err);
        }
    }
    free(l.row);
    return st;
}
