#include "worker/executor/replica_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/vec.h"
#include "proto/layout/box.h"
#include "worker/comm/collective.h"
#include "worker/executor/epoch_damage.h"
#include "worker/executor/replica_verdict.h"
#include "worker/state/box_hash.h"
#include "worker/state/region.h"
#include "worker/state/segment_verify.h"

#define CHANNEL_TWINS   0x7ffffff3u /* of the data mesh, for hashes between two neighbours */
#define CHANNEL_VERDICT 0x7ffffff4u
#define NONE            UINT32_MAX
#define MAX_REPLICAS    ((size_t)4 * HSP_PKG_ROWS)

/* A part of one kind that another rank has, too. */
struct replica {
    uint32_t row; /* row of the home */
    bool whole;   /* the part is the complete row */
    struct hsp_box box;
    uint64_t hash[2]; /* one for each segment */
};

/* A piece of a *cut* row, i.e. a row of which other ranks have only parts: a replica, or a rest
 * that no other rank has. */
struct piece {
    uint32_t row, replica; /* replica NONE: no other rank has the piece */
    struct hsp_box box;
};

struct hsp_replica_check {
    size_t n, cap, n_pieces, cap_pieces;
    struct replica *replica;    /* the replicas of one box are adjacent, one for each kind */
    struct piece *piece;        /* in the order of rows */
    uint32_t *of_link;          /* [replicas.n] for each link its first replica */
    bool *cut;                  /* [rows of the home] the row is cut */
    uint64_t *hash;             /* [rows of the home] hashes for the seal */
    struct hsp_hash_call *call; /* [rows of the home] calls of a backend */
    uint64_t version[2];        /* versions of the hashes of the replicas */
};

/* ---- the replicas ---- */

struct place {
    uint32_t tensor, row;
    uint8_t kind;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->tensor != y->tensor) {
        return x->tensor < y->tensor ? -1 : 1;
    }
    return x->kind != y->kind ? (x->kind < y->kind ? -1 : 1)
           : x->row < y->row  ? -1
                              : x->row > y->row;
}

/* Lists the rows of the home, sorted for find_row. Returns NULL if memory is lacking. */
static struct place *list_places(const struct hsp_state_segment *home)
{
    uint32_t n = hsp_segment_n(home);
    struct place *p = calloc((size_t)n + 1, sizeof *p);
    for (uint32_t i = 0; p != NULL && i < n; i++) {
        const struct hsp_segment_row *r = hsp_segment_row_at(home, i);
        p[i] = (struct place){r->tensor, i, r->kind};
    }
    if (p != NULL && n > 1) {
        qsort(p, n, sizeof *p, by_place);
    }
    return p;
}

