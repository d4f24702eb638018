/* Times the exchanges of zero 3 between streams: when a stage gathers parameters or reduces
 * gradients, and when the ranks of other streams take their part.
 *
 * Streams have micro-batches of their own, so ranks of other streams are not at the same place of
 * their orders. Their sends and additions are in pieces of a segment of its own, SERVE. These
 * pieces stand between those of the other segments by the time at which the stage is expected to be
 * there: each unit is as long as it has blocks, twice that backward, and all streams take equally
 * long altogether. Sends never wait; a rank serves all that comes before a place of its own order
 * first, and takes gradients behind the place they were given at. So everything waits only for
 * earlier things on this clock, and no queue waits in a circle, however wrong the clock is about
 * real time.
 *
 * Role:      zero3.c notes the meetings, device_schedule.c places the pieces of SERVE.
 * Purity:    pure.
 * Ownership: results in the compiler's arena. */
#ifndef HSP_ZERO3_RENDEZVOUS_H
#define HSP_ZERO3_RENDEZVOUS_H
#include "daemon/spmd/lower/stage_ir.h"
#include "daemon/spmd/schedule/timeline.h"

/* The timelines of all streams; parts of the length of the whole. */
struct hsp_clocks {
    const struct hsp_compiler *c;
    struct hsp_timeline *train, *eval; /* [stream]; NULL: there are no meetings */
};

/* Some pieces of SERVE, once. */
struct hsp_visit {
    double at;
    bool takes; /* gradients */
    bool after; /* behind the rank's own work at the same time */
    uint32_t first, n;
};

/* The visits of one rank in one of its schedules. */
struct hsp_agenda {
    uint32_t n;
    struct hsp_visit *visit;       /* in order */
    const struct hsp_spell *spell; /* [unit of the rank's order]; NULL: no meetings */
    double end_us;                 /* of the stream's timeline */
    const uint32_t *meets;         /* [piece]: 1 + meeting, 0 */
    const struct hsp_meeting *meeting;
};

/* HSP_ENOMEM; HSP_EINVAL: an order waits for itself. */
enum hsp_status hsp_clocks_make(const struct hsp_compiler *c, struct hsp_clocks *ret,
                                struct hsp_err *err);
/* @p: program of a rank of @s with template and @meets (specialize.h). HSP_ENOMEM. */
enum hsp_status hsp_agenda_make(const struct hsp_clocks *k, const struct hsp_stagecode *s,
                                const struct hsp_program *p, const uint32_t *meets, bool eval,
                                struct hsp_agenda *ret, struct hsp_err *err);
/* The time of meeting @m in the pass @spell, as a part of the stream's length @end_us. */
double hsp_meeting_at(const struct hsp_meeting *m, const struct hsp_spell *spell, double end_us);
/* The time at which the pass begins, likewise. */
double hsp_spell_begins(const struct hsp_spell *spell, double end_us);

#endif
