#include "worker/comm/nccl/nccl_pool.h"

#include <stdlib.h>

#include "worker/comm/nccl/nccl_agree.h"
#include "worker/comm/nccl/nccl_end.h"

#define PATIENCE_MS 1000
/* Collectives of this size are limited by bandwidth, as all larger ones are. */
#define GREETING_BYTES ((size_t)8 << 20)

/* Allocates and zeroes the memory of greetings now: beside running work it would wait for it. */
static enum hsp_status open_greeting(struct hsp_nccl *n, struct hsp_err *err)
{
    struct hsp_backend *b = n->o.backend;
    struct hsp_link_env *e = &n->env;
    uint64_t ticket = 0;
    e->greeting_bytes = n->o.greeting_bytes > 0 ? n->o.greeting_bytes : GREETING_BYTES;
    enum hsp_status st = b->alloc(b, HSP_MEM_DEVICE, e->greeting_bytes, &e->greeting, err);
    if (st == HSP_OK) {
        st = b->fill(b, HSP_DEVQ_GREET, HSP_F32, e->greeting, 0.0, (int64_t)e->greeting_bytes / 4,
                     err);
    }
    st = st == HSP_OK ? b->mark(b, HSP_DEVQ_GREET, &ticket, err) : st;
    return st == HSP_OK ? b->finish(b, HSP_DEVQ_GREET, ticket, err) : st;
}

/* Frees the memory of greetings. No link is left: the kernels of the last greeting have ended, or
 * were aborted, and the queue runs empty. */
static void close_greeting(struct hsp_nccl *n)
{
    struct hsp_backend *b = n->o.backend;
    uint64_t ticket = 0;
    if (n->env.greeting != NULL && b->mark(b, HSP_DEVQ_GREET, &ticket, NULL) == HSP_OK) {
        (void)b->finish(b, HSP_DEVQ_GREET, ticket, NULL); /* a device that is lost uses nothing */
    }
    b->release(b, HSP_MEM_DEVICE, n->env.greeting);
}

enum hsp_status hsp_nccl_open(const struct hsp_nccl_opts *o, struct hsp_nccl **ret,
                              struct hsp_err *err)
{
    struct hsp_nccl *n = calloc(1, sizeof *n);
    if (n == NULL) {
        return hsp_err_nomem(err, "NCCL");
    }
    enum hsp_status st = hsp_nccl_lib_open(o->library, &n->lib, err);
    if (st != HSP_OK) {
        free(n);
        return st;
    }
    n->o = *o;
    n->env =
        (struct hsp_link_env){.lib = &n->lib,
                              .backend = o->backend,
                              .patience_ms = o->patience_ms > 0 ? o->patience_ms : PATIENCE_MS};
    (void)pthread_mutex_init(&n->lock, NULL); /* of the default kind it cannot fail */
    st = open_greeting(n, err);
    if (st != HSP_OK) {
        (void)hsp_nccl_close(n);
        return st;
    }
    *ret = n;
    return HSP_OK;
}

struct hsp_nccl *hsp_nccl_close(struct hsp_nccl *n)
{
    if (n == NULL) {
        return NULL;
    }
    hsp_nccl_drop(n, NULL, 0);
    close_greeting(n);
    (void)pthread_mutex_destroy(&n->lock);
    hsp_nccl_lib_close(&n->lib);
    free(n);
    return NULL;
}

int hsp_nccl_version(const struct hsp_nccl *n)
{
    return n->lib.version;
}

void hsp_nccl_patience(struct hsp_nccl *n, uint32_t ms)
{
    atomic_store(&n->env.patience_ms, ms);
}

uint32_t hsp_nccl_count(struct hsp_nccl *n)
{
    (void)pthread_mutex_lock(&n->lock);
    uint32_t count = n->n_links;
    (void)pthread_mutex_unlock(&n->lock);
    return count;
}

/* ---- links ---- */

static bool broken(struct hsp_link *l)
{
    enum hsp_status st = hsp_link_state(l, NULL);
    return st != HSP_OK && st != HSP_AGAIN;
}

/* The lock is held. */
static void unlink_one(struct hsp_nccl *n, struct hsp_link *l)
{
    struct hsp_link **at = &n->links;
    while (*at != l) {
        at = &(*at)->next;
    }
    *at = l->next;
    n->n_links--;
}