/* Finds the row that has all of @box, or NONE. */
static uint32_t find_row(const struct hsp_state_segment *home, const struct place *p,
                         uint32_t tensor, uint8_t kind, const struct hsp_box *box)
{
    const struct place first = {tensor, 0, kind};
    uint32_t lo = 0, hi = hsp_segment_n(home);
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (by_place(&p[mid], &first) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    for (; lo < hsp_segment_n(home) && p[lo].tensor == tensor && p[lo].kind == kind; lo++) {
        if (hsp_box_inside(box, &hsp_segment_row_at(home, p[lo].row)->box)) {
            return p[lo].row;
        }
    }
    return NONE;
}

static bool same_part(const struct hsp_pkg_row *a, const struct hsp_pkg_row *b)
{
    return a->param == b->param && hsp_box_equal(&a->box, &b->box);
}

/* Adds the replicas of link @i (row i of the table of replicas: two neighbours in the ring of a
 * part), one for each kind. If the previous link has the same part, both links use the same
 * replicas. */
static enum hsp_status add_replicas(struct hsp_ex_epoch *e, struct hsp_replica_check *t,
                                    const struct place *places, uint32_t i, struct hsp_err *err)
{
    const struct hsp_pkg_row *r = &e->pkg.replicas.row[i];
    const struct hsp_state_segment *home = e->seg[0];
    if (i > 0 && same_part(r, r - 1)) {
        t->of_link[i] = t->of_link[i - 1];
        return HSP_OK;
    }
    t->of_link[i] = (uint32_t)t->n;
    for (uint8_t k = 0; k < e->pkg.n_kinds; k++) {
        uint32_t row = find_row(home, places, r->param, e->pkg.kinds[k], &r->box);
        if (row == NONE || (r->from != e->p->rank && r->to != e->p->rank)) {
            return hsp_err_set(err, HSP_EPROTO, 0, "a part of %s is not owned here",
                               e->pkg.params[r->param].name);
        }
        if (!hsp_grow(&t->replica, &t->cap, t->n + 1, sizeof *t->replica, MAX_REPLICAS)) {
            return hsp_grow_error(t->n + 1, MAX_REPLICAS, "equal copies of state", err);
        }
        bool whole = hsp_box_equal(&r->box, &hsp_segment_row_at(home, row)->box);
        t->replica[t->n++] = (struct replica){.row = row, .whole = whole, .box = r->box};
        t->cut[row] = t->cut[row] || !whole;
    }
    return HSP_OK;
}

static enum hsp_status add_piece(struct hsp_replica_check *t, uint32_t row, uint32_t replica,
                                 const struct hsp_box *box, struct hsp_err *err)
{
    if (!hsp_grow(&t->piece, &t->cap_pieces, t->n_pieces + 1, sizeof *t->piece, 2 * MAX_REPLICAS)) {
        return hsp_grow_error(t->n_pieces + 1, 2 * MAX_REPLICAS, "parts of state", err);
    }
    t->piece[t->n_pieces++] = (struct piece){row, replica, *box};
    return HSP_OK;
}

/* Lists the pieces of row @row, if it is cut: its replicas, and the rest between them. */
static enum hsp_status cut_row(struct hsp_ex_epoch *e, struct hsp_replica_check *t, uint32_t row,
                               const uint32_t *first, const uint32_t *next, struct hsp_err *err)
{
    struct hsp_boxes rest = {0};
    enum hsp_status st = hsp_boxes_add(&rest, &hsp_segment_row_at(e->seg[0], row)->box)
                             ? HSP_OK
                             : hsp_err_nomem(err, "parts of state");
    for (uint32_t i = first[row]; st == HSP_OK && i != NONE; i = next[i]) {
        st = hsp_boxes_minus(&rest, &t->replica[i].box) ? HSP_OK
                                                        : hsp_err_nomem(err, "parts of state");
        st = st == HSP_OK && t->cut[row] ? add_piece(t, row, i, &t->replica[i].box, err) : st;
    }
    for (size_t k = 0; st == HSP_OK && k < rest.n; k++) {
        bool some = !hsp_box_empty(&rest.b[k]);
        st = some && t->cut[row] ? add_piece(t, row, NONE, &rest.b[k], err) : st;
    }
    hsp_boxes_fini(&rest);
    return st;
}

static enum hsp_status cut_rows(struct hsp_ex_epoch *e, struct hsp_replica_check *t,
                                struct hsp_err *err)
{
    uint32_t n = hsp_segment_n(e->seg[0]);
    uint32_t *first = calloc((size_t)n + 1, sizeof *first), *next = calloc(t->n + 1, sizeof *next);
    enum hsp_status st =
        first != NULL && next != NULL ? HSP_OK : hsp_err_nomem(err, "parts of state");
    for (uint32_t i = 0; st == HSP_OK && i < n; i++) {
        first[i] = NONE;
    }
    for (size_t i = t->n; st == HSP_OK && i-- > 0;) {
        next[i] = first[t->replica[i].row];
        first[t->replica[i].row] = (uint32_t)i;
    }
    for (uint32_t i = 0; st == HSP_OK && i < n; i++) {
        st = cut_row(e, t, i, first, next, err);
    }
    free(first);
    free(next);
    return st;
}

enum hsp_status hsp_replica_check_open(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    struct hsp_replica_check *t = e->replica_check = calloc(1, sizeof *t);
    size_t n = (size_t)hsp_segment_n(e->seg[0]) + 1;
    if (t == NULL) {
        return hsp_err_nomem(err, "equal copies of state");
    }
    *t = (struct hsp_replica_check){.of_link =
                                        calloc((size_t)e->pkg.replicas.n + 1, sizeof *t->of_link),
                                    .cut = calloc(n, sizeof *t->cut),
                                    .hash = calloc(n, sizeof *t->hash),
                                    .call = calloc(n, sizeof *t->call),
                                    .version = {HSP_NO_VERSION, HSP_NO_VERSION}};
    struct place *places = list_places(e->seg[0]);
    enum hsp_status st =
        t->of_link != NULL && t->cut != NULL && t->hash != NULL && t->call != NULL && places != NULL
            ? HSP_OK
            : hsp_err_nomem(err, "equal copies of state");
    for (uint32_t i = 0; st == HSP_OK && i < e->pkg.replicas.n; i++) {
        st = add_replicas(e, t, places, i, err);
    }
    free(places);
    return st == HSP_OK ? cut_rows(e, t, err) : st;
}

void hsp_replica_check_close(struct hsp_ex_epoch *e)
{
    struct hsp_replica_check *t = e->replica_check;
    e->replica_check = NULL;
    if (t != NULL) {
        free(t->replica);
        free(t->piece);
        free(t->of_link);
        free(t->cut);
        free(t->hash);
        free(t->call);
        free(t);
    }
}

/* ---- their hashes ---- */

static uint64_t hash_part(const struct hsp_state_segment *s, uint32_t row,
                          const struct hsp_box *box)
{
    const struct hsp_segment_row *r = hsp_segment_row_at(s, row);
    const struct hsp_box_id id = {r->tensor, r->kind, r->dtype, r->full};
    return hsp_box_hash(&id, box, &r->box, (const uint8_t *)hsp_segment_area(s) + r->offset);
}

/* Hashes the rows that are not cut; the hash of a cut row becomes 0. On a CPU the backend does
 * that, with threads that the step leaves idle. A GPU has no threads for host memory, so this
 * thread hashes. */
static void hash_rows(struct hsp_ex_epoch *e, const struct hsp_state_segment *s)
{
    struct hsp_replica_check *t = e->replica_check;
    struct hsp_backend *b = e->env->backend;
    uint32_t n = hsp_segment_n(s);
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_segment_row *r = hsp_segment_row_at(s, i);
        const struct hsp_box_id id = {r->tensor, r->kind, r->dtype, r->full};
        const uint8_t *data = (const uint8_t *)hsp_segment_area(s) + r->offset;
        hsp_box_hash_call(&id, &r->box, data, &t->call[i]);
        if (t->cut[i]) { /* no call for a cut row */
            t->call[i].rank = 1;
            t->call[i].ext[0] = 0;
        }
    }
    if (b == NULL || b->device || b->hash(b, HSP_DEVQ_STATE, t->call, n, t->hash, NULL) != HSP_OK) {
        for (uint32_t i = 0; i < n; i++) {
            t->hash[i] = t->cut[i] ? 0 : hash_part(s, i, &hsp_segment_row_at(s, i)->box);
        }
    }
}

