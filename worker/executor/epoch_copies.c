/* A row of a copy is sent as one message: u64 version, u64 content hash (the sum over the kinds),
 * then the dense box of each kind. Sender and receiver go through the same table in the same order,
 * and sends never block. So both expect the messages in the same order, and the ranks cannot
 * deadlock. */
#include "worker/executor/epoch_copies.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/layout/box.h"
#include "worker/executor/epoch_damage.h"
#include "worker/executor/epoch_report.h"
#include "worker/executor/epoch_sources.h"
#include "worker/executor/replica_check.h"
#include "worker/executor/kill_point.h"

#define ROW_HEAD 16
#define MOST_NS  30000000000 /* longest time between copies that give_way uses */

enum channel { CHANNEL_VERSION = 1, CHANNEL_COPY, CHANNEL_ACK, CHANNEL_STEP, CHANNEL_SUM };

/* Copies kind @k of row @r of the table from the home @s to @data, and compares the data with the
 * seal of the home. If @r is a complete row of the home, the copied data are compared, else the
 * complete row of which @r is a part. */
static enum hsp_status read_kind(struct hsp_ex_epoch *e, struct hsp_state_segment *s,
                                 const struct hsp_pkg_row *r, uint8_t k, uint8_t *data,
                                 uint64_t *hash, struct hsp_err *err)
{
    const struct hsp_box_id id = hsp_epoch_box_id(e, r->param, k);
    uint32_t i = hsp_segment_find(s, r->param, e->pkg.kinds[k], &r->box);
    if (i == UINT32_MAX) {
        return hsp_err_set(err, HSP_ENOENT, 0, "a part of %s is not owned here",
                           e->pkg.params[r->param].name);
    }
    const struct hsp_segment_row *row = hsp_segment_row_at(s, i);
    const uint8_t *home = (const uint8_t *)hsp_segment_area(s) + row->offset;
    uint64_t whole = *hash = hsp_box_hash_copy(&id, &r->box, &row->box, home, data);
    if (!hsp_box_equal(&r->box, &row->box)) {
        whole = hsp_box_hash(&id, &row->box, &row->box, home);
    }
    return whole == hsp_segment_row_hash(s, i) ? HSP_OK : hsp_epoch_disown(e, s, i, err);
}

/* Fills @msg with row @r of the table, from @version of this rank's home. */
static enum hsp_status read_row(struct hsp_ex_epoch *e, uint64_t version,
                                const struct hsp_pkg_row *r, uint8_t *msg, struct hsp_err *err)
{
    struct hsp_state_segment *home = hsp_epoch_home(e, version);
    uint64_t sum = 0, hash = 0;
    enum hsp_status st =
        hsp_segment_version(home) == version
            ? HSP_OK
            : hsp_err_set(err, HSP_ENOENT, 0, "version %" PRIu64 " of %s is not here as promised",
                          version, e->pkg.params[r->param].name);
    for (uint8_t k = 0; st == HSP_OK && k < e->pkg.n_kinds; k++) {
        uint8_t *data = msg + ROW_HEAD + k * hsp_epoch_kind_bytes(e, r);
        st = read_kind(e, home, r, k, data, &hash, err);
        sum += hash;
    }
    memcpy(msg, &version, 8);
    memcpy(msg + 8, &sum, 8);
    return st;
}

/* Checks that @msg has row @r of @version, undamaged: the sum of the hashes of its kinds is the
 * hash in the message. @hash: gets the hash of each kind. */
static enum hsp_status check_row(const struct hsp_ex_epoch *e, const struct hsp_pkg_row *r,
                                 uint64_t version, const uint8_t *msg, uint64_t *hash,
                                 struct hsp_err *err)
{
    uint64_t got, want, sum = 0;
    memcpy(&got, msg, 8);
    memcpy(&want, msg + 8, 8);
    if (got != version) {
        return hsp_err_set(err, HSP_ESTALE, 0, "%s from %s is of version %" PRIu64 ", not %" PRIu64,
                           e->pkg.params[r->param].name, e->pkg.peers[r->from].name, got, version);
    }
    for (uint8_t k = 0; k < e->pkg.n_kinds; k++) {
        const struct hsp_box_id id = hsp_epoch_box_id(e, r->param, k);
        const uint8_t *data = msg + ROW_HEAD + k * hsp_epoch_kind_bytes(e, r);
        hash[k] = hsp_box_hash(&id, &r->box, &r->box, data);
        sum += hash[k];
    }
    if (sum != want) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "%s from %s is damaged",
                           e->pkg.params[r->param].name, e->pkg.peers[r->from].name);
    }
    return HSP_OK;
}

