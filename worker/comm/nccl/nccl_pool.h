/* Keeps the communicators of an executor, in the epochs that use them and between epochs. Inside of
 * worker/comm/nccl.
 *
 * Threads: the list belongs to the threads that prepare and close hsp_comms, one at a time under
 *          the lock. */
#ifndef HSP_NCCL_POOL_H
#define HSP_NCCL_POOL_H
#include "worker/comm/nccl/nccl_comm.h"
#include "worker/comm/nccl/nccl_link.h"

struct hsp_nccl {
    struct hsp_nccl_opts o;
    struct hsp_nccl_lib lib;
    struct hsp_link_env env;
    pthread_mutex_t lock; /* the following */
    struct hsp_link *links;
    uint32_t n_links;
};

/* A list of ranks, and its communicator if it has collectives here. */
struct hsp_nccl_group {
    uint32_t n, me;
    uint32_t *ranks;       /* owned */
    bool asked;            /* reaches is true for it */
    bool taken_over;       /* the link is in use by the epoch that runs */
    struct hsp_link *link; /* NULL: no collectives, or one rank */
};

/* Messages to or from another rank. */
struct hsp_nccl_way {
    uint32_t peer;
    bool out;
    enum hsp_devq lane; /* out */
    bool taken_over;
    struct hsp_link *link; /* two members: the sender is 0 */
};

/* Memory of the device that a message is sent from, or received into when it does not lie in one
 * piece, or that addends are gathered in. */
struct hsp_nccl_stage {
    struct hsp_nccl_stage *next;
    void *data;
    size_t bytes;
    enum hsp_devq q; /* free when its ticket is reached */
    uint64_t ticket;
    bool of_queue; /* only HSP_DEVQ_COMM touches it, in order */
    bool taken;
    bool counted; /* for a message that is rehearsed */
};

/* The memory that rehearsed operations want. */
struct hsp_nccl_wants {
    bool on, failed; /* failed: no memory for the list */
    uint32_t n, cap;
    size_t *sends; /* bytes of each; owned */
    size_t queue;  /* bytes of the largest that HSP_DEVQ_COMM alone touches */
};

/* A message that was posted and not given to the device yet. */
struct hsp_nccl_post {
    struct hsp_comm_req *req; /* NULL: of a send that was not a request */
    struct hsp_runs data;
    size_t bytes;
    const struct hsp_nccl_way *way;
    struct hsp_nccl_stage *stage; /* NULL: the message lies in one piece and is received there */
    struct nccl_comm *handle;
};

struct hsp_nccl_comm {
    struct hsp_comm base; /* first */
    struct hsp_nccl *of;
    struct hsp_comm *mesh;
    uint32_t n_groups, n_ways;
    struct hsp_nccl_group *group;
    struct hsp_nccl_way *way;
    struct hsp_nccl_stage *stages;
    struct hsp_nccl_wants wants;
    bool rehearsed; /* stages are there, as many as there is room for */
    struct hsp_nccl_post *post;
    uint32_t n_posts, cap_posts, n_now; /* the first of them are being given */
    bool batching;
    pthread_mutex_t lock; /* the following */
    struct hsp_err dead;  /* code HSP_OK while alive */
};

/* Removes one user from a link of the pool; waits for the end of a broken link. NULL is fine. */
void hsp_nccl_give_back(struct hsp_nccl *n, struct hsp_link *l);
/* Adds a new link, with one user, to the pool. */
void hsp_nccl_adopt(struct hsp_nccl *n, struct hsp_link *l);
/* Finds a link and adds a user. Returns NULL if the link is not in the pool, or is broken. */
struct hsp_link *hsp_nccl_find(struct hsp_nccl *n, uint64_t key, uint64_t nonce);
/* Ends the links without users. @offer: the offers of @n_ranks ranks; a link is aborted at once if
 * some of its members do not hold it, or do not end it now. @offer NULL: all links are ended in
 * order, as far as their other members take part. */
void hsp_nccl_drop(struct hsp_nccl *n, const struct hsp_nccl_offer *offer, uint32_t n_ranks);
/* Writes the idle links of the pool (hsp_link_quiet) into held and n_held of the offer @ret.
 * @running: also lists the links that an epoch uses, marked as in use. */
enum hsp_status hsp_nccl_tell_held(struct hsp_nccl *n, bool running, struct hsp_nccl_offer *ret,
                                   struct hsp_err *err);

static inline struct hsp_nccl_comm *hsp_nccl_of(struct hsp_comm *c)
{
    return (struct hsp_nccl_comm *)c;
}

static inline struct hsp_backend *hsp_nccl_backend_of(const struct hsp_nccl_comm *c)
{
    return c->of->o.backend;
}

/* Opens the NCCL of an executor. HSP_EUNSUPPORTED: no NCCL, with the reason; HSP_ENOMEM, also of
 * the device; its errors. */
enum hsp_status hsp_nccl_open(const struct hsp_nccl_opts *o, struct hsp_nccl **ret,
                              struct hsp_err *err);
/* Ends the communicators that remain, and frees the pool. NULL is fine; returns NULL. */
struct hsp_nccl *hsp_nccl_close(struct hsp_nccl *n);
int hsp_nccl_version(const struct hsp_nccl *n);
/* As patience_ms of the options, from now on. Any thread. */
void hsp_nccl_patience(struct hsp_nccl *n, uint32_t ms);
uint32_t hsp_nccl_count(struct hsp_nccl *n); /* communicators held */

#endif
