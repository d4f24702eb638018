/* Encodes and decodes the blob of PREPARE; README.md, "The blob of PREPARE", has its layout. */
#include "proto/wire/msg_blob.h"

#include <string.h>

#include "proto/base/le.h"
#include "proto/op/dtype.h"

#define MAGIC      0x324b5048u /* "HPK2" */
#define TEXT_MAX   4095u
#define PEER_VOTED 1u
#define PEER_APART 2u
#define N_KINDS    4 /* enum hsp_state_kind */

/* The node's part of NODE/INDEX. */
static bool same_node(const char *a, const char *b)
{
    size_t n = strcspn(a, "/");
    return n == strcspn(b, "/") && strncmp(a, b, n) == 0;
}

uint32_t hsp_package_writer(const struct hsp_pkg_peer *peers, uint32_t n_ranks)
{
    for (uint32_t r = 1; r < n_ranks; r++) {
        if (!same_node(peers[0].name, peers[r].name)) {
            return r;
        }
    }
    return 0;
}

static void put_table(struct hsp_buf *b, const struct hsp_pkg_table *t)
{
    hsp_buf_u32(b, t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct hsp_pkg_row *r = &t->row[i];
        hsp_buf_u32(b, r->from);
        hsp_buf_u32(b, r->to);
        hsp_buf_u32(b, r->param);
        hsp_buf_u8(b, r->passed_on);
        hsp_buf_u8(b, r->box.rank);
        for (uint8_t d = 0; d < r->box.rank; d++) {
            hsp_buf_i64(b, r->box.lo[d]);
            hsp_buf_i64(b, r->box.hi[d]);
        }
    }
}

static void put_params(struct hsp_buf *b, const struct hsp_package *p)
{
    hsp_buf_u32(b, p->n_params);
    for (uint32_t i = 0; i < p->n_params; i++) {
        hsp_buf_str(b, p->params[i].name);
        hsp_buf_u8(b, p->params[i].rank);
        for (uint8_t d = 0; d < p->params[i].rank; d++) {
            hsp_buf_i64(b, p->params[i].ext[d]);
        }
    }
}

static enum hsp_status over(const struct hsp_buf *out, struct hsp_err *err)
{
    if (out->nomem) {
        return hsp_err_nomem(err, "the epoch's package");
    }
    return out->failed
               ? hsp_err_set(err, HSP_ELIMIT, 0, "the epoch's package is over %zu bytes", out->max)
               : HSP_OK;
}

enum hsp_status hsp_package_open(const struct hsp_package *p, struct hsp_buf *out, size_t *ret_mark,
                                 struct hsp_err *err)
{
    if (p->n_peers > HSP_PKG_PEERS || p->n_params > HSP_PKG_PARAMS || p->n_shorter > HSP_PKG_POOL ||
        p->transfer.n > HSP_PKG_ROWS || p->copies.n > HSP_PKG_ROWS || p->gather.n > HSP_PKG_ROWS ||
        p->replicas.n > HSP_PKG_ROWS) {
        return hsp_err_set(err, HSP_ELIMIT, 0,
                           "the epoch's tables are over the limits of a package");
    }
    hsp_buf_u32(out, MAGIC);
    hsp_buf_u8(out, p->dtype);
    hsp_buf_u8(out, p->n_kinds);
    for (uint8_t i = 0; i < p->n_kinds; i++) {
        hsp_buf_u8(out, p->kinds[i]);
    }
    hsp_buf_u32(out, p->n_peers);
    for (uint32_t i = 0; i < p->n_peers; i++) {
        hsp_buf_str(out, p->peers[i].name);
        hsp_buf_str(out, p->peers[i].address);
        hsp_buf_u8(out,
                   (p->peers[i].voted ? PEER_VOTED : 0) | (p->peers[i].apart ? PEER_APART : 0));
    }
    put_params(out, p);
    put_table(out, &p->transfer);
    put_table(out, &p->copies);
    put_table(out, &p->gather);
    put_table(out, &p->replicas);
    hsp_buf_str(out, p->init_from);
    hsp_buf_str(out, p->config_json);
    hsp_buf_u32(out, p->ckpt_keep);
    hsp_buf_u64(out, p->term);
    hsp_buf_u32(out, p->n_shorter);
    for (uint32_t i = 0; i < p->n_shorter; i++) {
        hsp_buf_blob(out, p->shorter[i].tpl, p->shorter[i].tpl_len);
        hsp_buf_blob(out, p->shorter[i].binding, p->shorter[i].binding_len);
    }
    hsp_buf_blob(out, p->tpl, p->tpl_len);
    *ret_mark = out->len;
    hsp_buf_u32(out, 0); /* the binding's length, see close */
    return over(out, err);
}

