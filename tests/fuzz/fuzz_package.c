/* Decodes the package of an epoch: an accepted one encodes to the bytes it came from, and its
 * pointers into the input stay inside it. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/proto/wire/package_sample.h"

enum { PACKAGE_MAX = 64 << 20 };

static void check_table(const struct hsp_package *p, const struct hsp_pkg_table *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const struct hsp_pkg_row *r = &t->row[i];
        HSP_ASSERT(r->from < p->n_peers);
        HSP_ASSERT(r->to < p->n_peers);
        HSP_ASSERT(r->param < p->n_params);
        const struct hsp_pkg_param *q = &p->params[r->param];
        HSP_ASSERT(r->box.rank == q->rank);
        for (uint8_t d = 0; d < q->rank; d++) {
            HSP_ASSERT(0 <= r->box.lo[d] && r->box.lo[d] <= r->box.hi[d]);
            HSP_ASSERT(r->box.hi[d] <= q->ext[d]);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_arena *arena = hsp_fuzz_arena();
    struct hsp_err err = {0};
    struct hsp_package p;
    enum hsp_status st = hsp_package_decode(data, len, arena, &p, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(st == HSP_EPROTO || st == HSP_ENOMEM);
        HSP_ASSERT(err.msg[0] != '\0');
        return 0;
    }
    check_table(&p, &p.transfer);
    check_table(&p, &p.copies);
    check_table(&p, &p.gather);
    check_table(&p, &p.replicas);
    HSP_ASSERT(p.tpl_len <= len && p.binding_len <= len);
    HSP_ASSERT(p.tpl_len == 0 || (p.tpl >= data && p.tpl + p.tpl_len <= data + len));
    HSP_ASSERT(p.binding_len == 0 ||
               (p.binding >= data && p.binding + p.binding_len <= data + len));
    struct hsp_buf out, in;
    hsp_buf_init(&out, PACKAGE_MAX);
    hsp_buf_init(&in, PACKAGE_MAX);
    HSP_ASSERT(pkg_encode(&p, &out, NULL) == HSP_OK);
    hsp_buf_append(&in, data, len);
    hsp_fuzz_same(&in, &out);
    hsp_buf_fini(&in);
    hsp_buf_fini(&out);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    struct hsp_package p = pkg_sample();
    p.term = 1;
    p.gather = p.replicas = p.copies;
    if (i == 0) { /* nothing comes from anywhere */
        p.tpl_len = p.binding_len = 0;
        p.transfer = p.copies = p.gather = p.replicas = (struct hsp_pkg_table){0};
    }
    return i < 2 && pkg_encode(&p, out, NULL) == HSP_OK;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "package", .seed = seed};
