/* Turns signals into calls. The happy path is: open, a signal arrives, on_signal runs on the loop,
 * close. Possible failure: libuv has no memory for its signal tree (open closes what it opened and
 * runs the loop's closing).
 */
#include "proto/host/uv_signal.h"

#include <signal.h>
#include <string.h>

static const int signums[HSP_N_SIGNALS] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};

static void on_uv_signal(uv_signal_t *h, int signum)
{
    struct hsp_signals *s = h->data;
    if (!uv_is_closing((uv_handle_t *)h)) {
        s->on_signal(s->ctx, signum);
    }
}

static void on_uv_close(uv_handle_t *h)
{
    struct hsp_signals *s = h->data;
    if (--s->n_open == 0 && s->on_closed != NULL) {
        s->on_closed(s->ctx);
    }
}

enum hsp_status hsp_signals_open(struct hsp_signals *s, uv_loop_t *loop,
                                 void (*on_signal)(void *ctx, int signum), void *ctx,
                                 struct hsp_err *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL); /* cannot fail for this signal */
    *s = (struct hsp_signals){.on_signal = on_signal, .ctx = ctx};
    for (unsigned i = 0; i < HSP_N_SIGNALS; i++) {
        int r = uv_signal_init(loop, &s->handle[i]);
        if (r == 0) {
            s->n_open++;
            s->handle[i].data = s;
            uv_unref((uv_handle_t *)&s->handle[i]);
            r = uv_signal_start(&s->handle[i], on_uv_signal, signums[i]);
        }
        if (r != 0) {
            hsp_signals_close(s, NULL);
            while (s->n_open > 0) {
                (void)uv_run(loop, UV_RUN_NOWAIT); /* the storage is the caller's again on return */
            }
            return hsp_err_set(err, HSP_EIO, -r, "signal %d", signums[i]);
        }
    }
    return HSP_OK;
}

void hsp_signals_close(struct hsp_signals *s, void (*on_closed)(void *ctx))
{
    s->on_closed = on_closed;
    for (unsigned i = 0; i < HSP_N_SIGNALS; i++) {
        if (s->handle[i].data != NULL && !uv_is_closing((uv_handle_t *)&s->handle[i])) {
            uv_close((uv_handle_t *)&s->handle[i], on_uv_close);
        }
    }
}
