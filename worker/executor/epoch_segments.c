/* A segment is named by (job number, device/rank, owner's rank, layout, slot). The layout is the
 * plan's number, not the epoch's: the same plan under a new epoch number goes on in the same files.
 */
#include "worker/executor/epoch_segments.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/layout/box.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_damage.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_name.h"

/* Programs find state by its place: a segment that another version of the compiler laid out
 * otherwise has another shape, even with the same size. After an upgrade of hspmdd a layout
 * may thus change. */
static bool same_rows(const struct hsp_state_segment *s, const struct hsp_segment_row *rows,
                      uint32_t n)
{
    bool same = hsp_segment_n(s) == n;
    for (uint32_t i = 0; i < n && same; i++) {
        const struct hsp_segment_row *r = hsp_segment_row_at(s, i);
        same = r->tensor == rows[i].tensor && r->kind == rows[i].kind &&
               r->offset == rows[i].offset && hsp_box_equal(&r->box, &rows[i].box);
    }
    return same;
}

/* Whether the parts that @rows place are all in @s, perhaps elsewhere in it. */
static bool has_rows(const struct hsp_state_segment *s, const struct hsp_segment_row *rows,
                     uint32_t n)
{
    bool has = true;
    for (uint32_t i = 0; i < n && has; i++) {
        has = hsp_segment_find(s, rows[i].tensor, rows[i].kind, &rows[i].box) != UINT32_MAX;
    }
    return has;
}

/* Sealed segment @s is of the layout of @e and of another shape than @rows: it stays, for it may be
 * all there is of its version. HSP_ESTATE: under another number the layout can be made of it.
 * HSP_EUNSUPPORTED: it cannot, and the epoch was to go on from it. */
static enum hsp_status refuse_shape(const struct hsp_ex_epoch *e, const struct hsp_state_segment *s,
                                    const struct hsp_segname *name,
                                    const struct hsp_segment_row *rows, uint32_t n,
                                    struct hsp_err *err)
{
    bool source = e->p->mode == HSP_MODE_RECOVER && e->p->from_plan == e->p->plan;
    if (source && name->owner == name->rank && !has_rows(s, rows, n)) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0,
                           "version %" PRIu64 " of layout %" PRIu64
                           " is cut otherwise than this hspmdd cuts it, and stays: start the "
                           "version of hspmdd again that ran the job, until it has a checkpoint, "
                           "or resume the job from an earlier checkpoint",
                           hsp_segment_version(s), name->plan);
    }
    return hsp_err_set(err, HSP_ESTATE, 0,
                       "version %" PRIu64 " of layout %" PRIu64
                       " is laid out by another version of hspmdd, and stays: the layout gets "
                       "another number",
                       hsp_segment_version(s), name->plan);
}

/* To take room takes long, and who ends the epoch waits. A peer that is lost ends nothing here:
 * that is told behind READY. */
static struct hsp_segment_stop when_cancelled(struct hsp_ex_epoch *e)
{
    return (struct hsp_segment_stop){.over = hsp_epoch_is_cancelled, .of = e};
}

/* Opens the segment, or makes it when there is none, or none that can be used. */
static enum hsp_status open_or_create(struct hsp_ex_epoch *e, uint32_t owner, uint32_t slot,
                                      const struct hsp_segment_row *rows, uint32_t n, int64_t area,
                                      struct hsp_state_segment **ret, struct hsp_err *err)
{
    struct hsp_segment_key key;
    struct hsp_whose whose = {e->p->cluster, e->p->generation};
    struct hsp_segname name = {.job = e->p->job,
                               .device = e->env->device,
                               .rank = e->p->rank,
                               .owner = owner,
                               .plan = e->p->plan,
                               .slot = slot};
    struct hsp_segment_stop stop = when_cancelled(e);
    hsp_segname_key(&name, &key);
    enum hsp_status st = hsp_segment_open(e->env->state_dir, &key, true, ret, err);
    if (st == HSP_OK && hsp_segment_area_bytes(*ret) == area && same_rows(*ret, rows, n)) {
        return hsp_segment_populate(*ret, &stop, err);
    }
    bool useless = st == HSP_EDIGEST;
    if (st == HSP_OK) {
        useless = hsp_segment_version(*ret) == HSP_NO_VERSION;
        st = useless ? HSP_OK : refuse_shape(e, *ret, &name, rows, n, err);
        *ret = hsp_segment_close(*ret);
    } else if (useless) {
        hsp_epoch_tell_damaged(e, &name, HSP_NO_VERSION, false, "the head");
    }
    if (useless) { /* unsealed, or damaged: never a source, so it may go */
        st = hsp_segment_remove(e->env->state_dir, &key, err);
    }
    if (st != HSP_OK && st != HSP_ENOENT) {
        return st; /* also of another format, or without memory to look: it may be whole */
    }
    return hsp_segment_create(e->env->state_dir, &key, &whose, rows, n, area, &stop, ret, err);
}

