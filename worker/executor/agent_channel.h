/* Sends and receives messages over the socketpair to the agent.
 *
 * Role:      the executor's control thread receives; any thread of the executor sends.
 * Purity:    shell.
 * Threads:   hsp_chan_send from any thread; hsp_chan_recv from one.
 * Ownership: the descriptor belongs to the channel. */
#ifndef HSP_AGENT_CHANNEL_H
#define HSP_AGENT_CHANNEL_H
#include <pthread.h>
#include "proto/wire/frame.h"
#include "proto/wire/msg.h"

struct hsp_chan {
    int fd;
    pthread_mutex_t lock; /* held by a sending thread */
    struct hsp_frame_parser parser;
    uint8_t buf[65536]; /* received bytes; those from `at` to `len` are not yet parsed */
    size_t at, len;
};

void hsp_chan_init(struct hsp_chan *c, int fd);
void hsp_chan_fini(struct hsp_chan *c); /* closes the descriptor */

/* Sends one message; blocks while the agent does not read. Returns HSP_ECLOSED if the agent is
 * gone, and errors of hsp_msg_encode. */
enum hsp_status hsp_chan_send(struct hsp_chan *c, const struct hsp_msg *m, struct hsp_err *err);

/* Reads the bytes that have arrived and decodes the next message. The message is allocated in
 * @arena, and its bytes belong to *ret_frame until hsp_frame_fini. Returns HSP_AGAIN if no message
 * is complete and reading would block, HSP_ECLOSED at end of file, and errors of hsp_frame_feed and
 * hsp_msg_decode. */
enum hsp_status hsp_chan_recv(struct hsp_chan *c, struct hsp_arena *arena,
                              struct hsp_frame *ret_frame, struct hsp_msg *ret,
                              struct hsp_err *err);

#endif
