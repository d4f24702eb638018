/* A row of a copy travels as one message: u64 version, u64 content hash (additive over its kinds),
 * then the box of each kind, dense. Both ends go through the same table in the same order, sends
 * never block, so the order of messages between two ranks is the same on both and nobody waits in a
 * circle. */
#include "worker/executor/epoch_copies.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/layout/box.h"
#include "worker/executor/epoch_report.h"
#include "worker/executor/epoch_transfer_impl.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_name.h"

#define ROW_HEAD 16

enum channel { CHANNEL_VERSION = 1, CHANNEL_COPY, CHANNEL_ACK, CHANNEL_STEP };

static uint64_t rows_hash(const struct hsp_ex_epoch *e, const struct hsp_pkg_row *r,
                          const uint8_t *data)
{
    uint64_t h = 0;
    for (uint8_t k = 0; k < e->pkg.n_kinds; k++) {
        const struct hsp_box_id id = hsp_epoch_box_id(e, r->param, k);
        h += hsp_box_hash(&id, &r->box, &r->box, data + k * hsp_epoch_kind_bytes(e, r));
    }
    return h;
}

void hsp_epoch_sources_close(struct hsp_epoch_sources *s)
{
    for (size_t i = 0; i < s->shards.n; i++) {
        (void)hsp_segment_close(s->seg[i]);
    }
    s->shards.n = 0;
}

enum hsp_status hsp_epoch_sources_open(const struct hsp_ex_epoch *e, uint64_t plan,
                                       uint64_t version, struct hsp_epoch_sources *s,
                                       struct hsp_err *err)
{
    struct hsp_segment_info *info = NULL;
    size_t n = 0;
    s->shards = (struct hsp_shards){.seg = (const struct hsp_state_segment *const *)s->seg,
                                    .version = version};
    enum hsp_status st = hsp_segment_scan(e->env->state_dir, &info, &n, err);
    for (size_t i = 0; st == HSP_OK && i < n && s->shards.n < HSP_EPOCH_SOURCES; i++) {
        struct hsp_segname name;
        if (info[i].status != HSP_OK || info[i].version != version ||
            !hsp_segname_parse(&info[i].key, &name) || name.job != e->p->job ||
            name.device != e->env->device || name.plan != plan) {
            continue;
        }
        st = hsp_segment_open(e->env->state_dir, &info[i].key, false, &s->seg[s->shards.n], err);
        s->shards.n += st == HSP_OK;
    }
    free(info);
    if (st != HSP_OK) {
        hsp_epoch_sources_close(s);
    }
    return st;
}

/* Fills a message with a row of the sources. */
static enum hsp_status read_row(const struct hsp_ex_epoch *e, const struct hsp_epoch_sources *s,
                                const struct hsp_pkg_row *r, uint8_t *msg, struct hsp_err *err)
{
    struct hsp_boxes missing = {0};
    enum hsp_status st = HSP_OK;
    for (uint8_t k = 0; st == HSP_OK && k < e->pkg.n_kinds; k++) {
        st =
            hsp_shards_gather(&s->shards, r->param, e->pkg.kinds[k], e->pkg.dtype, &r->box, &r->box,
                              msg + ROW_HEAD + k * hsp_epoch_kind_bytes(e, r), &missing, err);
    }
    if (st == HSP_OK && missing.n > 0) {
        st = hsp_err_set(err, HSP_ENOENT, 0, "version %" PRIu64 " of %s is not here as promised",
                         s->shards.version, e->pkg.params[r->param].name);
    }
    hsp_boxes_fini(&missing);
    if (st == HSP_OK) {
        uint64_t hash = rows_hash(e, r, msg + ROW_HEAD);
        memcpy(msg, &s->shards.version, 8);
        memcpy(msg + 8, &hash, 8);
    }
    return st;
}

