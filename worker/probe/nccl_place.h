/* Asks the kernel where NCCL's traffic can go: interfaces, addresses and RDMA devices of this host.
 * NCCL encrypts nothing, so an epoch with TLS asks (worker/comm/nccl/nccl_need.h, L1).
 *
 * Role:    epoch_nccl.c asks at each PREPARE, and offers the answer to the other ranks.
 * Purity:  shell: asks the kernel for addresses, reads below the folders of struct hsp_nccl_look
 *          and the environment. The decision is pure: nccl_trust.h.
 * Threads: any.
 *
 * Host: between two ranks NCCL uses NVLink, PCIe or shared memory, never the network, when they
 * have one boot id and host name (or NCCL_HOSTID) and one /dev/shm, as its own code compares,
 * unless a variable forbids it (NCCL_SHM_DISABLE; NCCL_NET_DISABLE_INTRA, which the agent sets to
 * 1). The rest goes by sockets between addresses of this host. The kernel sends it nowhere when
 * both have one network namespace. The identity of a host is a hash of boot id, host name,
 * NCCL_HOSTID, network namespace, /dev/shm and addresses. Addresses are in it because machines
 * resumed from one snapshot share the rest.
 */
#ifndef HSP_NCCL_PLACE_H
#define HSP_NCCL_PLACE_H
#include <stdbool.h>

#include "proto/net/ip_net.h"
#include "worker/comm/nccl/nccl_need.h"

#define HSP_HOST_ADDRESSES 256u /* of a host; with more nothing is trusted */
#define HSP_HOST_RDMA      64u  /* devices; likewise */
#define HSP_RDMA_CARDS     8u   /* interfaces of one: ports, and those stacked on them; likewise */
#define HSP_RDMA_NAME      63u  /* as the kernel's IB_DEVICE_NAME_MAX */
#define HSP_NCCL_WHY       400u /* why not, in words */
#define HSP_NCCL_UNSEEN    200u

struct hsp_host_address {
    char card[16];
    struct hsp_ip ip;
};
struct hsp_host_rdma {
    char name[HSP_RDMA_NAME + 1];
    uint32_t n_cards;
    char card[HSP_RDMA_CARDS][16];
};
/* The network and files that NCCL finds on this host. */
struct hsp_host_net {
    char unseen[HSP_NCCL_UNSEEN]; /* why not all that there is stands here; "": it does */
    bool plugin;                  /* libnccl-net.so is there */
    uint32_t n_addresses, n_rdma;
    struct hsp_host_address address[HSP_HOST_ADDRESSES];
    struct hsp_host_rdma rdma[HSP_HOST_RDMA];
};

/* A variable of the environment, as getenv gives it. */
typedef const char *(*hsp_getenv)(const char *name);

/* Where to look; NULL: where the kernel has it. */
struct hsp_nccl_look {
    const char *boot_id, *shm;    /* /proc/sys/kernel/random/boot_id, /dev/shm */
    const char *net, *infiniband; /* /sys/class/net, /sys/class/infiniband */
    bool unknown; /* NCCL may have settings that are not in the environment (agent_main.c) */
    bool apart;   /* ranks of this host are told apart like hosts: `transport: tcp` asks for it */
};
/* Of a rank in an epoch with TLS. @why_not: "" or why NCCL may not go to other hosts. */
void hsp_nccl_place_find(const struct hsp_nccl_look *l, const struct hsp_ipnets *nets,
                         struct hsp_nccl_place *ret, char why_not[HSP_NCCL_WHY]);

#endif
