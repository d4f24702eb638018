#include "proto/wire/papers.h"

#include <string.h>

#include "proto/base/lz.h"

#define MAGIC      "HSPMDJOB"
#define MAGIC_LEN  8u
#define FORM       1u
#define HEAD_BYTES (MAGIC_LEN + 4 + 8 + 16)
#define SHORT      "lz" /* the key of the one row that has them all */

static void put_rows(const struct hsp_papers *p, struct hsp_buf *out)
{
    hsp_buf_u32(out, p->n);
    for (uint32_t i = 0; i < p->n; i++) {
        hsp_buf_str(out, p->row[i].key);
        hsp_buf_blob(out, p->row[i].value, p->row[i].len);
    }
}

static void fails_as(struct hsp_buf *b, const struct hsp_buf *part)
{
    b->failed = b->failed || part->failed;
    b->nomem = b->nomem || part->nomem;
}

void hsp_papers_write(const struct hsp_papers *p, struct hsp_buf *out)
{
    struct hsp_buf rest, rows, lz;
    hsp_buf_init(&rows, HSP_PAPERS_PLAIN);
    put_rows(p, &rows);
    hsp_buf_init(&lz, out->max);
    hsp_lz_pack(rows.data, rows.len, &lz);
    hsp_buf_init(&rest, out->max);
    hsp_buf_u32(&rest, p->job);
    hsp_buf_str(&rest, p->name);
    hsp_buf_u64(&rest, p->whose.cluster.hi);
    hsp_buf_u64(&rest, p->whose.cluster.lo);
    hsp_buf_u64(&rest, p->whose.generation);
    hsp_buf_u64(&rest, p->epoch);
    hsp_buf_u32(&rest, 1);
    hsp_buf_str(&rest, SHORT);
    hsp_buf_blob(&rest, lz.data, lz.len);
    struct hsp_digest d = hsp_hash128(rest.data, rest.len);
    hsp_buf_append(out, MAGIC, MAGIC_LEN);
    hsp_buf_u32(out, FORM);
    hsp_buf_u64(out, rest.len);
    hsp_buf_u64(out, d.hi);
    hsp_buf_u64(out, d.lo);
    hsp_buf_append(out, rest.data, rest.len);
    fails_as(out, &rows);
    fails_as(out, &lz);
    fails_as(out, &rest);
    hsp_buf_fini(&rest);
    hsp_buf_fini(&lz);
    hsp_buf_fini(&rows);
}

/* Reads the rest, if it is as written. */
static enum hsp_status verify(const void *data, size_t len, struct hsp_cursor *ret,
                              struct hsp_err *err)
{
    struct hsp_cursor c;
    hsp_cur_init(&c, data, len);
    const uint8_t *magic = hsp_cur_bytes(&c, MAGIC_LEN);
    uint32_t form = hsp_cur_u32(&c);
    uint64_t bytes = hsp_cur_u64(&c);
    struct hsp_digest d = {hsp_cur_u64(&c), 0};
    d.lo = hsp_cur_u64(&c);
    if (c.failed || memcmp(magic, MAGIC, MAGIC_LEN) != 0) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "%zu bytes are no job record", len);
    }
    if (form != FORM) {
        return hsp_err_set(err, HSP_EVERSION, 0,
                           "job record of form %u, this program reads form %u: use the hspmdd that "
                           "made it, or a newer one",
                           form, FORM);
    }
    const uint8_t *rest = (const uint8_t *)data + HEAD_BYTES;
    if (bytes != hsp_cur_left(&c) || !hsp_digest_equal(hsp_hash128(rest, bytes), d)) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "the job record is damaged");
    }
    hsp_cur_init(ret, rest, bytes);
    return HSP_OK;
}

static enum hsp_status malformed(struct hsp_err *err)
{
    return hsp_err_set(err, HSP_EDIGEST, 0, "the job record does not decode");
}

/* *ret_rows: at the number of rows. */
static enum hsp_status read_head(const void *data, size_t len, struct hsp_papers_head *ret,
                                 struct hsp_cursor *ret_rows, struct hsp_err *err)
{
    struct hsp_cursor c;
    enum hsp_status st = verify(data, len, &c, err);
    if (st != HSP_OK) {
        return st;
    }
    struct hsp_papers_head h = {.job = hsp_cur_u32(&c)};
    const uint8_t *name = hsp_cur_blob(&c, HSP_NAME_MAX, &len);
    h.whose.cluster.hi = hsp_cur_u64(&c);
    h.whose.cluster.lo = hsp_cur_u64(&c);
    h.whose.generation = hsp_cur_u64(&c);
    h.epoch = hsp_cur_u64(&c);
    if (c.failed || memchr(name, '\0', len) != NULL) {
        return malformed(err);
    }
    memcpy(h.name, name, len);
    *ret = h;
    *ret_rows = c;
    return HSP_OK;
}

enum hsp_status hsp_papers_look(const void *data, size_t len, struct hsp_papers_head *ret,
                                struct hsp_err *err)
{
    struct hsp_cursor rows;
    return read_head(data, len, ret, &rows, err);
}

static void read_rows(struct hsp_cursor *c, struct hsp_arena *arena, struct hsp_papers *p)
{
    p->rows = hsp_hash128(c->data + c->pos, hsp_cur_left(c));
    p->n = hsp_cur_count(c, HSP_PAPERS_ROWS, 8);
    struct hsp_papers_row *row = hsp_arena_array(arena, (size_t)p->n + 1, sizeof(*row));
    for (uint32_t i = 0; row != NULL && i < p->n; i++) {
        size_t len = 0;
        row[i].key = hsp_cur_str(c, HSP_PAPERS_KEY, arena);
        row[i].value = hsp_cur_blob(c, HSP_PAPERS_PLAIN, &len);
        row[i].len = (uint32_t)len;
    }
    p->row = row;
    c->nomem = c->nomem || row == NULL;
}

enum hsp_status hsp_papers_read(const void *data, size_t len, struct hsp_arena *arena,
                                struct hsp_papers *ret, struct hsp_err *err)
{
    struct hsp_papers_head h;
    struct hsp_cursor c;
    struct hsp_papers p = {0};
    enum hsp_status st = read_head(data, len, &h, &c, err);
    if (st != HSP_OK) {
        return st;
    }
    read_rows(&c, arena, &p);
    if (!c.nomem && hsp_cur_done(&c) && p.n == 1 && strcmp(p.row[0].key, SHORT) == 0) {
        hsp_lz_unpack(p.row[0].value, p.row[0].len, HSP_PAPERS_PLAIN, arena, &c);
        if (!c.failed) {
            read_rows(&c, arena, &p);
        }
    }
    p.job = h.job;
    p.name = hsp_arena_strdup(arena, h.name);
    p.whose = h.whose;
    p.epoch = h.epoch;
    if (p.name == NULL || c.nomem) {
        return hsp_err_nomem(err, "a job record");
    }
    if (!hsp_cur_done(&c)) {
        return malformed(err);
    }
    *ret = p;
    return HSP_OK;
}