/* Whether a message is the row of this version, whole. */
static enum hsp_status check_row(const struct hsp_ex_epoch *e, const struct hsp_pkg_row *r,
                                 uint64_t version, const uint8_t *msg, struct hsp_err *err)
{
    uint64_t got, hash;
    memcpy(&got, msg, 8);
    memcpy(&hash, msg + 8, 8);
    if (got != version) {
        return hsp_err_set(err, HSP_ESTALE, 0, "%s from %s is of version %" PRIu64 ", not %" PRIu64,
                           e->pkg.params[r->param].name, e->pkg.peers[r->from].name, got, version);
    }
    if (hash != rows_hash(e, r, msg + ROW_HEAD)) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "%s from %s is damaged",
                           e->pkg.params[r->param].name, e->pkg.peers[r->from].name);
    }
    return HSP_OK;
}

/* Puts a row's data where segment @s keeps them. */
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
        return hsp_err_set(err, HSP_EPROTO, 0, "nobody of this switch knows the version");
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
    const struct hsp_state_segment *own[1] = {e->seg[version % 2]};
    struct hsp_epoch_sources s = {.shards = {.seg = own, .n = 1, .version = version}};
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; st == HSP_OK && i < t->n; i++) {
        const struct hsp_pkg_row *r = &t->row[i];
        if (r->from == e->p->rank) {
            st = read_row(e, &s, r, msg, err);
            if (st == HSP_OK) {
                st = e->mesh[HSP_MESH_STATE]->ops->send(
                    e->mesh[HSP_MESH_STATE], r->to, CHANNEL_COPY, msg,
                    ROW_HEAD + hsp_epoch_kind_bytes(e, r) * e->pkg.n_kinds, err);
            }
        }
    }
    return st;
}

static enum hsp_status receive_copy(struct hsp_ex_epoch *e, const struct hsp_epoch_copy *c,
                                    uint64_t version, uint8_t *msg, struct hsp_err *err)
{
    const struct hsp_pkg_table *t = &e->pkg.copies;
    struct hsp_state_segment *seg = c->seg[version % 2];
    enum hsp_status st = HSP_OK;
    /* After a loss the owner sends again what is here: it stays whole meanwhile. */
    bool there = hsp_segment_version(seg) == version;
    if (!there) {
        hsp_segment_unseal(seg);
    }
    for (uint32_t i = 0; st == HSP_OK && i < t->n; i++) {
        const struct hsp_pkg_row *r = &t->row[i];
        if (r->from != c->owner || r->to != e->p->rank) {
            continue;
        }
        st = e->mesh[HSP_MESH_STATE]->ops->recv(
            e->mesh[HSP_MESH_STATE], r->from, CHANNEL_COPY, msg,
            ROW_HEAD + hsp_epoch_kind_bytes(e, r) * e->pkg.n_kinds, err);
        if (st == HSP_OK && (st = check_row(e, r, version, msg, err)) == HSP_OK && !there) {
            write_row(e, r, msg + ROW_HEAD, seg);
        }
    }
    if (st == HSP_OK && !there) {
        hsp_segment_seal(seg, version);
    }
    if (st == HSP_OK) {
        st = e->mesh[HSP_MESH_STATE]->ops->send(e->mesh[HSP_MESH_STATE], c->owner, CHANNEL_ACK,
                                                &version, sizeof version, err);
    }
    return st;
}

/* Waits until each rank that keeps a copy of mine has said so. */
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

enum hsp_status hsp_epoch_copy_version(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err)
{
    uint8_t *msg = malloc(largest_row(e, &e->pkg.copies));
    enum hsp_status st =
        msg != NULL ? hsp_epoch_share_step(e, CHANNEL_STEP, err) : hsp_err_nomem(err, "copies");
    if (st == HSP_OK) {
        st = send_copies(e, version, msg, err);
    }
    for (uint32_t i = 0; st == HSP_OK && i < e->n_copies; i++) {
        st = receive_copy(e, &e->copies[i], version, msg, err);
    }
    if (st == HSP_OK) {
        st = await_acks(e, version, err);
    }
    free(msg);
    return st;
}
