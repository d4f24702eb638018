/* Where goes what NCCL says: whether that among ranks of this host stays here, and whether that to other hosts stays on
 * trusted networks. NCCL encrypts nothing, so an epoch with TLS asks (worker/comm/nccl/ncclneed.h, L1).
 *
 * Role:    epochdirect.c asks at each PREPARE, and offers the answer to the other ranks.
 * Purity:  hsp_nccl_names, _stays and _trusts are pure; hsp_nccl_place_find is a shell that asks the kernel for addresses,
 *          reads below the folders of struct hsp_nccl_look and the environment.
 * Threads: any.
 *
 * Host: NCCL goes through NVLink, PCIe or shared memory between two ranks, never by the network, when they have one boot id
 * and host name (or NCCL_HOSTID) and one /dev/shm, as its own code compares, and nobody has told it otherwise
 * (NCCL_SHM_DISABLE, NCCL_NET_DISABLE_INTRA, which the agent sets to 1). The rest goes by sockets between addresses of
 * this host, which the kernel does not send anywhere when both have one network namespace. So the identity of a host is a
 * hash of all five, and of its addresses: machines resumed from one snapshot may share everything else.
 *
 * Trusted: every interface by which NCCL may open sockets, and every RDMA device it may use, by its own rules for
 * NCCL_SOCKET_IFNAME and NCCL_IB_HCA, has an address in a trusted network and no routable one elsewhere. What cannot be
 * seen (a network plugin) is not trusted. */
#ifndef HSP_NCCLPLACE_H
#define HSP_NCCLPLACE_H
#include <stdbool.h>

#include "proto/net/ipnet.h"
#include "worker/comm/nccl/ncclneed.h"

#define HSP_HOST_ADDRESSES 256u /* of a host; with more nothing is trusted */
#define HSP_HOST_RDMA      64u  /* devices; likewise */
#define HSP_RDMA_CARDS     8u  /* interfaces of one: ports, and what is stacked on them; likewise */
#define HSP_RDMA_NAME      63u /* as the kernel's IB_DEVICE_NAME_MAX */
#define HSP_NCCL_WHY       400u /* why not, in words */

struct hsp_host_address {
    char card[16];
    struct hsp_ip ip;
};
struct hsp_host_rdma {
    char name[HSP_RDMA_NAME + 1];
    uint32_t n_cards;
    char card[HSP_RDMA_CARDS][16];
};
/* What NCCL finds on this host. */
struct hsp_host_net {
    bool cut;    /* there is more than has room here */
    bool plugin; /* libnccl-net.so is there */
    uint32_t n_addresses, n_rdma;
    struct hsp_host_address address[HSP_HOST_ADDRESSES];
    struct hsp_host_rdma rdma[HSP_HOST_RDMA];
};

/* A variable of the environment, as getenv gives it. */
typedef const char *(*hsp_getenv)(const char *name);

/* Whether NCCL takes a name by such a list: "a,b" names that begin so, "=a,b" these, "^a" and "^=a" all others; "" all.
 * @ports: names of RDMA devices, of which "a:1" is one port: any port counts, and who excludes a port excludes no device. */
bool hsp_nccl_names(const char *list, const char *name, bool ports);

/* Whether all that NCCL says among ranks of this host stays here; else why not. */
bool hsp_nccl_stays(const struct hsp_host_net *h, hsp_getenv get, char why[HSP_NCCL_WHY]);

/* Whether all that NCCL says to other hosts stays on these networks; else why not, and what to do. */
bool hsp_nccl_trusts(const struct hsp_host_net *h, hsp_getenv get, const struct hsp_ipnets *nets,
                     char why[HSP_NCCL_WHY]);

/* Where to look; NULL: where the kernel has it. */
struct hsp_nccl_look {
    const char *boot_id, *shm;    /* /proc/sys/kernel/random/boot_id, /dev/shm */
    const char *net, *infiniband; /* /sys/class/net, /sys/class/infiniband */
    bool apart; /* ranks of this host are told apart like hosts: `transport: tcp` asks for it */
};
/* Of a rank in an epoch with secrets. @why_not: "" or why NCCL may not go to other hosts. */
void hsp_nccl_place_find(const struct hsp_nccl_look *l, const struct hsp_ipnets *nets,
                         struct hsp_nccl_place *ret, char why_not[HSP_NCCL_WHY]);

#endif
