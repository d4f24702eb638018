/* Tells the agent that the control thread lives, also while that waits for work which takes long.
 *
 * Example:   DROP comes while the next epoch opens a file on a server that is slow. Its threads are
 *            joined, and the control thread waits for that. The agent kills an executor that is
 *            silent for 3 s, and with it the training. So another thread joins them, and the
 *            control thread waits for that one and beats. It does nothing else meanwhile, so all
 *            comes in its order.
 * Purity:    shell (a thread, the channel).
 * Threads:   the control thread.
 * Bounds:    HSP_HEARTBEAT_LONG_MS: behind that the control thread waits in silence.
 */
#ifndef HSP_HEARTBEAT_H
#define HSP_HEARTBEAT_H
#include <stdint.h>

#include "proto/host/log.h"
#include "worker/executor/agent_channel.h"

/* What takes longer hangs: the end of the process helps. */
#define HSP_HEARTBEAT_LONG_MS 60000u

struct hsp_heartbeat {
    struct hsp_chan *chan; /* borrowed */
    struct hsp_logger *log;
    uint32_t every_ms, long_ms;
    int64_t due_ms; /* the next one */
    uint64_t n;     /* so far */
    int done_fd;    /* eventfd: the work is done */
};

/* Beats each @every_ms, for the first time at once. HSP_EIO: no descriptor; close all the same. */
enum hsp_status hsp_heartbeat_open(struct hsp_heartbeat *h, struct hsp_chan *chan,
                                   uint32_t every_ms, struct hsp_logger *log, struct hsp_err *err);
void hsp_heartbeat_close(struct hsp_heartbeat *h);
/* How long the control thread may wait before the next one. */
int hsp_heartbeat_wait_ms(const struct hsp_heartbeat *h);
void hsp_heartbeat_beat(struct hsp_heartbeat *h); /* where one is due */
/* From now on each @every_ms; the next one is due at once. */
void hsp_heartbeat_pace(struct hsp_heartbeat *h, uint32_t every_ms);
/* Has a thread call work(on), and returns when that has returned. */
void hsp_heartbeat_during(struct hsp_heartbeat *h, void (*work)(void *on), void *on);

#endif
