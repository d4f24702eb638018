/* Defines the orders and questions of a test. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fakenccl/fakencclint.h"

/* A thread that its link has left behind may be in a call still: it comes out before the memory
 * goes. */
static void empty(void)
{
    memset(fake_test.dead, 0, sizeof fake_test.dead);
    fake_test.lets_go = true;
    fake.resets = true;
    (void)pthread_cond_broadcast(&fake.cond);
    for (struct nccl_comm *c = fake.comms; c != NULL; c = c->next) {
        if (!c->gone) {
            fake_withdraw(c);
            fake_end(c);
        }
    }
    while (fake.n_inside > 0) {
        (void)pthread_cond_wait(&fake.cond, &fake.lock);
    }
    fake.resets = false;
}

static void reset(uint64_t seed, int version)
{
    (void)pthread_mutex_lock(&fake.lock);
    empty();
    while (fake.comms != NULL) {
        struct nccl_comm *c = fake.comms;
        fake.comms = c->next;
        free(c->n_sent);
        free(c->asked);
        free(c);
    }
    while (fake.cliques != NULL) {
        struct clique *q = fake.cliques;
        fake.cliques = q->next;
        fake_meets_free(q);
        fake_partings_free(q);
        free(q->member);
        free(q);
    }
    unsigned ids = fake_test.n_ids;
    memset(&fake_test, 0, sizeof fake_test);
    fake_test.n_ids = ids;
    fake.seed = seed;
    fake.version = version != 0 ? version : FAKE_NEWEST;
    fake.drawn = 0;
    fake.n_streams = 0;
    fake.submit = NULL;
    fake.touch = NULL;
    fake.announce = NULL;
    (void)pthread_mutex_unlock(&fake.lock);
}

static void enter(int p)
{
    fake_process = p;
}

static void set_order(struct fake_order *o, const char *name, unsigned nth, int result)
{
    (void)pthread_mutex_lock(&fake.lock);
    *o = (struct fake_order){name, nth, result};
    (void)pthread_mutex_unlock(&fake.lock);
}

static void refuse(const char *name, unsigned nth, int result)
{
    set_order(&fake_test.fail, name, nth, result);
}

static void hang(const char *name, unsigned nth)
{
    set_order(&fake_test.hang, name, nth, 0);
}

static void die(int p, unsigned nth)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake_test.die[p] = nth;
    (void)pthread_mutex_unlock(&fake.lock);
}

static bool is_dead(int p)
{
    (void)pthread_mutex_lock(&fake.lock);
    bool dead = fake_test.dead[p];
    (void)pthread_mutex_unlock(&fake.lock);
    return dead;
}

static void revive(int p)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake_test.dead[p] = false;
    fake_test.die[p] = 0;
    (void)pthread_cond_broadcast(&fake.cond);
    (void)pthread_mutex_unlock(&fake.lock);
}

static void spoil(int p, int result)
{
    (void)pthread_mutex_lock(&fake.lock);
    for (struct nccl_comm *c = fake.comms; c != NULL; c = c->next) {
        c->error = c->process == p && !c->gone ? (enum nccl_result)result : c->error;
    }
    (void)pthread_mutex_unlock(&fake.lock);
}

static unsigned calls(const char *name)
{
    unsigned n = 0;
    (void)pthread_mutex_lock(&fake.lock);
    for (unsigned k = 0; k < fake_test.n_names; k++) {
        n += name == NULL || strcmp(fake_test.call[k].name, name) == 0 ? fake_test.call[k].n : 0;
    }
    (void)pthread_mutex_unlock(&fake.lock);
    return n;
}

static unsigned calls_of(int p)
{
    (void)pthread_mutex_lock(&fake.lock);
    unsigned n = fake_test.n_calls_of[p];
    (void)pthread_mutex_unlock(&fake.lock);
    return n;
}

static unsigned hung(void)
{
    (void)pthread_mutex_lock(&fake.lock);
    unsigned n = fake_test.n_hung;
    (void)pthread_mutex_unlock(&fake.lock);
    return n;
}

static unsigned grouped(void)
{
    (void)pthread_mutex_lock(&fake.lock);
    unsigned n = fake_test.n_grouped;
    (void)pthread_mutex_unlock(&fake.lock);
    return n;
}

static void let_go(void)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake_test.lets_go = true;
    (void)pthread_cond_broadcast(&fake.cond);
    (void)pthread_mutex_unlock(&fake.lock);
}

static unsigned alive(void)
{
    unsigned n = 0;
    (void)pthread_mutex_lock(&fake.lock);
    for (struct nccl_comm *c = fake.comms; c != NULL; c = c->next) {
        n += !c->gone;
    }
    (void)pthread_mutex_unlock(&fake.lock);
    return n;
}

static unsigned misuses(void)
{
    (void)pthread_mutex_lock(&fake.lock);
    unsigned n = fake_test.n_misuses;
    (void)pthread_mutex_unlock(&fake.lock);
    return n;
}

static const char *misuse(unsigned i)
{
    return i < misuses() && i < FAKE_MISUSES ? fake_test.misuse[i] : NULL;
}

static void work(const void *stream, uint64_t *ret_given, uint64_t *ret_done)
{
    (void)pthread_mutex_lock(&fake.lock);
    const struct stream *s = fake_stream(stream);
    *ret_given = s->given;
    *ret_done = s->done;
    (void)pthread_mutex_unlock(&fake.lock);
}

static void set_streams(void (*submit)(void *stream, const struct hsp_fakenccl_work *w),
                        void (*touch)(const void *p, size_t bytes, bool write))
{
    fake.submit = submit;
    fake.touch = touch;
}

static void set_announce(void *(*announce)(void *stream, const void *p, size_t bytes, bool write))
{
    fake.announce = announce;
}

__attribute__((visibility("default"))) extern const struct hsp_fakenccl hsp_fakenccl;
const struct hsp_fakenccl hsp_fakenccl = {.reset = reset,
                                          .enter = enter,
                                          .refuse = refuse,
                                          .hang = hang,
                                          .die = die,
                                          .is_dead = is_dead,
                                          .revive = revive,
                                          .spoil = spoil,
                                          .calls = calls,
                                          .calls_of = calls_of,
                                          .hung = hung,
                                          .grouped = grouped,
                                          .let_go = let_go,
                                          .alive = alive,
                                          .misuses = misuses,
                                          .misuse = misuse,
                                          .work = work,
                                          .set_streams = set_streams,
                                          .set_announce = set_announce};
