/* Reads cluster files. The default figures are those of one core of a current x86 server with
 * OpenBLAS, rounded down; they only matter relative to each other. */
#include "daemon/planner/cluster_file.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/text/field.h"
#include "proto/text/yaml_parse.h"
#include "proto/text/yaml_read.h"

#define DEFAULT_GFLOPS      "50"
#define DEFAULT_GFLOPS_FP64 "25"
#define DEFAULT_GB_PER_S    "4"
#define DEFAULT_OP_US       "3"
#define DEFAULT_MEMORY      "4GiB"

struct device_raw {
    double speed, gflops, gflops64, gflops_tf32, gflops_bf16, gb_per_s, op_us, gemm_us, bf16_part,
        host_gb_per_s, part[HSP_N_GEMM_CLASSES];
    uint64_t memory, communicator;
    uint32_t count;
};

struct node_raw {
    const char *name;
    double latency_us, gbit, fast_latency_us, fast_gbit;
    uint32_t cards, domain;
    uint64_t host_memory, state_folder;
    const struct hsp_yaml *devices;
};

struct cluster_raw {
    const char *api_version, *kind;
    const struct hsp_yaml *nodes;
    double same_latency, same_gbit, cross_latency, cross_gbit;
};

#define F(s, path_, type_, member, ...)                                                   \
    {                                                                                     \
        .path = (path_), .type = HSP_FIELD_##type_, .offset = offsetof(struct s, member), \
        __VA_ARGS__                                                                       \
    }

#define PART(name, cls, help_)                                                                 \
    F(device_raw, "gemm_parts." name, F64, part[cls], .dflt = "1", .min = HSP_GEMM_PART_LEAST, \
      .max = HSP_GEMM_PART_MOST, .help = "part of the rates of GEMM that products reach: " help_)

static const struct hsp_cfg_field device_table[] = {
    F(device_raw, "speed", F64, speed, .dflt = "1", .min = 1e-3, .max = 1e6,
      .help = "factor on all rates"),
    F(device_raw, "memory", BYTES, memory, .dflt = DEFAULT_MEMORY, .min = 1, .max = 1e18,
      .help = "offered to jobs"),
    F(device_raw, "gemm_gflops", F64, gflops, .dflt = DEFAULT_GFLOPS, .min = 1e-6, .max = 1e9,
      .help = "GEMM in fp32"),
    F(device_raw, "gemm_gflops_fp64", F64, gflops64, .dflt = DEFAULT_GFLOPS_FP64, .min = 1e-6,
      .max = 1e9, .help = "GEMM in fp64"),
    F(device_raw, "gemm_gflops_tf32", F64, gflops_tf32, .dflt = "0", .min = 0, .max = 1e9,
      .help = "GEMM in tf32; 0: as fp32"),
    F(device_raw, "gemm_gflops_bf16", F64, gflops_bf16, .dflt = "0", .min = 0, .max = 1e9,
      .help = "GEMM in bf16; 0: as fp32"),
    F(device_raw, "memory_gb_per_s", F64, gb_per_s, .dflt = DEFAULT_GB_PER_S, .min = 1e-6,
      .max = 1e6, .help = "element-wise traffic, read plus written"),
    F(device_raw, "memory_bf16_part", F64, bf16_part, .dflt = "1", .min = 1e-3, .max = 1e3,
      .help = "of memory_gb_per_s, on numbers of bf16; less where they are computed on in fp32"),
    F(device_raw, "op_us", F64, op_us, .dflt = DEFAULT_OP_US, .min = 0, .max = 1e6,
      .help = "fixed cost of one instruction"),
    F(device_raw, "communicator_memory", BYTES, communicator, .dflt = "0", .max = 1e12,
      .help = "of a GPU: memory of NCCL for each group it is in; 160MiB are usual"),
    F(device_raw, "gemm_us", F64, gemm_us, .dflt = "0", .min = 0, .max = 1e6,
      .help = "fixed cost of a product on top: small ones do not reach gemm_gflops"),
    PART("few", HSP_GEMM_FEW, "a few rows or columns"),
    PART("wide", HSP_GEMM_WIDE, "a result far larger than the summed dimension"),
    PART("long", HSP_GEMM_LONG, "a sum far longer than the result"),
    PART("attention", HSP_GEMM_ATTENTION, "attention"),
    F(device_raw, "host_gb_per_s", F64, host_gb_per_s, .dflt = "0", .min = 0, .max = 1e6,
      .help = "between its memory and its node's, for offload; 0: these are one"),
    F(device_raw, "count", U32, count, .dflt = "1", .min = 1, .max = HSP_MAX_DEVICES,
      .help = "that many devices of this kind"),
};

