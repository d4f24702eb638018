/* Runs a tiny program on some ranks in this process, over the loop transport, on CPUs or on devices
 * that do their work late (tests/lib/mockdev.h). */
#ifndef HSP_ENGINE_WORLD_H
#define HSP_ENGINE_WORLD_H
#include <pthread.h>
#include <stdatomic.h>

#include "tests/lib/mockdev.h"
#include "tests/lib/testlib.h"
#include "tests/unit/worker/exec/tiny_program.h"
#include "worker/exec/engine.h"
#include "worker/exec/record.h"

enum { EW_STEPS = 32, EW_RANKS = 4 };

extern const struct tiny_spec ew_spec; /* one rank, fp64 */

enum { EW_STATES = 16 };

/* The report of the engine about a version (hsp_written), with one element for each state
 * tensor. */
struct ew_seen {
    bool noop, loaded;
    bool summed, compared, hashed, first; /* which of the arrays below were reported */
    struct hsp_state_sums sums[EW_STATES], before[EW_STATES];
    uint64_t hash[EW_STATES], of_first[EW_STATES];
};

/* One rank of a run. */
struct ew_device {
    struct hsp_program *program;
    struct hsp_comm *comm;
    struct hsp_engine *engine;
    struct hsp_backend *backend;
    void *place; /* the state in memory of the backend */
    void *state; /* a copy of the state, which the test reads and writes while no step runs */
    pthread_t thread;
    struct hsp_engine_hooks hooks;
    uint32_t steps, done;
    enum hsp_status status;
    struct hsp_err err;
    struct hsp_step_result result[EW_STEPS];
    /* written or read by the hooks */
    uint64_t arm_at, sealed, stable, switch_at;
    uint64_t passed;       /* number of votes that have passed */
    uint64_t abort_behind; /* the rank aborts after this number of votes; 0: never */
    uint32_t skip;         /* steps, a bit each, whose loss is made NAN */
    uint32_t unwatched;    /* steps, a bit each, whose updates are not watched */
    uint32_t hashed;       /* steps, a bit each, whose updates hash their result */
    struct ew_seen *seen;  /* report about each version; NULL: not stored */
    uint32_t record, cap;  /* the first vote asks for a recording of so many steps and spans */
    struct hsp_recording *recording;
};

struct ew_world {
    struct hsp_arena *arena;
    struct hsp_dataset text;
    uint32_t n;
    struct ew_device d[EW_RANKS];
};

/* ---- settings of all worlds that are made from now on ---- */

extern bool ew_on_device; /* worlds run on devices, else on CPUs */
/* number of the work at which the device opened next fails; 0: it does not fail */
extern uint64_t ew_fail_at;
extern uint32_t ew_skip; /* ew_run: `skip` of rank 0 */
/* CPUs compute the gradient of a product and add it to its sum in one call. ew_n_sums counts the
 * calls that add to a sum, ew_n_begun the calls that begin a sum. */
extern bool ew_sums;
extern atomic_int ew_n_sums, ew_n_begun;
/* True: the job computes in tf32. CPUs check that the flag tf32 of each call is equal to this
 * variable; ew_n_told counts the calls of linear among them. */
extern bool ew_in_tf32;
extern atomic_int ew_n_told;

struct ew_world *ew_new(const struct tiny_spec *s, uint32_t steps);
/* starts the ranks; the states are in the devices' memory already */
void ew_go(struct ew_world *w);
void ew_start(struct ew_world *w); /* copies the states to the devices, and starts the ranks */
void ew_join(struct ew_world *w);  /* waits for all ranks, and copies the states back */
void ew_free(struct ew_world *w);
struct ew_world *ew_run(const struct tiny_spec *s, uint32_t steps); /* runs all steps and joins */

/* Copies the state between d->state and the backend's memory. */
void ew_copy_state(struct ew_device *d, bool to_device);
/* Returns the largest difference of two states, whose tensors are all fp64. */
double ew_state_difference(const struct ew_device *a, const struct ew_device *b);

#endif
