/* Sends heartbeats to the agent, also while the control thread waits for work that takes long.
 *
 * Example:   DROP comes while the next epoch opens a file on a slow server. The threads of that
 *            epoch have to be joined, and the join may take long. The agent kills an executor that
 *            is silent for 3 s, and the training with it. So a helper thread joins the threads,
 *            while the control thread waits for the helper thread and sends heartbeats. The control
 *            thread handles no message meanwhile, so messages keep their order.
 * Purity:    shell (a thread, the channel).
 * Threads:   the control thread.
 * Bounds: after HSP_HEARTBEAT_LONG_MS of one piece of work no more heartbeats are sent.
 */
#ifndef HSP_HEARTBEAT_H
#define HSP_HEARTBEAT_H
#include <stdint.h>

#include "proto/host/log.h"
#include "worker/executor/agent_channel.h"

/* Work that takes longer counts as hanging. Then heartbeats stop, and the agent kills the
 * process. */
#define HSP_HEARTBEAT_LONG_MS 60000u

struct hsp_heartbeat {
    struct hsp_chan *chan; /* borrowed */
    struct hsp_logger *log;
    uint32_t every_ms, long_ms;
    int64_t due_ms; /* time of the next heartbeat */
    uint64_t n;     /* heartbeats so far */
    int done_fd;    /* eventfd: the work is done */
};

/* Opens heartbeats each @every_ms, the first one at once. Returns HSP_EIO if there is no
 * descriptor; close @h in that case, too. */
enum hsp_status hsp_heartbeat_open(struct hsp_heartbeat *h, struct hsp_chan *chan,
                                   uint32_t every_ms, struct hsp_logger *log, struct hsp_err *err);
void hsp_heartbeat_close(struct hsp_heartbeat *h);
/* Returns the time for which the control thread may wait before the next heartbeat. */
int hsp_heartbeat_wait_ms(const struct hsp_heartbeat *h);
/* Sends a heartbeat if it is due. */
void hsp_heartbeat_beat(struct hsp_heartbeat *h);
/* Sets the period to @every_ms; the next heartbeat is due at once. */
void hsp_heartbeat_pace(struct hsp_heartbeat *h, uint32_t every_ms);
/* Has a helper thread call work(on), sends heartbeats meanwhile, and returns when work has
 * returned. */
void hsp_heartbeat_during(struct hsp_heartbeat *h, void (*work)(void *on), void *on);

#endif
