/* A tiny program that runs on each of some ranks in this process, over the loop transport, on CPUs
 * or on devices that do their work late (tests/lib/mockdev.h). */
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

/* The report of the engine about a version, for each state tensor. */
struct ew_seen {
    bool noop, loaded;
    bool summed, compared, hashed, first; /* the following are there */
    struct hsp_state_sums sums[EW_STATES], before[EW_STATES];
    uint64_t hash[EW_STATES], of_first[EW_STATES];
};

/* One rank of a run. */
struct ew_device {
    struct hsp_program *program;
    struct hsp_comm *comm;
    struct hsp_engine *engine;
    struct hsp_backend *backend;
    void *place; /* the state in the backend's memory */
    void *state; /* the same for the test to read and write while no step runs */
    pthread_t thread;
    struct hsp_engine_hooks hooks;
    uint32_t steps, done;
    enum hsp_status status;
    struct hsp_err err;
    struct hsp_step_result result[EW_STEPS];
    /* filled by hooks */
    uint64_t arm_at, sealed, stable, switch_at;
    uint64_t passed;       /* votes */
    uint64_t abort_behind; /* so many votes; 0: never */
    uint32_t skip;         /* steps, as bits, whose loss is made none */
    uint32_t unwatched;    /* the same, whose updates are not watched */
    uint32_t hashed;       /* the same, whose updates hash their result */
    struct ew_seen *seen;  /* of each version; NULL: not looked at */
    uint32_t record, cap;  /* asked for by the first vote: steps, spans */
    struct hsp_recording *recording;
};

struct ew_world {
    struct hsp_arena *arena;
    struct hsp_dataset text;
    uint32_t n;
    struct ew_device d[EW_RANKS];
};

/* ---- for all worlds that are made from now on ---- */

extern bool ew_on_device;   /* else on CPUs */
extern uint64_t ew_fail_at; /* of the device opened next; 0: it does not fail */
extern uint32_t ew_skip;    /* of ew_run: skip of rank 0 */
/* CPUs make the gradient of a product and add it to its sum in one call; counted: such calls, and
 * those that begin a sum. */
extern bool ew_sums;
extern atomic_int ew_n_sums, ew_n_begun;
/* The job computes in tf32. Calls of products must say it, or else not; counted. */
extern bool ew_in_tf32;
extern atomic_int ew_n_told;

struct ew_world *ew_new(const struct tiny_spec *s, uint32_t steps);
void ew_go(struct ew_world *w);    /* the states are in the devices' memory */
void ew_start(struct ew_world *w); /* puts them there, and goes */
void ew_join(struct ew_world *w);  /* and reads the states back */
void ew_free(struct ew_world *w);
struct ew_world *ew_run(const struct tiny_spec *s, uint32_t steps); /* all steps are done */

void ew_copy_state(struct ew_device *d, bool to_device);
/* Largest difference of two states, whose tensors are all fp64. */
double ew_state_difference(const struct ew_device *a, const struct ew_device *b);

#endif
