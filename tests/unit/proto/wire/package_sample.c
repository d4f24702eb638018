#include "tests/unit/proto/wire/package_sample.h"

#include "proto/op/dtype.h"

static struct hsp_pkg_peer peers[] = {{"a/0", "unix:x", true, false},
                                      {"b/0", "127.0.0.1:9", false, true}};
static struct hsp_pkg_param params[] = {{"w", 2, {4, 6}}, {"b", 1, {4}}};
static struct hsp_pkg_row rows[] = {{0, 1, 0, true, {2, {0, 0}, {2, 6}}},
                                    {1, 1, 1, false, {1, {3}, {4}}}};

static struct hsp_pkg_program shorter[] = {{(const uint8_t *)"s", (const uint8_t *)"uu", 1, 2}};

struct hsp_package pkg_sample(void)
{
    return (struct hsp_package){.dtype = HSP_F64,
                                .n_kinds = 3,
                                .kinds = {0, 1, 2},
                                .n_peers = 2,
                                .peers = peers,
                                .n_params = 2,
                                .params = params,
                                .tpl = (const uint8_t *)"tt",
                                .tpl_len = 2,
                                .binding = (const uint8_t *)"bbb",
                                .binding_len = 3,
                                .n_shorter = 1,
                                .shorter = shorter,
                                .transfer = {2, rows},
                                .copies = {1, rows},
                                .replicas = {1, rows + 1},
                                .init_from = "w.safetensors",
                                .config_json = "{}",
                                .ckpt_keep = 2};
}

enum hsp_status pkg_encode(const struct hsp_package *p, struct hsp_buf *out, struct hsp_err *err)
{
    size_t mark;
    enum hsp_status st = hsp_package_open(p, out, &mark, err);
    if (st == HSP_OK) {
        hsp_buf_append(out, p->binding, p->binding_len);
        st = hsp_package_close(out, mark, err);
    }
    return st;
}
