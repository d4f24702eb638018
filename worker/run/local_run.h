/* Runs all ranks of one plan as threads of this process, over comm/loop.
 *
 * Role:      under --run and --verify.
 * Threads:   hsp_local_run blocks; hooks and on_step run on threads of the ranks.
 * Ownership: programs and data set are borrowed; state memory, engines and backends are owned.
 */
#ifndef HSP_LOCAL_RUN_H
#define HSP_LOCAL_RUN_H
#include "worker/exec/engine.h"
#include "worker/exec/state_init.h"

/* Opens the backend of @rank; a backend that computes on the host gets @threads threads. */
typedef enum hsp_status (*hsp_open_backend)(void *ctx, uint32_t rank, int threads,
                                            struct hsp_backend **ret, struct hsp_err *err);

/* Returns a hash of the identity of the GPU of @rank (worker/backend/plugin.h), 0 if it has no
 * GPU. */
typedef uint64_t (*hsp_gpu_identity)(void *ctx, uint32_t rank);

struct hsp_local_opts {
    uint32_t n;
    const struct hsp_program *programs; /* by rank */
    const struct hsp_program *shorter;  /* [n_shorter * n], of a pool */
    uint32_t n_shorter;                 /* <= HSP_MAX_POOL */
    const struct hsp_dataset *dataset;
    const struct hsp_st_reader *init; /* parameters to begin with; NULL: drawn */
    int threads;                      /* of each rank's backend */
    hsp_open_backend open;            /* NULL: the CPU's */
    hsp_gpu_identity gpu; /* NULL: no rank has a GPU; else messages between ranks of different ones
                             go by NCCL where it is */
    const char *nccl;     /* the library, for tests; NULL: libnccl.so.2 */
    void *open_ctx;       /* of open and gpu */
    void *ctx;            /* of the two below; both may be NULL */
    struct hsp_engine_hooks (*hooks)(void *ctx, uint32_t rank);
    /* After each step of @rank. */
    enum hsp_status (*on_step)(void *ctx, uint32_t rank, const struct hsp_step_result *r,
                               struct hsp_err *err);
};

struct hsp_local; /* opaque */

/* The state is version 0 on return. */
enum hsp_status hsp_local_open(const struct hsp_local_opts *o, struct hsp_local **ret,
                               struct hsp_err *err);
/* Runs the steps [from, to). Returns the first error of any rank, which also ends the other
 * ranks. */
enum hsp_status hsp_local_run(struct hsp_local *l, uint64_t from, uint64_t to, struct hsp_err *err);
struct hsp_local *hsp_local_close(struct hsp_local *l); /* NULL is fine; returns NULL */

/* Of the host: the state when hsp_local_run returned last, or the open; NULL of a rank that is not
 * open. Not for hooks. */
void *hsp_local_state(const struct hsp_local *l, uint32_t rank);
/* Takes over state that the caller has written to hsp_local_state between two runs. Errors of the
 * backend. */
enum hsp_status hsp_local_put(struct hsp_local *l, uint32_t rank, struct hsp_err *err);
/* For hooks: valid once the run began. */
struct hsp_engine *hsp_local_engine(const struct hsp_local *l, uint32_t rank);

/* Opens the data set of a program file: the files of its data path, or synthetic data if the path
 * is empty. */
enum hsp_status hsp_local_dataset(const struct hsp_program_file *f, struct hsp_dataset *ret,
                                  struct hsp_err *err);

#endif
