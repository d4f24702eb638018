/* Papers of a job: those that are accepted encode to the bytes they came from. A digest that chance
 * does not find is put right first. */
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
    struct hsp_papers p;
    struct hsp_err err = {0};
    enum hsp_status st = hsp_papers_read(in->data, in->len, hsp_fuzz_arena(), &p, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(st == HSP_EDIGEST || st == HSP_EVERSION || st == HSP_ENOMEM);
        HSP_ASSERT(err.msg[0] != '\0');
        return;
    }
    HSP_ASSERT(p.n <= HSP_PAPERS_ROWS && strlen(p.name) <= HSP_NAME_MAX);
    struct hsp_buf out;
    hsp_buf_init(&out, MOST);
    hsp_papers_write(&p, &out);
    hsp_fuzz_same(in, &out);
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
        hsp_papers_write(&p, out);
    }
    return i < 2;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "papers", .seed = seed};
