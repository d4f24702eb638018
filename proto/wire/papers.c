#include "proto/wire/papers.h"

#include <string.h>

#define MAGIC      "HSPMDJOB"
#define MAGIC_LEN  8u
#define FORM       1u
#define HEAD_BYTES (MAGIC_LEN + 4 + 8 + 16)

void hsp_papers_write(const struct hsp_papers *p, struct hsp_buf *out)
{
    struct hsp_buf rest;
    hsp_buf_init(&rest, out->max);
    hsp_buf_u32(&rest, p->job);
    hsp_buf_str(&rest, p->name);
    hsp_buf_u64(&rest, p->whose.cluster.hi);
    hsp_buf_u64(&rest, p->whose.cluster.lo);
    hsp_buf_u64(&rest, p->whose.generation);
    hsp_buf_u64(&rest, p->epoch);
    hsp_buf_u32(&rest, p->n);
    for (uint32_t i = 0; i < p->n; i++) {
        hsp_buf_str(&rest, p->row[i].key);
        hsp_buf_blob(&rest, p->row[i].value, p->row[i].len);
    }
    struct hsp_digest d = hsp_hash128(rest.data, rest.len);
    hsp_buf_append(out, MAGIC, MAGIC_LEN);
    hsp_buf_u32(out, FORM);
    hsp_buf_u64(out, rest.len);
    hsp_buf_u64(out, d.hi);
    hsp_buf_u64(out, d.lo);
    hsp_buf_append(out, rest.data, rest.len);
    out->failed = out->failed || rest.failed;
    out->nomem = out->nomem || rest.nomem;
    hsp_buf_fini(&rest);
}

/* The rest of them, if it is what was written. */
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
        return hsp_err_set(err, HSP_EDIGEST, 0, "%zu bytes are no papers of a job", len);
    }
    if (form != FORM) {
        return hsp_err_set(err, HSP_EVERSION, 0,
                           "papers of form %u, this program reads form %u: use the hspmdd that "
                           "made them, or a newer one",
                           form, FORM);
    }
    const uint8_t *rest = (const uint8_t *)data + HEAD_BYTES;
    if (bytes != hsp_cur_left(&c) || !hsp_digest_equal(hsp_hash128(rest, bytes), d)) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "the papers of the job are damaged");
    }
    hsp_cur_init(ret, rest, bytes);
    return HSP_OK;
}

static bool read_rows(struct hsp_cursor *c, struct hsp_arena *arena, struct hsp_papers *p)
{
    struct hsp_papers_row *row = hsp_arena_array(arena, (size_t)p->n + 1, sizeof(*row));
    for (uint32_t i = 0; row != NULL && i < p->n; i++) {
        size_t len = 0;
        row[i].key = hsp_cur_str(c, HSP_PAPERS_KEY, arena);
        row[i].value = hsp_cur_blob(c, HSP_PAPERS_MAX, &len);
        row[i].len = (uint32_t)len;
    }
    p->row = row;
    return row != NULL;
}

enum hsp_status hsp_papers_read(const void *data, size_t len, struct hsp_arena *arena,
                                struct hsp_papers *ret, struct hsp_err *err)
{
    struct hsp_cursor c;
    struct hsp_papers p = {0};
    enum hsp_status st = verify(data, len, &c, err);
    if (st != HSP_OK) {
        return st;
    }
    p.job = hsp_cur_u32(&c);
    p.name = hsp_cur_str(&c, HSP_NAME_MAX, arena);
    p.whose.cluster.hi = hsp_cur_u64(&c);
    p.whose.cluster.lo = hsp_cur_u64(&c);
    p.whose.generation = hsp_cur_u64(&c);
    p.epoch = hsp_cur_u64(&c);
    p.n = hsp_cur_count(&c, HSP_PAPERS_ROWS, 8);
    if (!read_rows(&c, arena, &p) || c.nomem) {
        return hsp_err_nomem(err, "the papers of a job");
    }
    if (!hsp_cur_done(&c)) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "the papers of the job do not decode");
    }
    *ret = p;
    return HSP_OK;
}