/* Finds the first row whose hash differs from that in @wrote, made when the update wrote the row.
 * Returns NONE if all are equal. */
static uint32_t first_changed(const struct hsp_replica_check *t, const uint64_t *wrote, uint32_t n)
{
    for (uint32_t i = 0; wrote != NULL && i < n; i++) {
        if (t->hash[i] != wrote[i]) {
            return i;
        }
    }
    return NONE;
}

enum hsp_status hsp_replica_check_seal(struct hsp_ex_epoch *e, uint64_t version,
                                       const uint64_t *wrote, struct hsp_err *err)
{
    struct hsp_replica_check *t = e->replica_check;
    uint32_t slot = hsp_slot_of(&e->slots, e->seg, version);
    struct hsp_state_segment *s = e->seg[slot];
    hash_rows(e, s);
    for (size_t i = 0; i < t->n_pieces; i++) {
        const struct piece *p = &t->piece[i];
        uint64_t h = hash_part(s, p->row, &p->box);
        t->hash[p->row] += h;
        if (p->replica != NONE) {
            t->replica[p->replica].hash[slot] = h;
        }
    }
    for (size_t i = 0; i < t->n; i++) {
        if (t->replica[i].whole) {
            t->replica[i].hash[slot] = t->hash[t->replica[i].row];
        }
    }
    uint32_t row = first_changed(t, wrote, hsp_segment_n(s));
    if (row != NONE) {
        return hsp_epoch_disown_unsealed(e, s, row, version, false, err);
    }
    t->version[slot] = version;
    hsp_segment_seal_known(s, version, t->hash);
    return HSP_OK;
}

