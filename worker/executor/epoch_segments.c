/* A segment is named by (job number, device/rank, owner's rank, layout, slot). The layout is the
 * number of the plan and not of the epoch, so a new epoch with the same plan uses the same files.
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

/* Returns true if the rows of @s are @rows, with equal offsets. Programs find the state by its
 * offset. Another version of hspmdd's compiler may have used other offsets for the same layout,
 * also in a segment of the same size. */
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

/* Returns true if all parts of @rows are in @s, at any offset. */
static bool has_rows(const struct hsp_state_segment *s, const struct hsp_segment_row *rows,
                     uint32_t n)
{
    bool has = true;
    for (uint32_t i = 0; i < n && has; i++) {
        has = hsp_segment_find(s, rows[i].tensor, rows[i].kind, &rows[i].box) != UINT32_MAX;
    }
    return has;
}

/* Refuses the sealed segment @s, which has the layout number of @e and other rows or offsets than
 * @rows. @s stays, because it may be the only copy of its version. Returns HSP_ESTATE if the state
 * of @s can be transferred to a layout with another number, and HSP_EUNSUPPORTED if it cannot and
 * the epoch was to go on from @s. */
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

/* Returns the condition that stops the taking of room, which takes long: that the epoch is
 * cancelled, because then the control thread waits for its end. A lost peer does not stop it,
 * because a loss is reported only after READY. */
static struct hsp_segment_stop when_cancelled(struct hsp_ex_epoch *e)
{
    return (struct hsp_segment_stop){.over = hsp_epoch_is_cancelled, .of = e};
}

/* Describes the segment to open or create. */
struct want {
    struct hsp_segname name;
    struct hsp_segment_key key;
    const struct hsp_segment_row *rows;
    uint32_t n;
    int64_t area;
};

/* Creates a segment from a spare (segment_pool.h) if there is one, else from new pages. */
static enum hsp_status make(struct hsp_ex_epoch *e, const struct want *w,
                            struct hsp_pinned_segment *ret, struct hsp_err *err)
{
    const struct hsp_whose whose = {e->p->cluster, e->p->generation};
    const struct hsp_segment_stop stop = when_cancelled(e);
    const char *dir = e->env->state_dir;
    char path[HSP_SEGMENT_PATH];
    struct hsp_pinned_segment p =
        hsp_pool_take_spare(e->env, hsp_segment_file_bytes(w->n, w->area), path);
    if (p.s != NULL) {
        enum hsp_status st =
            hsp_segment_reuse(dir, path, &w->key, &whose, w->rows, w->n, w->area, p.s, err);
        if (st == HSP_OK) {
            *ret = p;
            return HSP_OK;
        }
        hsp_pool_close(e->env, p);
        (void)hsp_segment_unlink(dir, path);
        if (st != HSP_ENOENT) {
            return st;
        }
    }
    ret->pinned = 0;
    return hsp_segment_create(dir, &w->key, &whose, w->rows, w->n, w->area, &stop, &ret->s, err);
}

/* Opens the segment of @key: from the pool, with all pages mapped (*ret_mapped), or from the file
 * in the folder. */
static enum hsp_status open_file(struct hsp_ex_epoch *e, const struct hsp_segment_key *key,
                                 struct hsp_pinned_segment *ret, bool *ret_mapped,
                                 struct hsp_err *err)
{
    *ret = hsp_pool_take(e->env, key);
    *ret_mapped = ret->s != NULL;
    if (ret->s == NULL) {
        return hsp_segment_open(e->env->state_dir, key, true, &ret->s, err);
    }
    enum hsp_status st = hsp_segment_check(ret->s, err);
    if (st != HSP_OK) {
        hsp_pool_close(e->env, *ret);
    }
    return st;
}

/* Maps all pages of @p and returns it in *@ret, unless @e is cancelled before. */
static enum hsp_status map(struct hsp_ex_epoch *e, struct hsp_pinned_segment p,
                           struct hsp_pinned_segment *ret, struct hsp_err *err)
{
    const struct hsp_segment_stop stop = when_cancelled(e);
    enum hsp_status st = hsp_segment_populate(p.s, &stop, err);
    if (st == HSP_OK) {
        *ret = p;
    } else {
        hsp_pool_close(e->env, p);
    }
    return st;
}

/* Opens the segment, or creates it if there is none or if the one that exists is unsealed with
 * other rows, or damaged. */