/* Writes the data of row @r to their places in segment @s. */
static void write_row(const struct hsp_ex_epoch *e, const struct hsp_pkg_row *r,
                      const uint8_t *data, struct hsp_state_segment *s)
{
    for (uint8_t k = 0; k < e->pkg.n_kinds; k++) {
        for (uint32_t i = 0; i < hsp_segment_n(s); i++) {
            const struct hsp_segment_row *row = hsp_segment_row_at(s, i);
            struct hsp_box part;
            if (row->tensor == r->param && row->kind == e->pkg.kinds[k] &&
                hsp_box_cut(&row->box, &r->box, &part)) {
                hsp_region_copy(hsp_dtype_size(row->dtype), &part, &r->box,
                                data + k * hsp_epoch_kind_bytes(e, r), &row->box,
                                (uint8_t *)hsp_segment_area(s) + row->offset);
            }
        }
    }
}

static size_t largest_row(const struct hsp_ex_epoch *e, const struct hsp_pkg_table *t)
{
    size_t max = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        size_t n = hsp_epoch_kind_bytes(e, &t->row[i]) * e->pkg.n_kinds;
        max = n > max ? n : max;
    }
    return ROW_HEAD + max;
}

enum hsp_status hsp_epoch_learn_version(struct hsp_ex_epoch *e, uint64_t *version,
                                        struct hsp_err *err)
{
    uint32_t teller = 0;
    while (teller < e->pkg.n_peers && !e->pkg.peers[teller].voted) {
        teller++;
    }
    if (teller == e->pkg.n_peers) {
        return hsp_err_set(err, HSP_EPROTO, 0, "no member of this switch knows the version");
    }
    if (!e->pkg.peers[e->p->rank].voted) {
        return e->mesh[HSP_MESH_MOVE]->ops->recv(e->mesh[HSP_MESH_MOVE], teller, CHANNEL_VERSION,
                                                 version, sizeof *version, err);
    }
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; e->p->rank == teller && st == HSP_OK && i < e->pkg.n_peers; i++) {
        if (!e->pkg.peers[i].voted) {
            st = e->mesh[HSP_MESH_MOVE]->ops->send(e->mesh[HSP_MESH_MOVE], i, CHANNEL_VERSION,
                                                   version, sizeof *version, err);
        }
    }
    return st;
}

/* ---- second copies ---- */

static enum hsp_status send_copies(struct hsp_ex_epoch *e, uint64_t version, uint8_t *msg,
                                   struct hsp_err *err)
{
    const struct hsp_pkg_table *t = &e->pkg.copies;
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; st == HSP_OK && i < t->n; i++) {
        const struct hsp_pkg_row *r = &t->row[i];
        if (r->from == e->p->rank) {
            st = read_row(e, version, r, msg, err);
            if (st == HSP_OK) {
                st = e->mesh[HSP_MESH_STATE]->ops->send(
                    e->mesh[HSP_MESH_STATE], r->to, CHANNEL_COPY, msg,
                    ROW_HEAD + hsp_epoch_kind_bytes(e, r) * e->pkg.n_kinds, err);
            }
        }
    }
    return st;
}

/* Sends the sum of @version to each replica holder. */
static enum hsp_status send_sum(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_STATE];
    uint32_t n = e->p->rank < e->p->n_ranks ? e->p->n_keepers : 0;
    uint64_t sum = n > 0 ? hsp_replica_check_sum(e, version) : 0;
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; st == HSP_OK && k < n; k++) {
        st = comm->ops->send(comm, e->p->n_ranks + k, CHANNEL_SUM, &sum, sizeof sum, err);
    }
    return st;
}