/* Makes the hashes of the replicas of the sealed @version, unless hsp_replica_check_seal has made
 * them: a version that came from another rank was sealed without it. Returns the number of its
 * segment. */
static uint32_t make_hashes(struct hsp_ex_epoch *e, uint64_t version)
{
    struct hsp_replica_check *t = e->replica_check;
    uint32_t slot = hsp_slot_of(&e->slots, e->seg, version);
    const struct hsp_state_segment *s = e->seg[slot];
    if (t->version[slot] == version) {
        return slot; /* made already, maybe by another thread */
    }
    for (size_t i = 0; i < t->n; i++) {
        struct replica *x = &t->replica[i];
        x->hash[slot] = x->whole ? hsp_segment_row_hash(s, x->row) : hash_part(s, x->row, &x->box);
    }
    t->version[slot] = version;
    return slot;
}

/* Returns the weight of link @r for @kind, which is equal at both ends of the link. The weight is
 * odd, so its product with a difference of hashes, mod 2^64, is not 0. */
static uint64_t weight(const struct hsp_pkg_row *r, uint8_t kind)
{
    uint64_t w = hsp_mix64((uint64_t)r->from << 32 | r->to);
    w = hsp_mix64(w ^ ((uint64_t)r->param << 8 | kind));
    for (uint8_t d = 0; d < r->box.rank; d++) {
        w = hsp_mix64(w ^ (uint64_t)r->box.lo[d]);
    }
    return w | 1;
}

uint64_t hsp_replica_check_sum(struct hsp_ex_epoch *e, uint64_t version)
{
    const struct hsp_replica_check *t = e->replica_check;
    uint64_t sum = 0;
    uint32_t slot = make_hashes(e, version);
    for (uint32_t i = 0; i < e->pkg.replicas.n; i++) {
        const struct hsp_pkg_row *r = &e->pkg.replicas.row[i];
        for (uint8_t k = 0; k < e->pkg.n_kinds; k++) {
            uint64_t x = weight(r, k) * t->replica[t->of_link[i] + k].hash[slot];
            sum += r->from == e->p->rank ? x : -x;
        }
    }
    return sum;
}

/* ---- replicas that differ ---- */

/* The result of comparing a version on this rank with its seal. */
struct seen {
    bool sealed;  /* still sealed; else damage was found and it was unsealed */
    uint32_t row; /* the first row that differs from its seal, or NONE */
    bool in_use;  /* the row differs in device memory, and the segment is undamaged */
};

static bool is_sound(const struct seen *s)
{
    return s->sealed && s->row == NONE;
}

