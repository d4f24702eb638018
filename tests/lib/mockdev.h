/* Plays an asynchronous device: CPU kernels behind an hsp_backend whose work is late.
 *
 * Role:    for tests of code that gives work to a device. Each queue is a thread that does its work
 *          late, by random delays; device memory lies at addresses that fault when the host touches
 *          them.
 * Checks:  every call is judged when it is given, at any delays: memory outside of an
 *          allocation, work on bytes that another queue writes, or reads and this one writes,
 *          without an await or a finish between them; releases of memory in use; memory of the host
 *          that changes between a copy's call and the copy; a replay key with other calls than
 *          before; memory pinned twice, or unpinned when it is mapped no more. An early read of the
 *          host sees garbage: host memory is spoilt when a copy to it is given. The first breach
 *          fails that call and all later ones with HSP_EIO and its words.
 * Keeps:   memory released after native was asked counts until trim, or is given out again for as
 *          many bytes; so does pinned memory.
 * Threads: as backend.h; the knowledge of a thread that has finished a ticket is its own, a thread
 *          not seen before knows what any other one does.
 */
#ifndef HSP_MOCKDEV_H
#define HSP_MOCKDEV_H
#include "worker/backend/backend.h"

struct hsp_mockdev_opts {
    uint64_t seed;         /* of delays and replays */
    uint32_t max_delay_us; /* of a quarter of the work; 0: none */
    bool replay;           /* has begin and end; half of the known keys is replayed */
    bool sums;             /* has run_sum, for operands that do not lie over each other */
    uint64_t fail_at;      /* this piece of work fails, and the device with it; 0: none */
    bool no_pin;           /* pin is refused, always */
    bool must_pin;         /* copies on HSP_DEVQ_STATE to or from ordinary memory are a breach */
    bool keeps;            /* after any work nothing is freed until trim; else after native only */
    size_t memory;         /* of the device, bytes; 0: as much as is asked for */
};

/* Work of another library, for the queue that native() stands for: begins when ready says so (asked
 * in its turn, often), then runs once, also of a device that has failed. */
struct hsp_mockdev_work {
    bool (*ready)(void *arg);
    void (*run)(void *arg);
    void *arg;
};
/* The accesses of the next such work, in front of it; returns where its bytes lie for the
 * worker. */
void *hsp_mockdev_announce(void *native, const void *p, size_t bytes, bool write);
void hsp_mockdev_submit(void *native, const struct hsp_mockdev_work *w);

struct hsp_mockdev_tally {
    uint64_t work, pending;    /* given; of it not done yet */
    uint64_t foreign;          /* of other libraries */
    uint64_t awaits, finishes; /* finishes that had to wait */
    uint64_t recorded, replayed, compared;
    uint64_t sums, apart;       /* of products with their addends: at once, refused */
    size_t memory, most_memory; /* of the device, allocated */
    uint32_t pinned;            /* of the caller's memory, now */
    uint32_t pins;              /* of it, ever */
};

enum hsp_status hsp_mockdev_open(const struct hsp_mockdev_opts *o, struct hsp_backend **ret,
                                 struct hsp_err *err);
struct hsp_mockdev_tally hsp_mockdev_tally(struct hsp_backend *b);
/* For tests of the checks: takes the breach away, if there is one. */
bool hsp_mockdev_forgive(struct hsp_backend *b, struct hsp_err *ret);
/* The next copy that is given to HSP_DEVQ_STATE fails, and the device with it. */
void hsp_mockdev_fail_copy(struct hsp_backend *b);
/* For tests of damage: where the host can touch the byte at @p of the device's memory. Nothing is
 * judged. */
uint8_t *hsp_mockdev_byte(struct hsp_backend *b, const void *p);

#endif