static enum hsp_status open_or_create(struct hsp_ex_epoch *e, const struct want *w,
                                      struct hsp_pinned_segment *ret, struct hsp_err *err)
{
    struct hsp_pinned_segment p = {0};
    bool mapped;
    enum hsp_status st = open_file(e, &w->key, &p, &mapped, err);
    if (st == HSP_OK && hsp_segment_area_bytes(p.s) == w->area && same_rows(p.s, w->rows, w->n)) {
        if (!mapped) {
            return map(e, p, ret, err);
        }
        *ret = p;
        return HSP_OK;
    }
    bool useless = st == HSP_EDIGEST;
    if (st == HSP_OK) {
        useless = hsp_segment_version(p.s) == HSP_NO_VERSION;
        st = useless ? HSP_OK : refuse_shape(e, p.s, &w->name, w->rows, w->n, err);
        hsp_pool_close(e->env, p);
    } else if (useless) {
        hsp_epoch_tell_damaged(e, &w->name, HSP_NO_VERSION, false, "the head");
    }
    if (useless) { /* unsealed or damaged segments are never a source */
        st = hsp_segment_remove(e->env->state_dir, &w->key, err);
    }
    return st == HSP_OK || st == HSP_ENOENT
               ? make(e, w, ret, err)
               : st; /* of another format, or memory was lacking: it may be undamaged */
}

/* Opens both segments of @owner's home or copy. @pinned, [2]: pinned bytes at the front of each
 * segment. */
static enum hsp_status open_slots(struct hsp_ex_epoch *e, uint32_t owner,
                                  const struct hsp_segment_row *rows, uint32_t n, int64_t area,
                                  struct hsp_state_segment *ret[2], size_t *pinned,
                                  struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t slot = 0; st == HSP_OK && slot < 2; slot++) {
        struct want w = {.name = {.job = e->p->job,
                                  .device = e->env->device,
                                  .rank = e->p->rank,
                                  .owner = owner,
                                  .plan = e->p->plan,
                                  .slot = slot},
                         .rows = rows,
                         .n = n,
                         .area = area};
        struct hsp_pinned_segment p = {0};
        hsp_segname_key(&w.name, &w.key);
        st = open_or_create(e, &w, &p, err);
        ret[slot] = p.s;
        pinned[slot] = p.pinned;
    }
    return st;
}

/* Returns the address of the number of pinned bytes of segment @s of the epoch. */
static size_t *pinned_of(struct hsp_ex_epoch *e, struct hsp_state_segment *const *s)
{
    for (uint32_t i = 0; i < e->n_copies; i++) {
        struct hsp_epoch_copy *c = &e->copies[i];
        if (s == &c->seg[0] || s == &c->seg[1]) {
            return &c->pinned[s == &c->seg[1]];
        }
    }
    return &e->dev.pinned[s == &e->seg[1]];
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
    size_t *pinned = pinned_of(e, s);
    struct hsp_pinned_segment p = {*s, *pinned};
    *s = NULL;
    *pinned = 0;
    hsp_pool_close(e->env, p);
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
    return open_slots(e, e->p->rank, rows, n, p->bind.state_bytes, e->seg, e->dev.pinned, err);
}

/* Lists the rows of the copy that @owner sends to this device: all kinds of each row of the table
 * of copies. */
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
    return st == HSP_OK ? open_slots(e, owner, rows, n, area, c->seg, c->pinned, err) : st;
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
    if (st == HSP_OK) { /* deletes the spares that were not taken */
        hsp_pool_tidy(e->env);
    }
    return st;
}

static bool is_sealed(const struct hsp_state_segment *s)
{
    return s != NULL && hsp_segment_version(s) != HSP_NO_VERSION;
}

/* Returns true if a segment of the epoch is sealed, by this epoch or before. */
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

static void leave_one(struct hsp_ex_epoch *e, struct hsp_state_segment **s, size_t *pinned,
                      bool tidy)
{
    const struct hsp_pinned_segment p = {*s, *pinned};
    *s = NULL;
    *pinned = 0;
    hsp_pool_give(e->env, p, tidy && !is_sealed(p.s));
}

void hsp_epoch_leave_segments(struct hsp_ex_epoch *e)
{
    bool tidy = e->dropped || (e->alone && !has_sealed(e));
    for (int slot = 0; slot < 2; slot++) {
        leave_one(e, &e->seg[slot], &e->dev.pinned[slot], tidy);
        for (uint32_t i = 0; i < e->n_copies; i++) {
            leave_one(e, &e->copies[i].seg[slot], &e->copies[i].pinned[slot], tidy);
        }
    }
}
