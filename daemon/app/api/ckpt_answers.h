/* Chooses the nodes that are asked for the checkpoints of a job that they see on disk, and keeps
 * their answers.
 *
 * Example:   checkpoint.path of mist is shared, and 20 nodes compute. Asked first are 8: c and d,
 *            which have run it, then a, b and others. None sees any, so the other 12 are asked too:
 *            the folder may be mounted there alone. e lists steps 40 and 60; f does not answer,
 *            which holds nobody up.
 * Purity:    pure (heap only).
 * Ownership: the caller's storage; begin and free.
 * Bounds:    SHARED_NODES nodes at first where the path is shared, else all that compute;
 *            HSP_SEEN_MOST checkpoints of all nodes together. */
#ifndef HSP_CKPT_ANSWERS_H
#define HSP_CKPT_ANSWERS_H
#include "daemon/cluster/cluster.h"
#include "proto/base/buf.h"

#define HSP_SEEN_MOST 65536u
#define HSP_LIST_MAX  (8u << 20) /* bytes of the lines */

struct hsp_ckpt_asked;

struct hsp_ckpt_answers {
    uint32_t n_asked, n_left, cap_asked;
    struct hsp_ckpt_asked *asked; /* owned */
    uint32_t n_seen;
    uint32_t n_others; /* behind those: not believed */
    size_t cap_seen, cap_by;
    struct hsp_m_seen *seen; /* owned */
    uint32_t *by;            /* owned: which of asked has seen it */
    char damaged[256];       /* a newer one, as a node says; "" none */
    bool shared;             /* checkpoint.path is; */
    bool path_seen;          /* and a node has looked there, */
    bool own_seen;           /* and one that has executed the job */
    bool known;              /* the executing nodes are on record */
    bool any;   /* else any node of the store may have, also one that is not connected */
    bool begun; /* a node shows that the job has begun */
    bool mute;  /* a node that matters has an agent too old to be asked; */
    bool old;   /* any has */
};

/* False: no memory. */
bool hsp_ckpt_answers_begin(struct hsp_ckpt_answers *x, const struct hsp_cluster *c);
void hsp_ckpt_answers_free(struct hsp_ckpt_answers *x);
/* Chooses nodes that were not asked before; at first, or when all have answered that will. They are
 * the last ones from then on, with those that matter (ckpt_look.h) and cannot be asked: agents that
 * are too old, nodes that are not connected. Returns how many are to be
 * asked. 0: nobody is left, or nobody needs to be. */
uint32_t hsp_ckpt_answers_choose(struct hsp_ckpt_answers *x, const struct hsp_cluster *c,
                                 const struct hsp_job *j);
/* The connection of the @i-th; 0: it has answered, is gone or too old. */
uint32_t hsp_ckpt_answers_conn(const struct hsp_ckpt_answers *x, uint32_t i);
/* @conn has answered @m. False: it was not asked, or has answered before. */
bool hsp_ckpt_answers_take(struct hsp_ckpt_answers *x, uint32_t conn, const struct hsp_m_ckpts *m);
/* @conn has closed. False: it was not asked, or has answered before. */
bool hsp_ckpt_answers_gone(struct hsp_ckpt_answers *x, uint32_t conn);
/* Moves the checkpoints with which @j may begin unasked to the front (ckpt_look.h): those of nodes
 * that matter, those of others where none of these can look, and the one on record. The others
 * become n_others, and are told as a fault. At the end, once. */
void hsp_ckpt_answers_believe(struct hsp_ckpt_answers *x, const struct hsp_job *j);
/* Writes which nodes could not look, and why, to the @size bytes at @ret: as many as there is room
 * for, those that matter first. "": all that were asked have answered. */
void hsp_ckpt_answers_fault(const struct hsp_ckpt_answers *x, char *ret, size_t size);
/* Which of those that could not look is the gravest. */
enum hsp_ckpt_lack hsp_ckpt_answers_lack(const struct hsp_ckpt_answers *x);

struct hsp_ckpt_lines { /* of the list, in the form of the feed's */
    const char *job;
    uint32_t id;
    uint64_t seq;
    int64_t unix_ms;
    const struct hsp_job *of; /* whose cuts list the steps given up */
};
/* Appends a line for each checkpoint, the newest first, with the nodes that see it, and whether it
 * was given up, as many as fit into HSP_LIST_MAX; then one on the lines left out, and one of nodes
 * that could not look. False: no memory. */
bool hsp_ckpt_answers_list(const struct hsp_ckpt_answers *x, const struct hsp_ckpt_lines *l,
                           struct hsp_buf *out);

#endif