struct settling {
    struct hsp_ex_epoch *e;
    uint64_t version;
    uint32_t slot;                 /* slot of the version */
    bool follows;                  /* the version before was due, so it was sealed, too */
    struct seen now, before;       /* this version and the version before */
    bool intact;                   /* this rank knows of no damage of the hashed state */
    bool placed;                   /* at least one rank is wrong, or may be wrong */
    struct hsp_replica_view *seen; /* [links * kinds] hashes at the other ends */
};

static uint64_t on_device(struct hsp_ex_epoch *e)
{
    (void)pthread_mutex_lock(&e->lock);
    uint64_t newest = e->written;
    (void)pthread_mutex_unlock(&e->lock);
    return newest;
}

/* Compares the home of @version with its seal: first the segment, then device memory if @version is
 * the newest version there. If it is older, the sums of the update that read it were compared
 * before the result of that update was sealed. */
static enum hsp_status look(struct hsp_ex_epoch *e, uint64_t version, struct seen *ret,
                            struct hsp_err *err)
{
    const uint64_t newest = on_device(e);
    const struct hsp_state_segment *s = hsp_epoch_home(e, version);
    bool sealed = hsp_segment_version(s) == version;
    uint32_t n = sealed ? hsp_segment_n(s) : 0;
    struct hsp_verify_row *rows = calloc((size_t)n + 1, sizeof *rows);
    size_t n_damaged = 0;
    enum hsp_status st = rows != NULL ? HSP_OK : hsp_err_nomem(err, "the verification of state");
    for (uint32_t i = 0; st == HSP_OK && i < n; i++) {
        rows[i] = (struct hsp_verify_row){.seg = s, .row = i};
    }
    st = st == HSP_OK ? hsp_verify_rows(rows, n, &n_damaged, err) : st;
    *ret = (struct seen){.sealed = sealed, .row = NONE};
    for (uint32_t i = n; st == HSP_OK && i-- > 0;) {
        ret->row = rows[i].damaged ? i : ret->row;
    }
    if (st == HSP_OK && is_sound(ret)) {
        if (newest == version) {
            st = hsp_epoch_device_compare(e, version, &ret->row, err);
        }
        ret->in_use = ret->row != NONE;
    }
    free(rows);
    return st;
}

/* Writes to @out the message for rank @peer: a word that says whether this rank's memory equals its
 * seal, then this rank's hashes of the parts that both ranks have, in the order of the table.
 * Returns the number of words. @out NULL: only counts the words. */
static size_t words_for(const struct settling *s, uint32_t peer, uint64_t *out)
{
    const struct hsp_ex_epoch *e = s->e;
    size_t n = 1;
    for (uint32_t i = 0; i < e->pkg.replicas.n; i++) {
        const struct hsp_pkg_row *r = &e->pkg.replicas.row[i];
        for (uint8_t k = 0; (r->from == peer || r->to == peer) && k < e->pkg.n_kinds; k++, n++) {
            if (out != NULL) {
                out[n] = e->replica_check->replica[e->replica_check->of_link[i] + k].hash[s->slot];
            }
        }
    }
    if (out != NULL) {
        out[0] = s->intact;
    }
    return n;
}

static void take_words(struct settling *s, uint32_t peer, const uint64_t *in)
{
    const struct hsp_ex_epoch *e = s->e;
    size_t n = 1;
    for (uint32_t i = 0; i < e->pkg.replicas.n; i++) {
        const struct hsp_pkg_row *r = &e->pkg.replicas.row[i];
        for (uint8_t k = 0; (r->from == peer || r->to == peer) && k < e->pkg.n_kinds; k++) {
            s->seen[(size_t)i * e->pkg.n_kinds + k] =
                (struct hsp_replica_view){.hash = in[n++], .intact = in[0] != 0};
        }
    }
}

/* Exchanges hashes with every rank that is a neighbour of this rank in the ring of a part. Sends do
 * not wait for the receiver. */
