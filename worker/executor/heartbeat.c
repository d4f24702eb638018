/* Without failures, the helper thread does the work and makes done_fd readable, and the control
 * thread waits for done_fd.
 *
 * If there is no thread, the control thread does the work itself, without heartbeats. If the work
 * hangs, heartbeats stop and the agent kills the process. */
#include "worker/executor/heartbeat.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "worker/exec/pace.h"
#include "worker/executor/epoch_control.h"

static int64_t now_ms(void)
{
    return hsp_clock_ns() / 1000000;
}

enum hsp_status hsp_heartbeat_open(struct hsp_heartbeat *h, struct hsp_chan *chan,
                                   uint32_t every_ms, struct hsp_logger *log, struct hsp_err *err)
{
    *h = (struct hsp_heartbeat){.chan = chan,
                                .log = log,
                                .every_ms = every_ms,
                                .long_ms = HSP_HEARTBEAT_LONG_MS,
                                .due_ms = now_ms(),
                                .done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    return h->done_fd >= 0 ? HSP_OK
                           : hsp_err_set(err, HSP_EIO, errno, "cannot make an event descriptor");
}

void hsp_heartbeat_close(struct hsp_heartbeat *h)
{
    if (h->done_fd >= 0) {
        (void)close(h->done_fd);
        h->done_fd = -1;
    }
}

int hsp_heartbeat_wait_ms(const struct hsp_heartbeat *h)
{
    int64_t wait = h->due_ms - now_ms();
    return wait <= 0 ? 0 : wait < INT_MAX ? (int)wait : INT_MAX;
}

void hsp_heartbeat_beat(struct hsp_heartbeat *h)
{
    struct hsp_msg m = {.type = HSP_MSG_HEARTBEAT};
    struct hsp_err err = {0};
    if (now_ms() < h->due_ms) {
        return;
    }
    m.u.beat.seq = ++h->n;
    if (hsp_chan_send(h->chan, &m, &err) != HSP_OK) {
        hsp_log(h->log, HSP_LOG_WARN, "executor", "cannot send %s: %s", hsp_msg_name(m.type),
                err.msg);
    }
    h->due_ms = now_ms() + h->every_ms;
}

void hsp_heartbeat_pace(struct hsp_heartbeat *h, uint32_t every_ms)
{
    h->every_ms = every_ms;
    h->due_ms = now_ms();
}

struct work {
    void (*fn)(void *on);
    void *on;
    int done_fd;
};

static void *work_thread(void *arg)
{
    const struct work *w = arg;
    w->fn(w->on);
    hsp_epoch_poke(w->done_fd);
    return NULL;
}

void hsp_heartbeat_during(struct hsp_heartbeat *h, void (*work)(void *on), void *on)
{
    struct work w = {work, on, h->done_fd};
    struct pollfd done = {.fd = h->done_fd, .events = POLLIN};
    int64_t until = now_ms() + h->long_ms;
    pthread_t thread;
    uint64_t count;
    if (pthread_create(&thread, NULL, work_thread, &w) != 0) {
        work(on);
        return;
    }
    while (read(h->done_fd, &count, sizeof count) < 0) {
        bool silent = now_ms() >= until;
        (void)poll(&done, 1, silent ? -1 : hsp_heartbeat_wait_ms(h)); /* read() comes next */
        if (!silent) {
            hsp_heartbeat_beat(h);
        }
    }
    (void)pthread_join(thread, NULL); /* the helper thread is ending */
}
