/* Shares the inside of the ghost: ghost.c has the calls of struct hsp_backend, ghostqueue.c does
 * their work, ghostmemory.c has the memory, ghostcheck.c judges accesses. */
#ifndef HSP_GHOSTINT_H
#define HSP_GHOSTINT_H
#include <pthread.h>

#include "tests/lib/ghost.h"

/* The work that a queue or a thread of the host knows to be done, of each queue: numbers. */
struct hsp_ghost_clock {
    uint64_t done[HSP_N_DEVQ];
};

/* Bytes of an allocation with one history. */
struct hsp_ghost_part {
    size_t from, to;
    uint64_t wrote; /* number of the last work that wrote it, 0: none, and its queue */
    enum hsp_devq wrote_by;
    uint64_t read[HSP_N_DEVQ]; /* last reader of each queue since then */
};

struct hsp_ghost_area {
    struct hsp_ghost_area *next;
    uint8_t *at, *real; /* addresses for callers and for kernels; the same of the host's memory */
    size_t bytes, mapped;
    enum hsp_mem mem;
    bool leaves;                 /* of the caller's: it goes at the next trim */
    struct hsp_ghost_part *part; /* ascending, from 0 to bytes without gaps */
    size_t n, cap;
};

/* One access of a piece of work. */
struct hsp_ghost_touch {
    enum hsp_devq q;
    uint64_t number; /* of the work in its queue */
    const struct hsp_ghost_clock *known;
    const char *what;
    bool write;
};

enum hsp_ghost_kind {
    GHOST_RUN,
    GHOST_SUM,
    GHOST_ACCUMULATE,
    GHOST_COPY,
    GHOST_FILL,
    GHOST_CELLS,
    GHOST_HASH,
    GHOST_FOREIGN, /* of another library */
    GHOST_MARK,
    GHOST_AWAIT
};

/* One call as it was given, all bytes of it said, so that two can be compared as bytes. */
struct hsp_ghost_call {
    enum hsp_ghost_kind kind;
    struct hsp_call op; /* pointers but sums NULL: the following stand for them */
    struct hsp_attrs at;
    struct hsp_array in[HSP_MAX_IN], out[HSP_MAX_OUT];
    struct hsp_array bias, add, sum; /* of a product with its addends; */
    bool with_bias, with_add;
    const struct hsp_update_scalars *update;
    struct hsp_cell_view to, from; /* also where only data and dtype are needed */
    struct hsp_box cell;
    enum hsp_cells how;
    struct hsp_hash_call hash; /* its data in @from, the sum in @to */
    int64_t n;                 /* elements, bytes of a copy */
    double value;
    enum hsp_devq of;
    uint64_t ticket;
};

/* ---- ghostcheck.c ---- */

/* The area that holds all of the bytes; NULL: none. */
struct hsp_ghost_area *hsp_ghost_find(struct hsp_ghost_area *all, const void *p, size_t bytes);
/* Notes an access. False: it may happen at the same time as another one, told in @err. */
bool hsp_ghost_note(struct hsp_ghost_area *a, const void *p, size_t bytes,
                    const struct hsp_ghost_touch *t, struct hsp_err *err);
/* Whether work that is not known to be done touches the bytes; writes only, or reads too. */
bool hsp_ghost_pending(const struct hsp_ghost_area *a, const void *p, size_t bytes,
                       const struct hsp_ghost_clock *known, bool reads);
struct hsp_ghost_area *hsp_ghost_area_new(enum hsp_mem mem, size_t bytes); /* NULL: no memory */
struct hsp_ghost_area *hsp_ghost_area_of(void *p, size_t bytes); /* of the caller's; the same */
void hsp_ghost_area_free(struct hsp_ghost_area *a);

/* ---- ghostwork.c ---- */

void hsp_ghost_call_run(struct hsp_ghost_call *x, const struct hsp_call *c);
/* False: the result lies over an operand, so it cannot be made at once. */
bool hsp_ghost_call_sum(struct hsp_ghost_call *x, const struct hsp_call *c,
                        const struct hsp_sum *s);
void hsp_ghost_call_cells(struct hsp_ghost_call *x, const struct hsp_cell_view *dst,
                          const struct hsp_cell_view *src, const struct hsp_box *cell,
                          enum hsp_cells how);
void hsp_ghost_call_hash(struct hsp_ghost_call *x, const struct hsp_hash_call *c, uint64_t *ret);
const char *hsp_ghost_name(const struct hsp_ghost_call *c);
/* Notes one access of bytes that must lie in an area; false with the breach in @err. */
bool hsp_ghost_visit_bytes(struct hsp_ghost_area *areas, const void *p, size_t bytes,
                           const struct hsp_ghost_touch *t, struct hsp_err *err);
void *hsp_ghost_real(struct hsp_ghost_area *areas, const void *p);
/* Notes all accesses of a call; false with the first breach in @err. */
bool hsp_ghost_visit(struct hsp_ghost_area *areas, const struct hsp_ghost_call *c,
                     struct hsp_ghost_touch t, struct hsp_err *err);
/* Addresses of callers become those of kernels. */
void hsp_ghost_make_real(struct hsp_ghost_area *areas, struct hsp_ghost_call *c);
/* Does the work of such a call. */
enum hsp_status hsp_ghost_do(struct hsp_backend *cpu, enum hsp_devq q, struct hsp_ghost_call *c,
                             struct hsp_err *err);

/* ---- ghostmany.c: as backend.h says ---- */

enum hsp_status hsp_ghost_run_many(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                   uint32_t n, struct hsp_err *err);
enum hsp_status hsp_ghost_run_chain(struct hsp_backend *b, enum hsp_devq q,
                                    const struct hsp_call *c, uint32_t n, bool *ret_done,
                                    struct hsp_err *err);

#endif
