/* Describes a cluster to the planner: devices with measured profiles, and links.
 *
 * Role:    made by hspmdd from hello and probe messages, or read from a --cluster file.
 * Purity:  pure data. Units are in the names. */
#ifndef HSP_CLUSTER_DESC_H
#define HSP_CLUSTER_DESC_H
#include <stdbool.h>
#include <stdint.h>

#include "proto/op/gemm_class.h"

#define HSP_MAX_DEVICES 4096

struct hsp_link_cost {
    double latency_us;  /* one message */
    double us_per_byte; /* inverse bandwidth */
};

/* The types in which products are computed; bf16 sums in fp32. */
enum hsp_rate { HSP_RATE_FP32, HSP_RATE_FP64, HSP_RATE_TF32, HSP_RATE_BF16 };
#define HSP_N_RATES 4

struct hsp_device_desc {
    char name[80]; /* NODE/INDEX */
    uint32_t node; /* devices of one node share a number */
    uint32_t host; /* nodes on one host share a number: between them there is no network */
    /* Devices of one node that reach each other by paths of their own (NVLink, or measured) share a
     * number; 0: in none. */
    uint32_t domain;
    struct hsp_link_cost fast;   /* inside its domain */
    uint32_t nic;                /* its network card among those of its host */
    double nic_us_per_byte;      /* of the card's link, 0: not known */
    struct hsp_link_cost uplink; /* of its node: half a round trip to where nodes meet, and the way
                                    there; us_per_byte 0: not known */
    int64_t mem_bytes;           /* offered to jobs */
    int64_t host_bytes;   /* memory of its node for the offloads of its devices; 0: not known */
    int64_t folder_bytes; /* room for sealed state in its node's state folder, for all its devices
                             together; 0: not known */
    double gemm_flops[HSP_N_RATES]; /* measured FLOP/s of GEMM; pacing included; 0: not known, that
                                       of fp32 */
    double gemm_part[HSP_N_RATES]
                    [HSP_N_GEMM_CLASSES]; /* the share of that rate that products of a class
                                             reach; 0: not known, all of it */
    bool widens;            /* it computes on bf16 in copies in fp32 of an op's operands */
    bool no_buckets;        /* its program knows no buckets of Reshards (protocol 16 and before) */
    double mem_bytes_per_s; /* element-wise traffic, read + written */
    double bf16_part; /* of it, that such work on bf16 reaches, in its bytes; 0: not known, all */
    double op_us;     /* fixed cost of one instruction */
    /* Memory of each communicator of NCCL that this device is in; 0: none, not a GPU. */
    int64_t communicator_bytes;
    /* Fixed time of a product in addition, whatever its size: products of gemm_us * gemm_flops
     * operations reach half of the rate; 0: all reach it. */
    double gemm_us;
    double host_bytes_per_s; /* between its memory and its node's; 0: these are one */
};

/* Its memory is its node's, where the sealed versions of its state lie, too: it is no GPU. */
static inline bool hsp_device_is_host(const struct hsp_device_desc *d)
{
    return d->host_bytes_per_s <= 0 && d->communicator_bytes == 0;
}

/* FLOP/s of products of a class. */
static inline double hsp_device_gemm(const struct hsp_device_desc *d, enum hsp_rate r,
                                     enum hsp_gemm_class c)
{
    enum hsp_rate known = d->gemm_flops[r] > 0 ? r : HSP_RATE_FP32;
    double part = d->gemm_part[known][c];
    return d->gemm_flops[known] * (part > 0 ? part : 1);
}

/* Element-wise traffic of numbers of bf16. */
static inline double hsp_device_bf16_bytes(const struct hsp_device_desc *d)
{
    return d->mem_bytes_per_s * (d->bf16_part > 0 ? d->bf16_part : 1);
}

/* Two nodes whose link was measured, and is slower than the rest tells. */
struct hsp_slow_link {
    uint32_t a, b; /* nodes */
    double us_per_byte;
};

struct hsp_cluster_desc {
    uint32_t n;
    struct hsp_device_desc *dev;           /* borrowed or owned by the maker's arena */
    struct hsp_link_cost same_node, cross; /* between devices of one node; of two nodes at best */
    uint32_t n_slow;
    const struct hsp_slow_link *slow; /* as dev */
};

#endif
