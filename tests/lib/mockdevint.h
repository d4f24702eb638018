/* Shares the inside of the mockdev: mockdev.c has the calls of struct hsp_backend, mockdevqueue.c
 * does their work, mockdevmemory.c has the memory, mockdevcheck.c judges accesses. */
#ifndef HSP_MOCKDEVINT_H
#define HSP_MOCKDEVINT_H
#include <pthread.h>

#include "tests/lib/mockdev.h"

/* The work that a queue or a thread of the host knows to be done, of each queue: numbers. */
struct hsp_mockdev_clock {
    uint64_t done[HSP_N_DEVQ];
};

/* Bytes of an allocation with one history. */
struct hsp_mockdev_part {
    size_t from, to;
    uint64_t wrote; /* number of the last work that wrote it, 0: none, and its queue */
    enum hsp_devq wrote_by;
    uint64_t read[HSP_N_DEVQ]; /* last reader of each queue since then */
};

struct hsp_mockdev_area {
    struct hsp_mockdev_area *next;
    uint8_t *at, *real; /* addresses for callers and for kernels; the same of the host's memory */
    size_t bytes, mapped;
    enum hsp_mem mem;
    bool leaves;                   /* of the caller's: it goes at the next trim */
    struct hsp_mockdev_part *part; /* ascending, from 0 to bytes without gaps */
    size_t n, cap;
};

/* One access of a piece of work. */
struct hsp_mockdev_touch {
    enum hsp_devq q;
    uint64_t number; /* of the work in its queue */
    const struct hsp_mockdev_clock *known;
    const char *what;
    bool write;
};

enum hsp_mockdev_kind {
    MOCKDEV_RUN,
    MOCKDEV_SUM,
    MOCKDEV_ACCUMULATE,
    MOCKDEV_COPY,
    MOCKDEV_FILL,
    MOCKDEV_CELLS,
    MOCKDEV_HASH,
    MOCKDEV_FOREIGN, /* of another library */
    MOCKDEV_MARK,
    MOCKDEV_AWAIT
};

/* One call as it was given, all bytes of it said, so that two can be compared as bytes. */
struct hsp_mockdev_call {
    enum hsp_mockdev_kind kind;
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

/* ---- mockdevcheck.c ---- */

/* The area that holds all of the bytes; NULL: none. */
struct hsp_mockdev_area *hsp_mockdev_find(struct hsp_mockdev_area *all, const void *p,
                                          size_t bytes);
/* Notes an access. False: it may happen at the same time as another one, told in @err. */
bool hsp_mockdev_note(struct hsp_mockdev_area *a, const void *p, size_t bytes,
                      const struct hsp_mockdev_touch *t, struct hsp_err *err);
/* Whether work that is not known to be done touches the bytes; writes only, or reads too. */
bool hsp_mockdev_pending(const struct hsp_mockdev_area *a, const void *p, size_t bytes,
                         const struct hsp_mockdev_clock *known, bool reads);
struct hsp_mockdev_area *hsp_mockdev_area_new(enum hsp_mem mem, size_t bytes); /* NULL: no memory */
struct hsp_mockdev_area *hsp_mockdev_area_of(void *p, size_t bytes); /* of the caller's; the same */
void hsp_mockdev_area_free(struct hsp_mockdev_area *a);

/* ---- mockdevwork.c ---- */

void hsp_mockdev_call_run(struct hsp_mockdev_call *x, const struct hsp_call *c);
/* False: the result lies over an operand, so it cannot be made at once. */
bool hsp_mockdev_call_sum(struct hsp_mockdev_call *x, const struct hsp_call *c,
                          const struct hsp_sum *s);
void hsp_mockdev_call_cells(struct hsp_mockdev_call *x, const struct hsp_cell_view *dst,
                            const struct hsp_cell_view *src, const struct hsp_box *cell,
                            enum hsp_cells how);
void hsp_mockdev_call_hash(struct hsp_mockdev_call *x, const struct hsp_hash_call *c,
                           uint64_t *ret);
const char *hsp_mockdev_name(const struct hsp_mockdev_call *c);
/* Notes one access of bytes that must lie in an area; false with the breach in @err. */
bool hsp_mockdev_visit_bytes(struct hsp_mockdev_area *areas, const void *p, size_t bytes,
                             const struct hsp_mockdev_touch *t, struct hsp_err *err);
void *hsp_mockdev_real(struct hsp_mockdev_area *areas, const void *p);
/* Notes all accesses of a call; false with the first breach in @err. */
bool hsp_mockdev_visit(struct hsp_mockdev_area *areas, const struct hsp_mockdev_call *c,
                       struct hsp_mockdev_touch t, struct hsp_err *err);
/* Addresses of callers become those of kernels. */
void hsp_mockdev_make_real(struct hsp_mockdev_area *areas, struct hsp_mockdev_call *c);
/* Does the work of such a call. */
enum hsp_status hsp_mockdev_do(struct hsp_backend *cpu, enum hsp_devq q, struct hsp_mockdev_call *c,
                               struct hsp_err *err);

/* ---- mockdevmany.c: as backend.h says ---- */

enum hsp_status hsp_mockdev_run_many(struct hsp_backend *b, enum hsp_devq q,
                                     const struct hsp_call *c, uint32_t n, struct hsp_err *err);
enum hsp_status hsp_mockdev_run_chain(struct hsp_backend *b, enum hsp_devq q,
                                      const struct hsp_call *c, uint32_t n, bool *ret_done,
                                      struct hsp_err *err);

#endif