enum hsp_status hsp_epoch_renew_segment(struct hsp_ex_epoch *e, struct hsp_state_segment **s,
                                        struct hsp_err *err)
{
    struct hsp_segment_key key = *hsp_segment_key_of(*s);
    struct hsp_whose whose = hsp_segment_whose(*s);
    uint32_t n = hsp_segment_n(*s);
    int64_t area = hsp_segment_area_bytes(*s);
    struct hsp_segment_row *rows = calloc((size_t)n + 1, sizeof *rows);
    if (rows == NULL) {
        return hsp_err_nomem(err, "%u rows of state", n);
    }
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = *hsp_segment_row_at(*s, i);
    }
    *s = hsp_segment_close_behind(e->env->state_dir, *s);
    enum hsp_status st = hsp_segment_remove(e->env->state_dir, &key, err);
    if (st == HSP_OK) {
        const struct hsp_segment_stop stop = when_cancelled(e);
        st = hsp_segment_create(e->env->state_dir, &key, &whose, rows, n, area, &stop, s, err);
    }
    free(rows);
    return st;
}

static enum hsp_status open_home(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    const struct hsp_program *p = &e->prog;
    uint32_t n = p->bind.n_state;
    struct hsp_segment_row *rows = hsp_arena_array(e->arena, n, sizeof *rows);
    if (rows == NULL) {
        return hsp_err_nomem(err, "%u rows of state", n);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_state_bind *s = &p->bind.state[i];
        const struct hsp_ptensor *t = &p->tpl.tensors[s->tensor];
        rows[i] = (struct hsp_segment_row){.tensor = s->tensor_id,
                                           .kind = t->state_kind,
                                           .dtype = t->dtype,
                                           .box = p->bind.tensor[s->tensor].box,
                                           .offset = p->bind.tensor[s->tensor].offset};
        memcpy(rows[i].full, s->full.hi, sizeof rows[i].full);
    }
    for (uint32_t slot = 0; slot < 2; slot++) {
        enum hsp_status st =
            open_or_create(e, e->p->rank, slot, rows, n, p->bind.state_bytes, &e->seg[slot], err);
        if (st != HSP_OK) {
            return st;
        }
    }
    return HSP_OK;
}

/* Rows of the copy that @owner sends here: each row of the table, all kinds. */
static enum hsp_status copy_rows(struct hsp_ex_epoch *e, uint32_t owner,
                                 struct hsp_segment_row **ret, uint32_t *ret_n, int64_t *ret_area,
                                 struct hsp_err *err)
{
    const struct hsp_pkg_table *t = &e->pkg.copies;
    struct hsp_segment_row *rows =
        hsp_arena_array(e->arena, (size_t)t->n * e->pkg.n_kinds, sizeof *rows);
    uint32_t n = 0;
    int64_t at = 0;
    if (rows == NULL) {
        return hsp_err_nomem(err, "the copies of rank %u", owner);
    }
    for (uint32_t i = 0; i < t->n; i++) {
        const struct hsp_pkg_row *r = &t->row[i];
        for (uint8_t k = 0; r->from == owner && r->to == e->p->rank && k < e->pkg.n_kinds; k++) {
            int64_t bytes = hsp_box_count(&r->box) * (int64_t)hsp_dtype_size(e->pkg.dtype);
            rows[n] = (struct hsp_segment_row){.tensor = r->param,
                                               .kind = e->pkg.kinds[k],
                                               .dtype = e->pkg.dtype,
                                               .box = r->box,
                                               .offset = at};
            memcpy(rows[n].full, e->pkg.params[r->param].ext, sizeof rows[n].full);
            at += (bytes + 63) / 64 * 64;
            n++;
        }
    }
    *ret = rows;
    *ret_n = n;
    *ret_area = at;
    return HSP_OK;
}

