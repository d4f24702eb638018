/* Shares the inside of the machine between machine.c and machine_state.c. */
#ifndef HSP_MACHINE_IMPL_H
#define HSP_MACHINE_IMPL_H
#include "tests/lib/naive_ops.h"
#include "tests/unit/daemon/spmd/machine.h"

/* BLOCK: bytes under one tag. WIDE: memory is so much larger than programs say that every real
 * element has room for an fp64. Arithmetic and storage are in fp64, for any types of the program:
 * casts copy, and a plan is right to fp64's precision or wrong. */
enum { BLOCK = 64, WIDE = 4 };

struct message {
    uint8_t *data; /* owned */
    size_t bytes;
};

/* Messages of one channel in order: from rank, to rank (collectives: to = from). */
struct lane {
    uint32_t channel, from, to;
    struct message *msg; /* owned */
    uint32_t n, cap;
};

struct running {
    bool active;
    uint32_t instr, move, n_sent; /* inside the entry; messages received of the move so far */
    bool arrived;
};

struct machine_rank {
    const struct hsp_program *p;
    uint8_t *mem, *host, *state;
    uint64_t *tag; /* per block of memory, then of the host's */
    uint32_t done[HSP_N_QUEUES];
    struct running run[HSP_N_QUEUES];
    double stat[HSP_N_STATS];
    uint32_t votes;
    double **grad; /* [state tensor]: the gradient that its update read; owned */
    struct hsp_box *grad_box;
};

struct hsp_machine {
    struct machine_rank *r;
    uint32_t n;
    uint64_t seed, draw;
    hsp_machine_input input;
    bool eval;
    const struct hsp_update_scalars *scalars;
    struct lane *lane; /* owned */
    uint32_t n_lanes, cap_lanes;
    uint32_t *count; /* [channel * n + rank]: arrivals; owned */
    uint32_t n_channels;
};

struct machine_view {
    uint8_t *data;
    struct hsp_box box;
    uint8_t dtype;
};

/* The type in which elements of @dtype are stored. */
uint8_t machine_dtype(uint8_t dtype);
/* Copies a cell out of a tensor or back. */
size_t machine_cell_bytes(const struct hsp_box *c, uint8_t dtype);
void machine_pack(const struct machine_view *v, const struct hsp_box *c, uint8_t *to);
void machine_unpack(const struct machine_view *v, const struct hsp_box *c, uint8_t *from);
struct hsp_array machine_array(const struct machine_view *v);

/* Before a run: nothing is done, no message is under way, memory is NaN. */
void machine_reset(struct hsp_machine *m);

#endif
