/* Shares the inside of the fake CUDA runtime among its files.
 *
 * Threads: all under the one lock, which fake_enter takes and fake_leave gives back.
 */
#ifndef HSP_FAKEINT_H
#define HSP_FAKEINT_H
#include <pthread.h>
#include "tests/lib/fakecuda/fakecuda.h"

#define FAKE_LANES (HSP_FAKE_MAX_STREAMS + 1) /* lane 0: the host's own work */

/* How much of each lane happened before something. */
struct fake_clock {
    uint32_t at[FAKE_LANES];
};

enum piece_kind { PIECE_COPY, PIECE_SET, PIECE_WORK, PIECE_RECORD, PIECE_WAIT };

/* One piece of work: in a stream, waiting for its turn, or in a graph, as a pattern. */
struct piece {
    enum piece_kind kind;
    const char *name;
    const void *func; /* its function; equal for pieces that differ in numbers only */
    struct piece *next;
    uint8_t *dst; /* copies and fills: rows of width bytes, each pitch behind the one before */
    const uint8_t *src;
    size_t dst_pitch, src_pitch, width, height;
    int value;
    bool staged;               /* src is owned */
    struct hsp_fake_work work; /* args owned */
    cudaEvent_t event;         /* record and wait; counted as a use */
    uint64_t number;           /* which record of it */
    struct fake_clock clock;   /* of a stream's: all earlier work, itself included */
    int lane;
};

struct CUstream_st {
    struct CUstream_st *next;
    int lane, device;
    unsigned flags;
    struct piece *first, **last;
    unsigned n; /* pieces waiting */
    struct fake_clock clock;
    cudaGraph_t capture; /* NULL: none */
    enum cudaStreamCaptureMode mode;
    bool invalid; /* the capture */
    pthread_t by; /* the thread that began it */
};

struct CUevent_st {
    struct CUevent_st *next;
    unsigned uses; /* the handle and pieces */
    bool alive, timed;
    uint64_t given, reached; /* records */
    struct fake_clock clock; /* of the last one given */
    double ms;               /* when the last one was reached */
};

struct CUgraph_st {
    struct piece *first, **last;
    unsigned n;
};

struct CUgraphExec_st {
    struct piece *first;
    unsigned n;
};

struct fake_alloc {
    struct fake_alloc *next; /* ascending addresses */
    uint8_t *p;
    size_t bytes;
    bool freed; /* its place is not given away while work is under way */
};

struct fake_state {
    bool ready;
    struct hsp_fake_opts o;
    uint8_t *base;                /* device memory, then pinned memory */
    struct fake_alloc *memory[2]; /* of the device, pinned */
    bool reaches[HSP_FAKE_PEERS][HSP_FAKE_PEERS];
    struct CUstream_st *streams;
    struct CUevent_st *events;
    uint32_t ops[FAKE_LANES]; /* pieces ever given to each lane */
    bool lane_used[FAKE_LANES];
    struct fake_clock host;
    struct hsp_fake_usage use;
    cudaError_t sticky;
    uint64_t random;
    unsigned opened;             /* nested openings of device memory */
    const struct piece *running; /* NULL: none */
    bool blamed;                 /* the running piece has been reported */
    bool unwritten;              /* the running piece may read unwritten bytes */
    uint64_t shape[1024];        /* hashes of products that were given, first_products of them */
    struct {
        char name[64];
        unsigned nth;
        cudaError_t e;
    } fail, fail_work;
};
extern struct fake_state fake;

#define FAKE_PINNED_BYTES ((size_t)1 << 30)

/* fakedevice.c: begins a call of the API: takes the lock, counts, and returns the error that it
 * shall return instead of doing anything; functions that free do so all the same. */
cudaError_t fake_enter(const char *name);
/* Ends a call of the API: keeps the error for cudaGetLastError, and gives back the lock. */
cudaError_t fake_leave(cudaError_t e);
/* Takes the lock again, after a fake_leave in the midst of a call. */
void fake_relock(void);
void fake_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void fake_count_done(const char *name);
bool fake_is_sticky(cudaError_t e);
bool fake_smem_allowed(const void *func, size_t bytes);
int fake_device(void); /* of the calling thread */
uint32_t fake_draw(uint32_t below);

/* fakemem.c */
void fake_memory_reset(void);
bool fake_on_device(const void *p);
bool fake_is_pinned(const void *p);
/* Returns whether the whole range lies in one allocation of device or pinned memory. */
bool fake_inside(const void *p, size_t bytes);
void fake_open_memory(void);
void fake_close_memory(void);
void fake_run_copy(const struct piece *c);

/* fakerace.c */
void fake_race_reset(size_t bytes);
/* Notes that bytes of device or pinned memory are allocated (written by the host, or unwritten) or
 * freed. */
void fake_race_alloc(const void *p, size_t bytes, bool written);
void fake_race_free(const void *p, size_t bytes);
void fake_race_names(const struct piece *c, uint32_t op);
/* Notes that the running piece touches bytes of the range at fake.base. Returns NULL, or the reason
 * why the access is a race. */
const char *fake_race(const void *p, size_t bytes, bool write);
void fake_clock_join(struct fake_clock *a, const struct fake_clock *b);

/* fakestreams.c */
void fake_streams_reset(void);
struct piece *fake_piece_clone(const struct piece *c);
struct piece *fake_piece_free(struct piece *c);
/* Called by calls that wait until the device is idle: counts the call if some work of the device
 * waits for a peer. */
void fake_waits_for_all(void);
/* Gives a copy of the piece to the stream, or to the graph it captures. */
cudaError_t fake_give(cudaStream_t s, const struct piece *c);
/* Does work until @s has no more than @left pieces; NULL: all streams. */
cudaError_t fake_drain(struct CUstream_st *s, unsigned left);
bool fake_stream_ok(cudaStream_t s);
/* An operation that a capture does not allow; makes captures that it concerns invalid. */
cudaError_t fake_unsafe(void);
/* Runs a piece at once, as work of the host. */
cudaError_t fake_run_now(struct piece *c);
struct CUevent_st *fake_event_drop(struct CUevent_st *e);

/* fakegraphs.c */
cudaError_t fake_capture(cudaStream_t s, struct piece *c);

#endif
