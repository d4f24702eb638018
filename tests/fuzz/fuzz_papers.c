/* Reads papers of a job: accepted ones are the same when they have been written and read again.
 * A digest that chance does not find is put right first. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/proto/wire/papers_sample.h"

enum { HEAD = 8 + 4 + 8 + 16, MOST = 16 << 20 };

static void put_right(struct hsp_buf *b)
{
    if (b->len < HEAD) {
        return;
    }
    struct hsp_digest d = hsp_hash128(b->data + HEAD, b->len - HEAD);
    struct hsp_buf head;
    hsp_buf_init(&head, HEAD);
    hsp_buf_u64(&head, b->len - HEAD);
    hsp_buf_u64(&head, d.hi);
    hsp_buf_u64(&head, d.lo);
    memcpy(b->data + 12, head.data, head.len);
    hsp_buf_fini(&head);
}

static void check(struct hsp_buf *in)
{
    struct hsp_papers p, q;
    struct hsp_papers_head h;
    struct hsp_err err = {0};
    enum hsp_status st = hsp_papers_read(in->data, in->len, hsp_fuzz_arena(), &p, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(st == HSP_EDIGEST || st == HSP_EVERSION || st == HSP_ENOMEM);
        HSP_ASSERT(err.msg[0] != '\0');
        return;
    }
    HSP_ASSERT(hsp_papers_look(in->data, in->len, &h, &err) == HSP_OK);
    HSP_ASSERT(h.job == p.job && h.epoch == p.epoch && strcmp(h.name, p.name) == 0);
    HSP_ASSERT(p.n <= HSP_PAPERS_ROWS && strlen(p.name) <= HSP_NAME_MAX);
    struct hsp_buf out, plain, again;
    hsp_buf_init(&out, MOST);
    hsp_buf_init(&plain, 4 * MOST);
    hsp_buf_init(&again, 4 * MOST);
    hsp_papers_write(&p, &out);
    papers_plain(&p, &plain);
    st = hsp_papers_read(out.data, out.len, hsp_fuzz_arena(), &q, &err);
    HSP_ASSERT(st == HSP_OK || st == HSP_ENOMEM);
    if (st == HSP_OK) {
        HSP_ASSERT(hsp_digest_equal(p.rows, q.rows));
        papers_plain(&q, &again);
        hsp_fuzz_same(&plain, &again);
    }
    hsp_buf_fini(&again);
    hsp_buf_fini(&plain);
    hsp_buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_buf in;
    hsp_buf_init(&in, MOST);
    hsp_buf_append(&in, data, len);
    check(&in);
    put_right(&in);
    check(&in);
    hsp_buf_fini(&in);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    struct hsp_papers p = papers_sample();
    p.n = i == 0 ? 0 : p.n;
    if (i < 2) {
        papers_plain(&p, out);
    } else if (i == 2) {
        hsp_papers_write(&p, out);
    }
    return i < 3;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "papers", .seed = seed};