static enum hsp_status open_copy(struct hsp_ex_epoch *e, uint32_t owner, struct hsp_err *err)
{
    struct hsp_segment_row *rows = NULL;
    uint32_t n = 0;
    int64_t area = 0;
    struct hsp_epoch_copy *c = &e->copies[e->n_copies];
    enum hsp_status st = copy_rows(e, owner, &rows, &n, &area, err);
    c->owner = owner;
    e->n_copies++;
    c->hash = st == HSP_OK ? hsp_arena_array(e->arena, (size_t)n + 1, sizeof *c->hash) : NULL;
    if (st == HSP_OK && c->hash == NULL) {
        st = hsp_err_nomem(err, "the copies of rank %u", owner);
    }
    for (uint32_t slot = 0; st == HSP_OK && slot < 2; slot++) {
        st = open_or_create(e, owner, slot, rows, n, area, &c->seg[slot], err);
    }
    return st;
}

static bool copies_to_me(const struct hsp_ex_epoch *e, uint32_t owner)
{
    for (uint32_t i = 0; i < e->pkg.copies.n; i++) {
        if (e->pkg.copies.row[i].from == owner && e->pkg.copies.row[i].to == e->p->rank) {
            return true;
        }
    }
    return false;
}

enum hsp_status hsp_epoch_open_segments(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    enum hsp_status st = e->member ? open_home(e, err) : HSP_OK;
    e->copies = hsp_arena_array(e->arena, e->p->n_ranks, sizeof *e->copies);
    if (st == HSP_OK && e->copies == NULL) {
        st = hsp_err_nomem(err, "copies");
    }
    for (uint32_t r = 0; st == HSP_OK && r < e->p->n_ranks; r++) {
        if (copies_to_me(e, r)) {
            st = open_copy(e, r, err);
        }
    }
    return st;
}

static bool is_sealed(const struct hsp_state_segment *s)
{
    return s != NULL && hsp_segment_version(s) != HSP_NO_VERSION;
}

/* It has sealed a version, or goes on from one. */
static bool has_sealed(const struct hsp_ex_epoch *e)
{
    bool any = false;
    for (int slot = 0; slot < 2; slot++) {
        any = any || is_sealed(e->seg[slot]);
        for (uint32_t i = 0; i < e->n_copies; i++) {
            any = any || is_sealed(e->copies[i].seg[slot]);
        }
    }
    return any;
}

/* Its memory goes when it is unmapped. */
static void discard(const struct hsp_ex_epoch *e, const struct hsp_state_segment *s)
{
    struct hsp_err err = {0};
    if (s != NULL && !is_sealed(s) &&
        hsp_segment_remove(e->env->state_dir, hsp_segment_key_of(s), &err) != HSP_OK) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "state of job %u stays behind: %s",
                e->p->job, err.msg);
    }
}

void hsp_epoch_discard_segments(struct hsp_ex_epoch *e)
{
    bool tidy = e->dropped || (e->alone && !has_sealed(e));
    for (int slot = 0; tidy && slot < 2; slot++) {
        discard(e, e->seg[slot]);
        for (uint32_t i = 0; i < e->n_copies; i++) {
            discard(e, e->copies[i].seg[slot]);
        }
    }
}

void hsp_epoch_close_segments(struct hsp_ex_epoch *e)
{
    for (int slot = 0; slot < 2; slot++) {
        e->seg[slot] = hsp_segment_close(e->seg[slot]);
        for (uint32_t i = 0; i < e->n_copies; i++) {
            e->copies[i].seg[slot] = hsp_segment_close(e->copies[i].seg[slot]);
        }
    }
}
