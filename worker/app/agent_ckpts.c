/* Lists checkpoints on a thread. The happy path: the thread lists the folder, puts its answer into
 * the box and wakes the loop, which tells hspmdd.
 *
 * Possible failure modes: a file system that hangs (hspmdd waits no longer than its time; the
 * thread keeps one of HSP_AGENT_LISTS places); the shell ends first (the last thread frees the
 * box). */
#include "worker/app/agent_ckpts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/state/ckpt_found.h"

/* A list under way, then its answer. */
struct list {
    struct list *next;
    struct hsp_agent_ckpts *box;
    char dir[HSP_PATH_MAX + HSP_NAME_MAX + 2];
    struct hsp_ckpts_asked asked;
    uint64_t on_record[HSP_SEEN_CKPTS]; /* of `asked` */
    uint64_t number;
    enum hsp_status st;
    struct hsp_err err;
    struct hsp_ckpts_found found; /* owned */
};

struct hsp_agent_ckpts {
    pthread_mutex_t lock;
    struct hsp_agent_shell *shell;
    uv_async_t wake;
    bool closed;       /* the loop is not to be woken */
    bool left;         /* the loop has left the box to the threads */
    unsigned n;        /* threads */
    struct list *done; /* answers that wait for the loop */
};

static void list_free(struct list *l)
{
    free(l->found.item);
    free(l);
}

static void box_free(struct hsp_agent_ckpts *b)
{
    while (b->done != NULL) {
        struct list *next = b->done->next;
        list_free(b->done);
        b->done = next;
    }
    (void)pthread_mutex_destroy(&b->lock);
    free(b);
}

static void *on_thread(void *arg)
{
    struct list *l = arg;
    struct hsp_agent_ckpts *b = l->box;
    l->st = hsp_ckpt_find_all(l->dir, &l->asked, &l->found, &l->err);
    (void)pthread_mutex_lock(&b->lock);
    l->next = b->done;
    b->done = l;
    b->n--;
    bool last = b->left && b->n == 0;
    if (!b->closed) {
        (void)uv_async_send(&b->wake); /* cannot fail on an open handle */
    }
    (void)pthread_mutex_unlock(&b->lock);
    if (last) {
        box_free(b);
    }
    return NULL;
}

static void tell(struct hsp_agent_shell *s, const struct list *l)
{
    struct hsp_m_seen seen[HSP_SEEN_CKPTS];
    for (size_t i = 0; i < l->found.n; i++) {
        const struct hsp_ckpt_found *f = &l->found.item[i];
        seen[i] = (struct hsp_m_seen){f->step, f->term, f->epoch, f->content};
    }
    struct hsp_msg m = {.type = HSP_MSG_CKPTS,
                        .u.ckpts = {.job = l->asked.us.job_id,
                                    .number = l->number,
                                    .name = "",
                                    .path = "",
                                    .n_seen = (uint32_t)l->found.n,
                                    .seen = seen,
                                    .absent = l->st == HSP_OK && l->found.absent,
                                    .damaged = l->found.damage.msg,
                                    .reason = l->st == HSP_OK ? l->found.unread.msg : l->err.msg}};
    struct hsp_agent_event ev = {.type = HSP_AEV_CKPTS, .msg = &m};
    hsp_agent_deliver(s, &ev); /* nothing when the shell is ending */
}

static void on_wake(uv_async_t *a)
{
    struct hsp_agent_ckpts *b = a->data;
    (void)pthread_mutex_lock(&b->lock);
    struct list *l = b->done, *next;
    b->done = NULL;
    (void)pthread_mutex_unlock(&b->lock);
    for (; l != NULL; l = next) {
        next = l->next;
        tell(b->shell, l);
        list_free(l);
    }
}

/* NULL: there is no memory. */
static struct hsp_agent_ckpts *box_of(struct hsp_agent_shell *s)
{
    struct hsp_agent_ckpts *b = s->ckpts != NULL ? s->ckpts : calloc(1, sizeof *b);
    if (s->ckpts == NULL && b != NULL) {
        b->shell = s;
        b->wake.data = b;
        (void)pthread_mutex_init(&b->lock, NULL); /* of the default kind: cannot fail */
        (void)uv_async_init(&s->loop, &b->wake,
                            on_wake); /* fails only without its own descriptor */
        s->ckpts = b;
    }
    return b;
}

/* The question of @m. */
static void ask_for(struct list *l, const struct hsp_m_ckpts *m)
{
    struct hsp_ckpts_asked *q = &l->asked;
    l->number = m->number;
    q->us.job_id = m->job;
    q->us.whose.cluster = m->cluster;
    (void)snprintf(q->us.job, sizeof q->us.job, "%s", m->name);
    (void)snprintf(l->dir, sizeof l->dir, "%s/%s", m->path, m->name);
    for (uint32_t i = 0; i < m->n_seen && i < HSP_SEEN_CKPTS; i++) {
        l->on_record[q->n++] = m->seen[i].step;
    }
    q->step = l->on_record;
    q->max = HSP_SEEN_CKPTS;
}

/* Returns false if no thread could be started; l->err says why. */
static bool begin(struct hsp_agent_ckpts *b, struct list *l)
{
    pthread_attr_t attr;
    pthread_t thread;
    int e = pthread_attr_init(&attr);
    bool full = false;
    if (e == 0) {
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED); /* a valid state */
        (void)pthread_mutex_lock(&b->lock);
        full = b->n == HSP_AGENT_LISTS;
        e = full ? 0 : pthread_create(&thread, &attr, on_thread, l);
        b->n += !full && e == 0;
        (void)pthread_mutex_unlock(&b->lock);
        (void)pthread_attr_destroy(&attr);
    }
    if (full) {
        l->st = hsp_err_set(&l->err, HSP_ELIMIT, 0,
                            "%u lists of checkpoints are under way on this node: does the file "
                            "system of checkpoint.path hang?",
                            HSP_AGENT_LISTS);
    } else if (e != 0) {
        l->st = hsp_err_set(&l->err, HSP_ENOMEM, e, "cannot list checkpoints: no thread");
    }
    return !full && e == 0;
}

void hsp_agent_find_ckpts(struct hsp_agent_shell *s, const struct hsp_m_ckpts *m)
{
    struct hsp_agent_ckpts *b = box_of(s);
    struct list *l = b != NULL ? calloc(1, sizeof *l) : NULL;
    if (l == NULL) {
        hsp_log(s->log, HSP_LOG_WARN, "agent", "cannot list checkpoints: out of memory");
        return;
    }
    l->box = b;
    ask_for(l, m);
    if (!begin(b, l)) {
        (void)pthread_mutex_lock(&b->lock); /* told by the loop: this is inside an action */
        l->next = b->done;
        b->done = l;
        (void)pthread_mutex_unlock(&b->lock);
        (void)uv_async_send(&b->wake);
    }
}

static void on_closed(uv_handle_t *h)
{
    struct hsp_agent_ckpts *b = h->data;
    (void)pthread_mutex_lock(&b->lock);
    b->left = true;
    bool last = b->n == 0;
    (void)pthread_mutex_unlock(&b->lock);
    if (last) {
        box_free(b);
    }
}

void hsp_agent_ckpts_close(struct hsp_agent_shell *s)
{
    if (s->ckpts != NULL) {
        (void)pthread_mutex_lock(&s->ckpts->lock);
        s->ckpts->closed = true;
        (void)pthread_mutex_unlock(&s->ckpts->lock);
        uv_close((uv_handle_t *)&s->ckpts->wake, on_closed);
        s->ckpts = NULL;
    }
}
