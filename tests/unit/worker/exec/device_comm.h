/* Provides a transport of a device's memory for tests. An operation waits until the device has done
 * all earlier work of the comm queue, and then runs over a transport of the host before it returns.
 *
 * Ownership: the inner transport and the backend are borrowed; close frees only the transport that
 *            hsp_devcomm_open returned. */
#ifndef HSP_DEVICE_COMM_H
#define HSP_DEVICE_COMM_H
#include "worker/backend/backend.h"
#include "worker/comm/comm.h"

/* Numbers of operations so far. */
struct hsp_devcomm_tally {
    uint32_t sends, receives, collectives, batches;
};

/* Opens a transport over @inner that reaches groups of up to @largest ranks. */
struct hsp_comm *hsp_devcomm_open(struct hsp_comm *inner, struct hsp_backend *b, uint32_t largest);
struct hsp_devcomm_tally hsp_devcomm_tally(const struct hsp_comm *c);

#endif