void hsp_nccl_give_back(struct hsp_nccl *n, struct hsp_link *l)
{
    if (l == NULL) {
        return;
    }
    if (broken(l)) {
        (void)hsp_link_await(l);
    }
    (void)pthread_mutex_lock(&n->lock);
    bool last = --l->users == 0 && (broken(l) || hsp_link_state(l, NULL) == HSP_AGAIN);
    if (last) {
        unlink_one(n, l);
    }
    (void)pthread_mutex_unlock(&n->lock);
    if (last) {
        (void)hsp_link_close(l);
    }
}

void hsp_nccl_adopt(struct hsp_nccl *n, struct hsp_link *l)
{
    (void)pthread_mutex_lock(&n->lock);
    l->next = n->links;
    l->users = 1;
    n->links = l;
    n->n_links++;
    (void)pthread_mutex_unlock(&n->lock);
}

struct hsp_link *hsp_nccl_find(struct hsp_nccl *n, uint64_t key, uint64_t nonce)
{
    (void)pthread_mutex_lock(&n->lock);
    struct hsp_link *l = n->links;
    while (l != NULL && (l->key != key || l->nonce != nonce || broken(l))) {
        l = l->next;
    }
    if (l != NULL) {
        l->users++;
    }
    (void)pthread_mutex_unlock(&n->lock);
    return l;
}

/* Returns true if all members of a link are here and hold it with the same past: then all of them
 * end it now. A member that does not come holds up the end, and since NCCL 2.31 for ever. */
static bool all_end_it(const struct hsp_link *l, const struct hsp_nccl_offer *offer,
                       uint32_t n_ranks)
{
    uint32_t *ranks = offer != NULL ? calloc(l->n, sizeof *ranks) : NULL;
    bool all = offer == NULL ||
               (ranks != NULL && hsp_nccl_ranks_here(offer, n_ranks, l->process, l->n, ranks) &&
                hsp_nccl_kept(offer, ranks, l->n, l->key) == l->nonce);
    free(ranks);
    return all;
}

void hsp_nccl_drop(struct hsp_nccl *n, const struct hsp_nccl_offer *offer, uint32_t n_ranks)
{
    struct hsp_err why = {0};
    struct hsp_link *dropped = NULL;
    struct hsp_link_crew *lost = hsp_crew_open(&n->lib);
    (void)hsp_err_set(&why, HSP_EPEER, 0, "a member of the communicator has gone");
    (void)pthread_mutex_lock(&n->lock);
    for (struct hsp_link *l = n->links, *next; l != NULL; l = next) {
        next = l->next;
        if (l->users == 0) {
            unlink_one(n, l);
            l->next = dropped;
            dropped = l;
        }
    }
    (void)pthread_mutex_unlock(&n->lock);
    for (struct hsp_link *l = dropped; l != NULL; l = l->next) {
        if (all_end_it(l, offer, n_ranks)) {
            hsp_link_part(l);
        } else {
            hsp_crew_add(lost, l, &why);
        }
    }
    hsp_crew_abort(lost);
    while (dropped != NULL) {
        struct hsp_link *next = dropped->next;
        (void)hsp_link_close(dropped);
        dropped = next;
    }
}

/* ---- offers ---- */

enum hsp_status hsp_nccl_tell_held(struct hsp_nccl *n, bool running, struct hsp_nccl_offer *ret,
                                   struct hsp_err *err)
{
    (void)pthread_mutex_lock(&n->lock);
    ret->held = calloc((size_t)n->n_links + 1, sizeof *ret->held);
    ret->n_held = 0;
    for (struct hsp_link *l = n->links; l != NULL && ret->held != NULL; l = l->next) {
        bool in_use = running && l->users > 0;
        if (ret->n_held < HSP_NCCL_MAX_HELD && (in_use ? !broken(l) : hsp_link_quiet(l))) {
            ret->held[ret->n_held++] = (struct hsp_nccl_held){
                .key = l->key, .nonce = l->nonce, .ops = hsp_link_ops(l), .in_use = in_use};
        }
    }
    (void)pthread_mutex_unlock(&n->lock);
    return ret->held != NULL ? HSP_OK : hsp_err_nomem(err, "an offer");
}
