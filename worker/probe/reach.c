#include "worker/probe/reach.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/comm/mesh/mesh_listen.h"

#define CALLS 5u /* of each target, spread over the time */

struct caller {
    const char *const *address;
    uint32_t n;
    enum hsp_reach_answer *answer;
    bool *settled;       /* [n] */
    struct pollfd *call; /* [n * CALLS]; fd -1: none */
};

static void settle(struct caller *c, uint32_t target, enum hsp_reach_answer answer)
{
    c->answer[target] = answer;
    c->settled[target] = true;
    for (uint32_t k = 0; k < CALLS; k++) {
        struct pollfd *p = &c->call[target * CALLS + k];
        if (p->fd >= 0) {
            (void)close(p->fd);
            p->fd = -1;
        }
    }
}

/* Notes the outcome of a call; @e: its errno. */
static void hear(struct caller *c, uint32_t target, int e)
{
    if (e == 0 || e == EMFILE || e == ENFILE || e == ENOMEM || e == ENOBUFS) {
        settle(c, target, HSP_REACH_YES);
    } else if (e == ECONNREFUSED) {
        settle(c, target, HSP_REACH_REFUSED);
    }
}

static void call_all(struct caller *c, uint32_t nth)
{
    for (uint32_t i = 0; i < c->n; i++) {
        bool waits = false;
        if (c->settled[i]) {
            continue;
        }
        int fd = hsp_mesh_dial(c->address[i], false, &waits);
        if (fd >= 0) {
            c->call[i * CALLS + nth] = (struct pollfd){.fd = fd, .events = POLLOUT};
        }
        if (fd < 0 || !waits) {
            hear(c, i, fd < 0 ? -fd : 0);
        }
    }
}

static void hear_all(struct caller *c)
{
    for (uint32_t k = 0; k < c->n * CALLS; k++) {
        struct pollfd *p = &c->call[k];
        int e = 0;
        socklen_t len = sizeof e;
        if (p->fd < 0 || p->revents == 0) {
            continue;
        }
        if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &e, &len) != 0) {
            e = errno;
        }
        (void)close(p->fd);
        p->fd = -1;
        hear(c, k / CALLS, e);
    }
}

static bool all_settled(const struct caller *c)
{
    bool all = true;
    for (uint32_t i = 0; i < c->n; i++) {
        all = all && c->settled[i];
    }
    return all;
}

static void run(struct caller *c, uint32_t within_ms)
{
    uint64_t begin = hsp_mesh_now_ms(), now = begin;
    uint32_t called = 0;
    while (now < begin + within_ms && !all_settled(c)) {
        if (called < CALLS && now >= begin + (uint64_t)called * within_ms / CALLS) {
            call_all(c, called++);
        }
        uint64_t next = begin + (uint64_t)called * within_ms / CALLS;
        now = hsp_mesh_now_ms();
        int left = next > now ? (int)(next - now) : 0;
        if (!all_settled(c) && poll(c->call, c->n * CALLS, left) > 0) {
            hear_all(c);
        }
        now = hsp_mesh_now_ms();
    }
}

void hsp_reach(const char *const *address, uint32_t n, uint32_t within_ms,
               enum hsp_reach_answer *ret)
{
    struct caller c = {.address = address,
                       .n = n,
                       .answer = ret,
                       .settled = calloc((size_t)n + 1, sizeof *c.settled),
                       .call = calloc((size_t)n * CALLS + 1, sizeof *c.call)};
    bool ok = c.settled != NULL && c.call != NULL;
    for (uint32_t i = 0; i < n; i++) {
        ret[i] = ok ? HSP_REACH_NO : HSP_REACH_YES;
    }
    for (uint32_t k = 0; ok && k < n * CALLS; k++) {
        c.call[k].fd = -1;
    }
    if (ok) {
        run(&c, within_ms);
    }
    for (uint32_t i = 0; ok && i < n; i++) {
        settle(&c, i, ret[i]);
    }
    free(c.settled);
    free(c.call);
}
