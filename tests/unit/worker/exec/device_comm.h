/* Provides a transport of a device's memory for tests: its operations happen at once, over a
 * transport of the host, after all earlier work of the comm queue.
 *
 * Ownership: the inner transport and the backend are borrowed; close frees this one alone. */
#ifndef HSP_DEVICE_COMM_H
#define HSP_DEVICE_COMM_H
#include "worker/backend/backend.h"
#include "worker/comm/comm.h"

struct hsp_devcomm_tally {
    uint32_t sends, receives, collectives, batches;
};

/* Reaches groups of up to @largest ranks. */
struct hsp_comm *hsp_devcomm_open(struct hsp_comm *inner, struct hsp_backend *b, uint32_t largest);
struct hsp_devcomm_tally hsp_devcomm_tally(const struct hsp_comm *c);

#endif
