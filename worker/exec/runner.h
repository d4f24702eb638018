/* Inside of the engine, shared by its files only. */
#ifndef HSP_RUNNER_H
#define HSP_RUNNER_H
#include <pthread.h>

#include "worker/exec/engine.h"
#include "worker/exec/pace.h"

/* A buffer that grows to what is asked of it. */
struct hsp_pack {
    void *data; /* owned, aligned to 64 */
    size_t bytes;
};

enum hsp_run_state { HSP_RUN_IDLE, HSP_RUN_GO, HSP_RUN_QUIT };

struct hsp_engine {
    struct hsp_engine_opts o;
    const struct hsp_program *program; /* the running one of the pool, its parts: */
    const struct hsp_template *t;
    const struct hsp_binding *b;
    struct hsp_corpus corpus;
    uint8_t *memory; /* of the epoch, mapped; all programs use it, one at a time */
    int64_t memory_bytes;
    uint8_t *host; /* the same of the host's memory: tensors of class HOST */
    int64_t host_bytes;
    struct hsp_arena *arena;    /* sheets of the running step */
    struct hsp_pack send, recv; /* used by the thread of the comm queue */
    struct hsp_pack local;      /* used by the compute thread */

    /* the running step; constant while the queues run */
    uint64_t step;
    bool eval;
    const struct hsp_sched *sched;
    struct hsp_sheet sheet;
    double stat[HSP_N_QUEUES][HSP_N_STATS]; /* each written by its queue's thread */
    struct hsp_vote vote;                   /* valid after the VOTE instruction */
    bool voted;
    uint32_t n_noop;

    struct hsp_pace pace;
    _Atomic int64_t compute_ns, wait_ns, comm_ns; /* of the step */
    int64_t voted_ns;                             /* compute_ns when this step voted */
    int64_t late_ns; /* what the step before it still computed after its vote: the update */
    uint64_t comm_bytes;

    pthread_t comm_thread;
    pthread_mutex_t lock; /* the following */
    pthread_cond_t cond;
    enum hsp_run_state state;    /* of the comm thread */
    uint32_t done[HSP_N_QUEUES]; /* entries complete in the running schedule */
    struct hsp_err failure;      /* the first one; code HSP_OK: none */
    atomic_int stop;             /* set with failure or by abort; read without the lock */
};

/* One entry of a queue, all its instructions. interp.c */
enum hsp_status hsp_run_piece(struct hsp_engine *e, const struct hsp_sched_entry *entry,
                              enum hsp_queue q, struct hsp_err *err);

/* A Reshard instruction. moves.c */
enum hsp_status hsp_run_reshard(struct hsp_engine *e, const struct hsp_instr *i, uint32_t micro,
                                struct hsp_err *err);

/* The VOTE instruction: fills e->vote. voting.c */
enum hsp_status hsp_run_vote(struct hsp_engine *e, struct hsp_err *err);

/* Operand of an instruction of the running step: state is read at version t, written at t + 1. */
struct hsp_view hsp_operand(const struct hsp_engine *e, uint32_t tensor, uint32_t micro,
                            bool output);

/* NULL without memory; contents are lost on growth. */
void *hsp_pack_get(struct hsp_pack *p, size_t bytes);

#endif