static enum hsp_status exchange(struct settling *s, struct hsp_err *err)
{
    struct hsp_ex_epoch *e = s->e;
    struct hsp_comm *comm = e->mesh[HSP_MESH_DATA];
    enum hsp_status st = HSP_OK;
    for (int receive = 0; receive < 2; receive++) {
        for (uint32_t p = 0; st == HSP_OK && p < e->p->n_ranks; p++) {
            size_t n = p != e->p->rank ? words_for(s, p, NULL) : 1;
            uint64_t *word = n > 1 ? calloc(n, sizeof *word) : NULL;
            if (n == 1) {
                continue;
            }
            if (word == NULL) {
                st = hsp_err_nomem(err, "the hashes of equal copies");
            } else if (receive) {
                st = comm->ops->recv(comm, p, CHANNEL_TWINS, word, n * sizeof *word, err);
            } else {
                (void)words_for(s, p, word);
                st = comm->ops->send(comm, p, CHANNEL_TWINS, word, n * sizeof *word, err);
            }
            if (st == HSP_OK && receive) {
                take_words(s, p, word);
            }
            free(word);
        }
    }
    return st;
}

/* Finds the first of this rank's replicas that is wrong or may be wrong. Returns NONE if there is
 * none. */
static uint32_t first_wrong(const struct settling *s)
{
    const struct hsp_ex_epoch *e = s->e;
    const struct hsp_replica_check *t = e->replica_check;
    for (uint32_t i = 0, end; i < e->pkg.replicas.n; i = end) {
        for (end = i + 1; end < e->pkg.replicas.n && t->of_link[end] == t->of_link[i];) {
            end++;
        }
        for (uint8_t k = 0; k < e->pkg.n_kinds; k++) {
            struct hsp_replica_view mine = {t->replica[t->of_link[i] + k].hash[s->slot], s->intact};
            struct hsp_replica_view other[2];
            uint32_t n = 0;
            for (uint32_t l = i; l < end && n < 2; l++) {
                other[n++] = s->seen[(size_t)l * e->pkg.n_kinds + k];
            }
            if (hsp_replica_wrong(&mine, other, n)) {
                return t->of_link[i] + k;
            }
        }
    }
    return NONE;
}

/* Exchanges with all ranks whether each is wrong, and names the wrong ranks in @err. */
static enum hsp_status announce(struct settling *s, bool wrong, struct hsp_err *err)
{
    struct hsp_ex_epoch *e = s->e;
    uint32_t n = e->p->n_ranks;
    double mine = wrong ? 1 : 0, *all = calloc(n, sizeof *all);
    uint32_t *ranks = calloc(n, sizeof *ranks);
    size_t *count = calloc(n, sizeof *count);
    enum hsp_status st =
        all != NULL && ranks != NULL && count != NULL ? HSP_OK : hsp_err_nomem(err, "%u ranks", n);
    for (uint32_t i = 0; st == HSP_OK && i < n; i++) {
        ranks[i] = i;
        count[i] = 1;
    }
    if (st == HSP_OK) {
        const struct hsp_group g = {.n = n, .ranks = ranks, .me = e->p->rank};
        st = hsp_comm_all_gather(e->mesh[HSP_MESH_DATA], &g, CHANNEL_VERDICT, HSP_F64, &mine, count,
                                 all, err);
    }
    if (st == HSP_OK) {
        const char *first = NULL;
        uint32_t more = 0;
        for (uint32_t i = 0; i < n; i++) {
            more += all[i] > 0 && first != NULL;
            first = all[i] > 0 && first == NULL ? e->pkg.peers[i].name : first;
        }
        char others[32] = "";
        if (more > 0) {
            (void)snprintf(others, sizeof others, " and %" PRIu32 " more", more);
        }
        s->placed = first != NULL;
        st = hsp_err_set(err, HSP_EDIGEST, 0, "equal copies of version %" PRIu64 " differ: %s%s%s",
                         s->version, first != NULL ? "wrong at " : "the place is not known",
                         first != NULL ? first : "", others);
    }
    free(all);
    free(ranks);
    free(count);
    return st;
}