/* Receives the sums of all ranks at a replica holder. *ret_equal: they add up to 0, so the replicas
 * are equal (replica_check.h). */
static enum hsp_status take_sums(struct hsp_ex_epoch *e, uint64_t version, bool *ret_equal,
                                 struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_STATE];
    uint32_t n = e->p->rank < e->p->n_ranks ? 0 : e->p->n_ranks;
    uint64_t sum = 0, one = 0;
    enum hsp_status st = HSP_OK;
    for (uint32_t r = 0; st == HSP_OK && r < n; r++) {
        st = comm->ops->recv(comm, r, CHANNEL_SUM, &one, sizeof one, err);
        sum += one;
    }
    *ret_equal = sum == 0;
    if (st == HSP_OK && sum != 0) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor",
                "copies of version %" PRIu64 " are not kept: replicas of it differ", version);
    }
    return st;
}

/* Receives copy @c of @version without sealing it, and stores the hashes of its rows in c->hash.
 * The segment has one row for each kind of each row of the table, in the order of the table
 * (epoch_segments.c). The old version in this segment stays sealed until the first row of the copy
 * arrives. Only then is it certain that the owner has passed the vote on the version in the other
 * segment. */
static enum hsp_status receive_copy(struct hsp_ex_epoch *e, struct hsp_epoch_copy *c,
                                    uint64_t version, uint8_t *msg, struct hsp_err *err)
{
    const struct hsp_pkg_table *t = &e->pkg.copies;
    struct hsp_state_segment *seg = c->seg[hsp_slot_take(&c->slots, c->seg, version)];
    enum hsp_status st = HSP_OK;
    /* After a loss the owner may send a version again that this device has sealed. Then the
     * received data are only checked, and the segment is not written. */
    bool there = hsp_segment_version(seg) == version;
    for (uint32_t i = 0, n = 0; st == HSP_OK && i < t->n; i++) {
        const struct hsp_pkg_row *r = &t->row[i];
        if (r->from != c->owner || r->to != e->p->rank) {
            continue;
        }
        st = e->mesh[HSP_MESH_STATE]->ops->recv(
            e->mesh[HSP_MESH_STATE], r->from, CHANNEL_COPY, msg,
            ROW_HEAD + hsp_epoch_kind_bytes(e, r) * e->pkg.n_kinds, err);
        HSP_ASSERT(n + e->pkg.n_kinds <= hsp_segment_n(seg));
        st = st == HSP_OK ? check_row(e, r, version, msg, &c->hash[n], err) : st;
        if (st == HSP_OK && !there) {
            if (hsp_segment_version(seg) != HSP_NO_VERSION) {
                hsp_segment_unseal(seg);
            }
            write_row(e, r, msg + ROW_HEAD, seg);
        }
        n += e->pkg.n_kinds;
    }
    return st;
}

/* Confirms a copy to its owner. Seals the copy if the replicas are @equal; if they differ, the vote
 * of the ranks finds that, too. The seal consists of the hashes of the rows as they arrived, so the
 * next reader of the segment finds a bit that flipped on the way into the segment. */
static enum hsp_status confirm_copy(struct hsp_ex_epoch *e, const struct hsp_epoch_copy *c,
                                    uint64_t version, bool equal, struct hsp_err *err)
{
    struct hsp_state_segment *seg = c->seg[hsp_slot_of(&c->slots, c->seg, version)];
    if (equal && hsp_segment_version(seg) != version) {
        hsp_segment_seal_known(seg, version, c->hash);
    }
    return e->mesh[HSP_MESH_STATE]->ops->send(e->mesh[HSP_MESH_STATE], c->owner, CHANNEL_ACK,
                                              &version, sizeof version, err);
}

