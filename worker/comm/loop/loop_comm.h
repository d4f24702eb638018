/* Connects ranks that are threads of one process: the transport of tests and of `hspmd-worker
 * --run`.
 *
 * Role:      makes n hsp_comm that share a hub.
 * Threads:   each hsp_comm is used by one thread; the hub is locked.
 * Ownership: each hsp_comm is closed by its user; closing the last one frees the hub. */
#ifndef HSP_LOOP_COMM_H
#define HSP_LOOP_COMM_H
#include "worker/comm/comm.h"

#define HSP_LOOP_MAX_RANKS 1024 /* n^2 mailboxes */

/* @ret has room for @n. HSP_EINVAL: n is 0 or above the bound; HSP_ENOMEM. */
enum hsp_status hsp_loop_open(uint32_t n, struct hsp_comm **ret, struct hsp_err *err);

#endif
