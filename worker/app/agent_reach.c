#include "worker/app/agent_reach.h"

#include <stdlib.h>
#include <string.h>

#include "worker/probe/reach.h"

#define LONGEST_MS 5000u /* an agent that ends waits for it */

struct round {
    struct hsp_agent_shell *shell;
    uv_thread_t thread;
    uv_async_t done;
    uint32_t number, within_ms, n;
    char *text; /* owned: addresses, one behind the other */
    const char *address[HSP_REACH_TARGETS];
    enum hsp_reach_answer answer[HSP_REACH_TARGETS];
};

static void on_thread(void *arg)
{
    struct round *r = arg;
    hsp_reach(r->address, r->n, r->within_ms, r->answer);
    (void)uv_async_send(&r->done); /* cannot fail on an open handle */
}

static void on_closed(uv_handle_t *h)
{
    struct round *r = h->data;
    free(r->text);
    free(r);
}

static void on_done(uv_async_t *a)
{
    struct round *r = a->data;
    struct hsp_agent_shell *s = r->shell;
    struct hsp_m_deaf deaf[HSP_REACH_TARGETS];
    struct hsp_msg m = {.type = HSP_MSG_REACHED, .u.reached = {.round = r->number, .deaf = deaf}};
    (void)uv_thread_join(&r->thread);
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->answer[i] != HSP_REACH_YES) {
            deaf[m.u.reached.n_deaf++] = (struct hsp_m_deaf){i, r->answer[i] == HSP_REACH_REFUSED};
        }
    }
    struct hsp_agent_event ev = {.type = HSP_AEV_REACHED, .msg = &m};
    s->n_rounds--;
    hsp_agent_deliver(s, &ev); /* nothing when the shell is ending */
    uv_close((uv_handle_t *)&r->done, on_closed);
}

static bool copy_addresses(struct round *r, const struct hsp_m_reach *m)
{
    size_t bytes = 1;
    for (uint32_t i = 0; i < m->n_targets; i++) {
        bytes += strlen(m->targets[i].address) + 1;
    }
    char *at = r->text = malloc(bytes);
    for (uint32_t i = 0; at != NULL && i < m->n_targets; i++) {
        size_t n = strlen(m->targets[i].address) + 1;
        memcpy(at, m->targets[i].address, n);
        r->address[i] = at;
        at += n;
    }
    return at != NULL;
}

void hsp_agent_reach(struct hsp_agent_shell *s, const struct hsp_m_reach *m)
{
    struct round *r = s->n_rounds < HSP_AGENT_ROUNDS ? calloc(1, sizeof *r) : NULL;
    if (r == NULL || !copy_addresses(r, m)) {
        free(r);
        hsp_log(s->log, HSP_LOG_WARN, "agent",
                "cannot find out which nodes are reached: there is no memory or too much is asked");
        return;
    }
    r->shell = s;
    r->number = m->round;
    r->within_ms = m->within_ms < LONGEST_MS ? m->within_ms : LONGEST_MS;
    r->n = m->n_targets;
    r->done.data = r;
    (void)uv_async_init(&s->loop, &r->done, on_done); /* fails only without its own descriptor */
    s->n_rounds++;
    if (uv_thread_create(&r->thread, on_thread, r) != 0) {
        s->n_rounds--;
        uv_close((uv_handle_t *)&r->done, on_closed);
    }
}
