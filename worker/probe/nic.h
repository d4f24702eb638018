/* Finds the network card that has an address of this host, and the RDMA devices of a card.
 *
 * Role:    an agent's network where hspmd-worker.yaml does not name it, for hspmdd and NCCL.
 * Purity:  shell: asks the kernel for the addresses of interfaces, reads below @sys.
 * Threads: any. */
#ifndef HSP_NIC_H
#define HSP_NIC_H
#include <stdbool.h>

#include "proto/wire/msg.h"
#include "worker/probe/nccl_env.h"

struct hsp_netcard {
    char name[HSP_CARD_NAME + 1];
    double gbit_per_s; /* of its link, 0: it does not say */
};

/* The interface with @address (numeric, IPv4 or IPv6), when it is a card (it has a device;
 * loopback, bridges and bonds have none) and its link is up. @sys: /sys/class/net. False: there is
 * none, or it cannot be seen. */
bool hsp_netcard_find(const char *sys, const char *address, struct hsp_netcard *ret);

/* Whether there is an interface of this name, and the RDMA devices of it, or of the cards it is
 * made of (a bond, a VLAN), for NCCL; devices without room are left out. */
void hsp_netcard_rdma(const char *sys, const char *name, struct hsp_nccl_card *ret);

#endif