/* Unseals @version on this rank, in its home and in its copies, so that no recovery begins with
 * it. */
static void give_up(struct hsp_ex_epoch *e, uint64_t version)
{
    struct hsp_state_segment *home = hsp_epoch_home(e, version);
    if (hsp_segment_version(home) == version) {
        hsp_segment_unseal(home);
    }
    for (uint32_t i = 0; i < e->n_copies; i++) {
        struct hsp_epoch_copy *of = &e->copies[i];
        struct hsp_state_segment *c = of->seg[hsp_slot_of(&of->slots, of->seg, version)];
        if (hsp_segment_version(c) == version) {
            hsp_segment_unseal(c);
        }
    }
}

/* Reports damage of this rank once: damage of the version before if there is some, else damage of
 * this version. */
static void tell_wrong(struct settling *s, uint32_t wrong)
{
    struct hsp_ex_epoch *e = s->e;
    struct hsp_err ignored = {0};
    uint32_t row = wrong != NONE ? e->replica_check->replica[wrong].row : s->now.row;
    if (s->before.row != NONE) {
        (void)hsp_epoch_disown_read(e, hsp_epoch_home(e, s->version - 1), s->before.row, &ignored);
    } else if (wrong == NONE && s->now.in_use && s->version == e->first) {
        (void)hsp_epoch_disown_read(e, hsp_epoch_home(e, s->version), row, &ignored);
    } else if (row != NONE) {
        hsp_epoch_tell_damaged_row(e, hsp_epoch_home(e, s->version), row, s->version, true);
    }
}

static enum hsp_status settle(struct settling *s, struct hsp_err *err)
{
    struct hsp_ex_epoch *e = s->e;
    bool first = s->version == e->first;
    uint32_t wrong = NONE;
    s->seen = calloc((size_t)e->pkg.replicas.n * e->pkg.n_kinds + 1, sizeof *s->seen);
    s->before = (struct seen){.sealed = true, .row = NONE};
    if (!first) { /* at once: a rank may die before it has unsealed the version */
        hsp_epoch_tell_given_up(e, s->version, "replicas differ");
    }
    enum hsp_status st = s->seen != NULL ? look(e, s->version, &s->now, err)
                                         : hsp_err_nomem(err, "the hashes of equal copies");
    if (st == HSP_OK && !first && on_device(e) == s->version && s->follows) {
        st = look(e, s->version - 1, &s->before, err);
    }
    /* For the first version, device memory was loaded from the segment. So damage in device memory
     * alone does not mean that the segment, which was hashed, is wrong. */
    s->intact = is_sound(&s->before) && (is_sound(&s->now) || (first && s->now.in_use));
    if (!first) { /* in any case: SEALED must not offer this version */
        give_up(e, s->version);
    }
    st = st == HSP_OK ? exchange(s, err) : st;
    if (st == HSP_OK) {
        wrong = first_wrong(s);
        tell_wrong(s, wrong);
        if (first && (wrong != NONE || !s->intact)) {
            give_up(e, s->version);
        }
        st = announce(s, wrong != NONE || !s->intact, err);
    }
    if (first && st == HSP_EDIGEST && !s->placed) { /* no rank was found wrong */
        hsp_epoch_tell_given_up(e, s->version, "replicas differ");
        give_up(e, s->version);
    }
    return st;
}

enum hsp_status hsp_replica_check_settle(struct hsp_ex_epoch *e, uint64_t version,
                                         struct hsp_err *err)
{
    struct settling s = {.e = e,
                         .version = version,
                         .slot = hsp_slot_of(&e->slots, e->seg, version),
                         .follows = e->due.before + 1 == version};
    enum hsp_status st = settle(&s, err);
    free(s.seen);
    return st;
}
