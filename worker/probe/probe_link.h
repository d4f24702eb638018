/* Measures the link to one peer, both ways, over any transport.
 *
 * Role:    both ends of a check of two nodes call it at the same time, ranks 0 and 1 of a hsp_comm.
 * Purity:  shell (clock).
 * Threads: the caller's.
 * Bounds:  16 MiB of memory; about half a second each way, longer on links that need longer for 64
 *          KiB.
 *          A measurement has no time limit: abort of the hsp_comm ends it. */
#ifndef HSP_PROBE_LINK_H
#define HSP_PROBE_LINK_H
#include "worker/comm/comm.h"

struct hsp_link_figures {
    double latency_s;   /* one way: half of a round trip, median of many */
    double bytes_per_s; /* from here to the peer, the best of several sizes */
};

/* Errors of the hsp_comm; HSP_EPROTO: an unexpected message of the peer; HSP_ENOMEM. */
enum hsp_status hsp_link_test(struct hsp_comm *c, struct hsp_link_figures *ret,
                              struct hsp_err *err);

#endif