enum hsp_status hsp_package_close(struct hsp_buf *out, size_t mark, struct hsp_err *err)
{
    if (!out->failed) {
        hsp_le_put(out->data + mark, out->len - mark - 4, 4);
    }
    return over(out, err);
}

static enum hsp_status bad(const struct hsp_cursor *c, struct hsp_err *err, const char *part)
{
    if (c->nomem) {
        return hsp_err_nomem(err, "%s of an epoch's package", part);
    }
    return hsp_err_set(err, HSP_EPROTO, 0, "package of an epoch: malformed %s", part);
}

static enum hsp_status get_kinds(struct hsp_cursor *c, struct hsp_package *p, struct hsp_err *err)
{
    p->dtype = hsp_cur_u8(c);
    p->n_kinds = hsp_cur_u8(c);
    if (c->failed || (p->dtype != HSP_F32 && p->dtype != HSP_F64)) {
        return bad(c, err, "dtype");
    }
    if (p->n_kinds > N_KINDS) {
        return bad(c, err, "state kinds");
    }
    for (uint8_t i = 0; i < p->n_kinds; i++) {
        p->kinds[i] = hsp_cur_u8(c);
        if (p->kinds[i] >= N_KINDS || (i > 0 && p->kinds[i] <= p->kinds[i - 1])) {
            return bad(c, err, "state kinds");
        }
    }
    return HSP_OK;
}

static enum hsp_status get_peers(struct hsp_cursor *c, struct hsp_arena *arena,
                                 struct hsp_package *p, struct hsp_err *err)
{
    p->n_peers = hsp_cur_count(c, HSP_PKG_PEERS, 9);
    p->peers = hsp_arena_array(arena, p->n_peers, sizeof *p->peers);
    if (p->peers == NULL) {
        return hsp_err_nomem(err, "%u peers", p->n_peers);
    }
    for (uint32_t i = 0; i < p->n_peers; i++) {
        p->peers[i].name = hsp_cur_str(c, TEXT_MAX, arena);
        p->peers[i].address = hsp_cur_str(c, TEXT_MAX, arena);
        uint8_t bits = hsp_cur_u8(c);
        p->peers[i].voted = (bits & PEER_VOTED) != 0;
        p->peers[i].apart = (bits & PEER_APART) != 0;
        if ((bits & ~(PEER_VOTED | PEER_APART)) != 0) {
            return bad(c, err, "peers");
        }
    }
    return c->failed ? bad(c, err, "peers") : HSP_OK;
}

static enum hsp_status get_params(struct hsp_cursor *c, struct hsp_arena *arena,
                                  struct hsp_package *p, struct hsp_err *err)
{
    p->n_params = hsp_cur_count(c, HSP_PKG_PARAMS, 5);
    p->params = hsp_arena_array(arena, p->n_params, sizeof *p->params);
    if (p->params == NULL) {
        return hsp_err_nomem(err, "%u parameters", p->n_params);
    }
    for (uint32_t i = 0; i < p->n_params; i++) {
        struct hsp_pkg_param *q = &p->params[i];
        q->name = hsp_cur_str(c, TEXT_MAX, arena);
        q->rank = hsp_cur_u8(c);
        if (c->failed || q->rank > HSP_MAX_RANK) {
            return bad(c, err, "parameters");
        }
        for (uint8_t d = 0; d < q->rank; d++) {
            q->ext[d] = hsp_cur_i64(c);
            if (q->ext[d] < 0 || q->ext[d] > (INT64_C(1) << 40)) {
                return bad(c, err, "extent of a parameter");
            }
        }
    }
    return c->failed ? bad(c, err, "parameters") : HSP_OK;
}

