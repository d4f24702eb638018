/* Reads cluster files: an accepted one is a cluster the planner can count with. */
#include <math.h>
#include <string.h>

#include "daemon/planner/cluster_file.h"
#include "proto/base/str.h"
#include "tests/fuzz/fuzz.h"

static void check_link(const struct hsp_link_cost *l)
{
    HSP_ASSERT(isfinite(l->latency_us) && l->latency_us >= 0);
    HSP_ASSERT(isfinite(l->us_per_byte) && l->us_per_byte > 0);
}

static void check_device(const struct hsp_cluster_desc *c, uint32_t i)
{
    const struct hsp_device_desc *d = &c->dev[i];
    const char *slash = memchr(d->name, '/', sizeof d->name);
    uint64_t index;
    char node[sizeof d->name] = "";
    HSP_ASSERT(slash != NULL && memchr(d->name, '\0', sizeof d->name) != NULL);
    memcpy(node, d->name, (size_t)(slash - d->name));
    HSP_ASSERT(hsp_name_valid(node));
    HSP_ASSERT(hsp_parse_u64(slash + 1, &index));
    HSP_ASSERT(d->mem_bytes > 0);
    HSP_ASSERT(isfinite(d->gemm_flops[0]) && d->gemm_flops[0] > 0);
    HSP_ASSERT(isfinite(d->gemm_flops[1]) && d->gemm_flops[1] > 0);
    HSP_ASSERT(isfinite(d->mem_bytes_per_s) && d->mem_bytes_per_s > 0);
    HSP_ASSERT(isfinite(d->bf16_part) && d->bf16_part > 0);
    HSP_ASSERT(isfinite(d->op_us) && d->op_us >= 0);
    HSP_ASSERT(isfinite(d->gemm_us) && d->gemm_us >= 0);
    HSP_ASSERT(isfinite(d->host_bytes_per_s) && d->host_bytes_per_s >= 0);
    for (int k = 0; k < HSP_N_RATES * HSP_N_GEMM_CLASSES; k++) {
        double rate = hsp_device_gemm(d, (enum hsp_rate)(k / HSP_N_GEMM_CLASSES),
                                      (enum hsp_gemm_class)(k % HSP_N_GEMM_CLASSES));
        HSP_ASSERT(isfinite(rate) && rate > 0);
    }
    for (uint32_t k = i + 1; k < c->n && k < i + 64; k++) {
        HSP_ASSERT(strcmp(d->name, c->dev[k].name) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_err err = {0};
    struct hsp_cluster_desc c;
    enum hsp_status st =
        hsp_cluster_desc_parse((const char *)data, len, "fuzz", hsp_fuzz_arena(), &c, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(st == HSP_EPARSE || st == HSP_ELIMIT || st == HSP_ENOMEM);
        HSP_ASSERT(st == HSP_ENOMEM || strncmp(err.msg, "fuzz:", 5) == 0);
        return 0;
    }
    HSP_ASSERT(c.n > 0 && c.n <= HSP_MAX_DEVICES);
    for (uint32_t i = 0; i < c.n; i++) {
        check_device(&c, i);
    }
    check_link(&c.same_node);
    check_link(&c.cross);
    return 0;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "cluster", .folder = "conf/clusters"};