static const struct hsp_cfg_field node_table[] = {
    F(node_raw, "name", STR, name, .required = true, .help = "name of the node"),
    F(node_raw, "uplink.latency_us", F64, latency_us, .dflt = "0", .min = 0, .max = 1e9,
      .help = "half a round trip to where nodes meet"),
    F(node_raw, "uplink.gbit_per_s", F64, gbit, .dflt = "1e6", .min = 1e-6, .max = 1e6,
      .help = "its link to other nodes; links.cross_node is the best there is"),
    F(node_raw, "fast_domain", U32, domain, .dflt = "0", .max = HSP_MAX_DEVICES,
      .help = "so many devices one after the other have a network of their own (NVLink); 0: none"),
    F(node_raw, "fast_link.latency_us", F64, fast_latency_us, .dflt = "10", .min = 0, .max = 1e9,
      .help = "one message inside a fast domain"),
    F(node_raw, "fast_link.gbit_per_s", F64, fast_gbit, .dflt = "2400", .min = 1e-6, .max = 1e6,
      .help = "between devices of a fast domain"),
    F(node_raw, "network_cards", U32, cards, .dflt = "1", .min = 1, .max = HSP_MAX_DEVICES,
      .help = "of this speed each; device i uses card i modulo this number"),
    F(node_raw, "host_memory", BYTES, host_memory, .dflt = "0", .max = 1e18,
      .help = "for the offloaded state of all its devices; 0: not known, as much as plans want"),
    F(node_raw, "state_folder", BYTES, state_folder, .dflt = "0", .max = 1e18,
      .help = "room in its state folder, where the state of jobs is sealed; 0: not known"),
    F(node_raw, "devices", NODE, devices, .required = true, .help = "list of devices"),
};

static const struct hsp_cfg_field cluster_table[] = {
    F(cluster_raw, "apiVersion", STR, api_version, .required = true, .help = "hspmd/v1"),
    F(cluster_raw, "kind", STR, kind, .required = true, .help = "cluster"),
    F(cluster_raw, "nodes", NODE, nodes, .required = true, .help = "list of nodes"),
    F(cluster_raw, "links.same_node.latency_us", F64, same_latency, .dflt = "20", .min = 0,
      .max = 1e9, .help = "one message inside a node"),
    F(cluster_raw, "links.same_node.gbit_per_s", F64, same_gbit, .dflt = "40", .min = 1e-6,
      .max = 1e6, .help = "between devices of one node"),
    F(cluster_raw, "links.cross_node.latency_us", F64, cross_latency, .dflt = "60", .min = 0,
      .max = 1e9, .help = "one message between nodes"),
    F(cluster_raw, "links.cross_node.gbit_per_s", F64, cross_gbit, .dflt = "10", .min = 1e-6,
      .max = 1e6, .help = "between nodes"),
};
#undef PART
#undef F

static struct hsp_device_desc device_of(const struct device_raw *r, const char *name, uint32_t node)
{
    struct hsp_device_desc d = {
        .node = node,
        .host = node,
        .mem_bytes = (int64_t)r->memory,
        .gemm_flops = {r->gflops * 1e9 * r->speed, r->gflops64 * 1e9 * r->speed,
                       r->gflops_tf32 * 1e9 * r->speed, r->gflops_bf16 * 1e9 * r->speed},
        .communicator_bytes = (int64_t)r->communicator,
        .widens = r->gflops_bf16 <= 0,
        .mem_bytes_per_s = r->gb_per_s * 1e9 * r->speed,
        .bf16_part = r->bf16_part,
        .op_us = r->op_us / r->speed,
        .gemm_us = r->gemm_us / r->speed,
        .host_bytes_per_s = r->host_gb_per_s * 1e9,
    };
    for (int k = 0; k < HSP_N_RATES; k++) {
        memcpy(d.gemm_part[k], r->part, sizeof(r->part));
        d.gemm_part[k][HSP_GEMM_EVEN] = 1;
    }
    (void)snprintf(d.name, sizeof(d.name), "%s", name);
    return d;
}

struct hsp_device_desc hsp_device_default(const char *name, uint32_t node, double speed)
{
    struct device_raw r = {.speed = speed, .count = 1};
    (void)hsp_parse_f64(DEFAULT_GFLOPS, &r.gflops);
    (void)hsp_parse_f64(DEFAULT_GFLOPS_FP64, &r.gflops64);
    (void)hsp_parse_f64(DEFAULT_GB_PER_S, &r.gb_per_s);
    (void)hsp_parse_f64(DEFAULT_OP_US, &r.op_us);
    (void)hsp_parse_bytes(DEFAULT_MEMORY, &r.memory);
    return device_of(&r, name, node);
}