static bool get_row(struct hsp_cursor *c, const struct hsp_package *p, struct hsp_pkg_row *r)
{
    r->from = hsp_cur_u32(c);
    r->to = hsp_cur_u32(c);
    r->param = hsp_cur_u32(c);
    uint8_t passed_on = hsp_cur_u8(c);
    r->passed_on = passed_on == 1;
    r->box.rank = hsp_cur_u8(c);
    if (c->failed || passed_on > 1 || (r->passed_on && r->from == r->to) || r->from >= p->n_peers ||
        r->to >= p->n_peers || r->param >= p->n_params || r->box.rank != p->params[r->param].rank) {
        return false;
    }
    for (uint8_t d = 0; d < r->box.rank; d++) {
        r->box.lo[d] = hsp_cur_i64(c);
        r->box.hi[d] = hsp_cur_i64(c);
        if (r->box.lo[d] < 0 || r->box.lo[d] > r->box.hi[d] ||
            r->box.hi[d] > p->params[r->param].ext[d]) {
            return false;
        }
    }
    return !c->failed;
}

static enum hsp_status get_table(struct hsp_cursor *c, struct hsp_arena *arena,
                                 const struct hsp_package *p, const char *what,
                                 struct hsp_pkg_table *t, struct hsp_err *err)
{
    t->n = hsp_cur_count(c, HSP_PKG_ROWS, 14);
    t->row = hsp_arena_array(arena, t->n, sizeof *t->row);
    if (t->row == NULL) {
        return hsp_err_nomem(err, "%u rows", t->n);
    }
    for (uint32_t i = 0; i < t->n; i++) {
        if (!get_row(c, p, &t->row[i])) {
            return bad(c, err, what);
        }
    }
    return c->failed ? bad(c, err, what) : HSP_OK;
}

enum hsp_status hsp_package_decode(const uint8_t *data, size_t len, struct hsp_arena *arena,
                                   struct hsp_package *ret, struct hsp_err *err)
{
    struct hsp_cursor c;
    struct hsp_package p = {0};
    enum hsp_status st;
    hsp_cur_init(&c, data, len);
    if (hsp_cur_u32(&c) != MAGIC) {
        return bad(&c, err, "head");
    }
    if ((st = get_kinds(&c, &p, err)) != HSP_OK || (st = get_peers(&c, arena, &p, err)) != HSP_OK ||
        (st = get_params(&c, arena, &p, err)) != HSP_OK ||
        (st = get_table(&c, arena, &p, "transfer table", &p.transfer, err)) != HSP_OK ||
        (st = get_table(&c, arena, &p, "copy table", &p.copies, err)) != HSP_OK ||
        (st = get_table(&c, arena, &p, "gather table", &p.gather, err)) != HSP_OK ||
        (st = get_table(&c, arena, &p, "replica table", &p.replicas, err)) != HSP_OK) {
        return st;
    }
    p.init_from = hsp_cur_str(&c, TEXT_MAX, arena);
    p.config_json = hsp_cur_str(&c, TEXT_MAX, arena);
    p.ckpt_keep = hsp_cur_u32(&c);
    p.term = hsp_cur_u64(&c);
    p.n_shorter = hsp_cur_count(&c, HSP_PKG_POOL, 8);
    p.shorter = hsp_arena_array(arena, p.n_shorter, sizeof *p.shorter);
    if (p.shorter == NULL) {
        return hsp_err_nomem(err, "%u programs", p.n_shorter);
    }
    for (uint32_t i = 0; i < p.n_shorter; i++) {
        p.shorter[i].tpl = hsp_cur_blob(&c, len, &p.shorter[i].tpl_len);
        p.shorter[i].binding = hsp_cur_blob(&c, len, &p.shorter[i].binding_len);
    }
    p.tpl = hsp_cur_blob(&c, len, &p.tpl_len);
    p.binding = hsp_cur_blob(&c, len, &p.binding_len);
    if (!hsp_cur_done(&c)) {
        return bad(&c, err, "end");
    }
    *ret = p;
    return HSP_OK;
}
