/* Turns signals of a program into calls on its loop.
 *
 * Role:      opened once in main. Also ignores SIGPIPE, which a write to a closed peer would raise.
 * Purity:    shell (libuv).
 * Threads:   the loop thread.
 * Ownership: the caller's storage; it may go after the close callback. */
#ifndef HSP_UV_SIGNAL_H
#define HSP_UV_SIGNAL_H

#include <uv.h>

#include "proto/base/err.h"

#define HSP_N_SIGNALS 4

struct hsp_signals {
    uv_signal_t handle[HSP_N_SIGNALS]; /* SIGTERM, SIGINT, SIGHUP, SIGUSR1 */
    unsigned n_open;
    void (*on_signal)(void *ctx, int signum);
    void (*on_closed)(void *ctx);
    void *ctx;
};

/* The handles do not keep the loop alive. HSP_EIO: libuv refuses; nothing is left open. */
enum hsp_status hsp_signals_open(struct hsp_signals *s, uv_loop_t *loop,
                                 void (*on_signal)(void *ctx, int signum), void *ctx,
                                 struct hsp_err *err);

/* @on_closed (may be NULL) is called once, from the loop, with the ctx of open. */
void hsp_signals_close(struct hsp_signals *s, void (*on_closed)(void *ctx));

#endif