/* Two passes: the first counts (dev == NULL), the second fills. */
static enum hsp_status read_devices(const struct hsp_yaml *list, const char *node_name,
                                    uint32_t node, struct hsp_arena *arena,
                                    struct hsp_device_desc *dev, uint32_t *n, struct hsp_err *err)
{
    uint32_t index = 0;
    if (hsp_yaml_expect(list, HSP_YAML_SEQ, err) != HSP_OK) {
        return HSP_EPARSE;
    }
    for (size_t i = 0; i < list->n; i++) {
        struct device_raw r;
        enum hsp_status st = hsp_fields_load(device_table, HSP_ARRAY_LEN(device_table),
                                             &list->items[i], arena, &r, NULL, err);
        if (st != HSP_OK) {
            return st;
        }
        if (r.count > HSP_MAX_DEVICES - *n) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "%s:%u:%u: more than %d devices", list->file,
                               list->items[i].line, list->items[i].column, HSP_MAX_DEVICES);
        }
        for (uint32_t k = 0; k < r.count; k++, index++, (*n)++) {
            char name[80];
            (void)snprintf(name, sizeof(name), "%s/%u", node_name, index);
            if (dev != NULL) {
                dev[*n] = device_of(&r, name, node);
            }
        }
    }
    return HSP_OK;
}

static enum hsp_status read_nodes(const struct hsp_yaml *list, struct hsp_arena *arena,
                                  struct hsp_device_desc *dev, uint32_t *n, struct hsp_err *err)
{
    if (hsp_yaml_expect(list, HSP_YAML_SEQ, err) != HSP_OK) {
        return HSP_EPARSE;
    }
    *n = 0;
    for (size_t i = 0; i < list->n; i++) {
        struct node_raw r;
        const struct hsp_yaml *item = &list->items[i];
        enum hsp_status st =
            hsp_fields_load(node_table, HSP_ARRAY_LEN(node_table), item, arena, &r, NULL, err);
        if (st != HSP_OK) {
            return st;
        }
        if (!hsp_name_valid(r.name)) {
            return hsp_yaml_error(hsp_yaml_get(item, "name"), err,
                                  "must be 1 to 63 of a-z 0-9 - . with alphanumeric ends");
        }
        for (size_t k = 0; k < i; k++) {
            const struct hsp_yaml *other = hsp_yaml_get(&list->items[k], "name");
            if (strcmp(other->text, r.name) == 0) {
                return hsp_yaml_error(hsp_yaml_get(item, "name"), err, "node %s stands twice",
                                      r.name);
            }
        }
        uint32_t first = *n;
        st = read_devices(r.devices, r.name, (uint32_t)i, arena, dev, n, err);
        if (st != HSP_OK) {
            return st;
        }
        for (uint32_t k = first; dev != NULL && k < *n; k++) {
            dev[k].uplink = (struct hsp_link_cost){r.latency_us, 1 / (r.gbit * 125)};
            dev[k].nic = (k - first) % r.cards;
            dev[k].domain = r.domain > 0 ? first + 1 + (k - first) / r.domain : 0;
            dev[k].fast = (struct hsp_link_cost){r.fast_latency_us, 1 / (r.fast_gbit * 125)};
            dev[k].host_bytes = (int64_t)r.host_memory;
            dev[k].folder_bytes = (int64_t)r.state_folder;
        }
    }
    return *n > 0 ? HSP_OK : hsp_yaml_error(list, err, "no device");
}

enum hsp_status hsp_cluster_desc_parse(const char *text, size_t len, const char *file,
                                       struct hsp_arena *arena, struct hsp_cluster_desc *ret,
                                       struct hsp_err *err)
{
    const struct hsp_yaml *root = NULL;
    struct cluster_raw r;
    enum hsp_status st = hsp_yaml_parse(file, text, len, arena, &root, err);
    if (st == HSP_OK) {
        st = hsp_fields_load(cluster_table, HSP_ARRAY_LEN(cluster_table), root, arena, &r, NULL,
                             err);
    }
    if (st != HSP_OK) {
        return st;
    }
    if (strcmp(r.api_version, "hspmd/v1") != 0) {
        return hsp_yaml_error(hsp_yaml_get(root, "apiVersion"), err, "must be hspmd/v1");
    }
    if (strcmp(r.kind, "cluster") != 0) {
        return hsp_yaml_error(hsp_yaml_get(root, "kind"), err, "must be cluster");
    }
    uint32_t n = 0;
    st = read_nodes(r.nodes, arena, NULL, &n, err);
    if (st != HSP_OK) {
        return st;
    }
    struct hsp_device_desc *dev = hsp_arena_array(arena, n, sizeof(*dev));
    if (dev == NULL) {
        return hsp_err_nomem(err, "cluster file %s", file);
    }
    st = read_nodes(r.nodes, arena, dev, &n, err);
    if (st != HSP_OK) {
        return st;
    }
    /* 1 Gbit/s = 125 bytes per microsecond */
    *ret = (struct hsp_cluster_desc){
        .n = n,
        .dev = dev,
        .same_node = {.latency_us = r.same_latency, .us_per_byte = 1 / (r.same_gbit * 125)},
        .cross = {.latency_us = r.cross_latency, .us_per_byte = 1 / (r.cross_gbit * 125)},
    };
    return HSP_OK;
}
