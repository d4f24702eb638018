/* Decides from addresses, devices and variables whether the traffic of NCCL stays on this host or
 * on trusted networks, since NCCL encrypts nothing.
 *
 * Purity:  pure.
 * Example: NCCL_SOCKET_IFNAME=eth0, eth0 has 10.1.0.7, trusted_network is 10.1.0.0/16 and there is
 *          no RDMA device: hsp_nccl_trusts() returns bit 0.
 *
 * Trusted: every interface by which NCCL may open sockets, and every RDMA device it may use, has an
 * address in a trusted network and no routable one elsewhere. NCCL's rules for NCCL_SOCKET_IFNAME
 * and NCCL_IB_HCA say which may be used; without NCCL_SOCKET_IFNAME every interface but the
 * loopback may. Two hosts then talk when one trusted network has all of these interfaces of both. A
 * network plugin cannot be looked into and is not trusted.
 */
#ifndef HSP_NCCL_TRUST_H
#define HSP_NCCL_TRUST_H
#include "worker/probe/nccl_place.h"

/* Returns true if NCCL's list has this name. "a,b": names with prefix a or b. "=a,b": exactly a or
 * b. "^...": all but these. "": all. @ports: an entry "a:1" counts for device a when it includes,
 * and not when it excludes. */
bool hsp_nccl_names(const char *list, const char *name, bool ports);
/* Returns true if the variables determine all that NCCL will do: no plugin gives NCCL other
 * settings, and its ranks do not connect through an address of the administrator. Otherwise nothing
 * follows from the variables, and @why has the reason. */
bool hsp_nccl_known(hsp_getenv get, char why[HSP_NCCL_WHY]);
/* Returns true if all messages of NCCL between ranks of this host stay on the host. Otherwise @why
 * has the reason. */
bool hsp_nccl_stays(const struct hsp_host_net *h, hsp_getenv get, char why[HSP_NCCL_WHY]);
/* The networks (bit i: the one of number i) on which each interface and each RDMA device that NCCL
 * may use is, if all their traffic to other hosts stays on these networks; 0: why not, and the
 * remedy. */
uint8_t hsp_nccl_trusts(const struct hsp_host_net *h, hsp_getenv get, const struct hsp_ipnets *nets,
                        char why[HSP_NCCL_WHY]);

#endif
