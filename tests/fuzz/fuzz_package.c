/* The package of an epoch: one that is accepted encodes to the bytes it came from, and what points
 * into the input stays inside it. */
#include <string.h>

#include "proto/op/dtype.h"
#include "proto/wire/msgblob.h"
#include "tests/fuzz/fuzz.h"

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
    HSP_ASSERT(p.tpl_len <= len && p.binding_len <= len);
    HSP_ASSERT(p.tpl_len == 0 || (p.tpl >= data && p.tpl + p.tpl_len <= data + len));
    HSP_ASSERT(p.binding_len == 0 ||
               (p.binding >= data && p.binding + p.binding_len <= data + len));
    struct hsp_buf out, in;
    hsp_buf_init(&out, PACKAGE_MAX);
    hsp_buf_init(&in, PACKAGE_MAX);
    HSP_ASSERT(hsp_package_encode(&p, &out, NULL) == HSP_OK);
    hsp_buf_append(&in, data, len);
    hsp_fuzz_same(&in, &out);
    hsp_buf_fini(&in);
    hsp_buf_fini(&out);
    return 0;
}

static struct hsp_pkg_peer peers[] = {{"a/0", "unix:x", true}, {"b/0", "127.0.0.1:9", false}};
static struct hsp_pkg_param params[] = {{"w", 2, {4, 6}}, {"b", 1, {4}}};
static struct hsp_pkg_row rows[] = {{0, 1, 0, {2, {0, 0}, {2, 6}}}, {1, 1, 1, {1, {3}, {4}}}};

static bool seed(size_t i, struct hsp_buf *out)
{
    struct hsp_package p = {.dtype = HSP_F64,
                            .n_kinds = 3,
                            .kinds = {0, 1, 2},
                            .n_peers = 2,
                            .peers = peers,
                            .n_params = 2,
                            .params = params,
                            .init_from = "w.safetensors",
                            .config_json = "{}",
                            .ckpt_keep = 2,
                            .term = 1};
    if (i > 0) {
        p.tpl = p.binding = (const uint8_t *)"program";
        p.tpl_len = p.binding_len = 7;
        p.transfer = p.copies = p.gather = (struct hsp_pkg_table){2, rows};
    }
    return i < 2 && hsp_package_encode(&p, out, NULL) == HSP_OK;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "package", .seed = seed};
