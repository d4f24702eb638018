/* Computes the times of the exchanges of zero 3 between pipelines: when a stage gathers parameters
 * or reduces gradients, and when the ranks of other pipelines take part in it.
 *
 * Each pipeline has its own micro-batches, so ranks of other pipelines are not at the same place of
 * their orders. Their sends and additions are pieces of a separate segment, SERVE. These pieces are
 * placed between the pieces of the other segments by a clock of expected times, on which a pass
 * takes as long as it has blocks, twice that in backward, and all pipelines take equally long in
 * total. Sends never wait. Before each place of its own order a rank first sends all that is due by
 * then, and it adds gradients after the time at which they were sent. So every entry waits only for
 * entries that are earlier on this clock, and no queues wait in a circle, however wrong the clock
 * is about real time.
 *
 * Role:      zero3.c notes each rendezvous, device_schedule.c places the pieces of SERVE.
 * Purity:    pure.
 * Ownership: results in the compiler's arena. */
#ifndef HSP_ZERO3_RENDEZVOUS_H
#define HSP_ZERO3_RENDEZVOUS_H
#include "daemon/spmd/lower/stage_ir.h"
#include "daemon/spmd/schedule/timeline.h"

/* The timelines of all pipelines; times are fractions of the whole length. */
struct hsp_clocks {
    const struct hsp_compiler *c;
    struct hsp_timeline *train, *eval; /* [pipeline]; NULL: there are no rendezvous */
};

/* Some pieces of SERVE, once. */
struct hsp_service_slot {
    double at;
    bool takes; /* gradients */
    bool after; /* behind the rank's own work at the same time */
    uint32_t first, n;
};

/* The service slots of one rank in one of its schedules. */
struct hsp_rank_timeline {
    uint32_t n;
    struct hsp_service_slot *service_slot; /* in order */
    const struct hsp_interval *interval;   /* [pass of the rank's order]; NULL: no rendezvous */
    double end_us;                         /* of the pipeline's timeline */
    const uint32_t *meets;                 /* [piece]: 1 + rendezvous, 0 */
    const struct hsp_rendezvous *rendezvous_at;
};

/* HSP_ENOMEM; HSP_EINVAL: the order of a pipeline waits for itself. */
enum hsp_status hsp_clocks_make(const struct hsp_compiler *c, struct hsp_clocks *ret,
                                struct hsp_err *err);
/* @p: program of a rank of @s with template and @meets (specialize.h). HSP_ENOMEM. */
enum hsp_status hsp_rank_timeline_make(const struct hsp_clocks *k, const struct hsp_stagecode *s,
                                       const struct hsp_program *p, const uint32_t *meets,
                                       bool eval, struct hsp_rank_timeline *ret,
                                       struct hsp_err *err);
/* Returns the time of rendezvous @m in the pass @interval, as a fraction of the pipeline's length
 * @end_us. */
double hsp_rendezvous_find(const struct hsp_rendezvous *m, const struct hsp_interval *interval,
                           double end_us);
/* The time at which the pass begins, likewise. */
double hsp_interval_begins(const struct hsp_interval *interval, double end_us);

#endif