/* Waits until each device that keeps a copy of this rank's home has confirmed the copy. */
static enum hsp_status await_acks(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    uint32_t n = e->p->n_ranks + e->p->n_keepers;
    for (uint32_t peer = 0; st == HSP_OK && peer < n; peer++) {
        bool keeps = false;
        uint64_t got = 0;
        for (uint32_t i = 0; i < e->pkg.copies.n; i++) {
            keeps |= e->pkg.copies.row[i].from == e->p->rank && e->pkg.copies.row[i].to == peer;
        }
        if (keeps) {
            st = e->mesh[HSP_MESH_STATE]->ops->recv(e->mesh[HSP_MESH_STATE], peer, CHANNEL_ACK,
                                                    &got, sizeof got, err);
            if (st == HSP_OK && got != version) {
                st = hsp_err_set(err, HSP_EPROTO, 0, "%s confirms version %" PRIu64 " for %" PRIu64,
                                 e->pkg.peers[peer].name, got, version);
            }
        }
    }
    return st;
}

/* Sends the replica holders the steps that they have to note. Where not every version is due, also
 * sends them @version, whose copies follow. */
static enum hsp_status announce(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    if (e->due.all) {
        return hsp_epoch_share_step(e, CHANNEL_STEP, err);
    }
    return e->p->rank == 0 ? hsp_epoch_share_steps(e, CHANNEL_STEP, version, err) : HSP_OK;
}

enum hsp_status hsp_epoch_tell_replica_holders(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    return hsp_epoch_share_steps(e, CHANNEL_STEP, HSP_NO_VERSION, err);
}

enum hsp_status hsp_epoch_next_copy(struct hsp_ex_epoch *e, uint64_t *version, struct hsp_err *err)
{
    uint64_t next = HSP_NO_VERSION;
    enum hsp_status st = HSP_OK;
    while (!e->due.all && st == HSP_OK && next == HSP_NO_VERSION) {
        st = hsp_epoch_take_steps(e, CHANNEL_STEP, &next, err);
    }
    *version = e->due.all ? *version : next;
    return st;
}

/* ---- beside the steps ---- */

void hsp_epoch_hurry_copies(struct hsp_ex_epoch *e)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_STATE];
    if (comm != NULL && comm->ops->yield != NULL) {
        comm->ops->yield(comm, NULL, 0);
    }
}

/* Makes the copies yield to gradients and activations if not every version is due: for half of the
 * time since the last copies began. With a longer yield these copies might not be done when the
 * next copies begin. */
static void give_way(struct hsp_ex_epoch *e)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_STATE], *data = e->mesh[HSP_MESH_DATA];
    const int64_t now = hsp_clock_ns(), apart = e->copied_ns > 0 ? now - e->copied_ns : 0;
    e->copied_ns = now;
    (void)pthread_mutex_lock(&e->lock);
    if (data != NULL && apart > 0 && comm->ops->yield != NULL && !e->due.all && !e->at.hurries &&
        e->armed == 0) {
        comm->ops->yield(comm, data, (uint64_t)(apart < MOST_NS ? apart : MOST_NS) / 2);
    }
    (void)pthread_mutex_unlock(&e->lock);
}

enum hsp_status hsp_epoch_copy_version(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err)
{
    uint8_t *msg = malloc(largest_row(e, &e->pkg.copies));
    enum hsp_status st = msg != NULL ? announce(e, version, err) : hsp_err_nomem(err, "copies");
    bool equal = true;
    hsp_kill_point(e, HSP_KILL_COPY_BEFORE, version);
    give_way(e);
    st = st == HSP_OK ? send_copies(e, version, msg, err) : st;
    st = st == HSP_OK ? send_sum(e, version, err) : st;
    for (uint32_t i = 0; st == HSP_OK && i < e->n_copies; i++) {
        st = receive_copy(e, &e->copies[i], version, msg, err);
    }
    st = st == HSP_OK ? take_sums(e, version, &equal, err) : st;
    hsp_kill_point(e, HSP_KILL_COPY_IN, version);
    for (uint32_t i = 0; st == HSP_OK && i < e->n_copies; i++) {
        st = confirm_copy(e, &e->copies[i], version, equal, err);
    }
    if (st == HSP_OK) {
        st = await_acks(e, version, err);
    }
    hsp_kill_point(e, HSP_KILL_COPY_AFTER, version);
    free(msg);
    return st;
}
