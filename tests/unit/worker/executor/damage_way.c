#include "tests/unit/worker/executor/damage_way.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "tests/lib/testlib.h"
#include "worker/comm/comm.h"

#define LEAST_BYTES 17 /* smaller messages have no state: they describe the next message */

/* The channels of epoch_copies.c, epoch_transfer.c and epoch_restore.c. */
#define CHANNEL_COPY   2u
#define CHANNEL_ROWS   32u
#define CHANNEL_ANSWER (HSP_CHANNEL_GATHER + 10u)

static struct way_board {
    atomic_uint way, dev, done;
    atomic_int left; /* number of messages before the one to damage */
    atomic_ullong bit;
} * board;

/* State of an executor. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct hsp_comm_ops *real; /* operations of every mesh */
static struct hsp_comm_ops ops;
static _Atomic(struct hsp_comm *) data_mesh;
static unsigned me;

static enum dw_way way_of(const struct hsp_comm *c, uint32_t channel)
{
    switch (channel) {
    case CHANNEL_COPY: return BY_COPIES;
    case CHANNEL_ROWS: return BY_MOVE;
    case HSP_CHANNEL_GATHER: return c == atomic_load(&data_mesh) ? BY_FINAL : BY_CHECKPOINT;
    case CHANNEL_ANSWER: return BY_RESTORE;
    default: return NO_WAY;
    }
}

static void arrive(const struct hsp_comm *c, uint32_t channel, const struct hsp_runs *data,
                   size_t bytes)
{
    enum dw_way way = bytes >= LEAST_BYTES ? way_of(c, channel) : NO_WAY;
    if (way == NO_WAY || atomic_load(&board->way) != way || atomic_load(&board->dev) != me ||
        atomic_fetch_sub(&board->left, 1) != 0) {
        return;
    }
    uint64_t bit = atomic_load(&board->bit) % (bytes * 8);
    size_t n;
    *hsp_runs_at(data, bit / 8, &n) ^= (uint8_t)(1u << bit % 8);
    atomic_store(&board->done, 1);
}

static enum hsp_status watched_recv(struct hsp_comm *c, uint32_t peer, uint32_t channel, void *buf,
                                    size_t bytes, struct hsp_err *err)
{
    enum hsp_status st = real->recv(c, peer, channel, buf, bytes, err);
    if (st == HSP_OK && bytes > 0) {
        const struct hsp_runs data = hsp_run(buf, bytes);
        arrive(c, channel, &data, bytes);
    }
    return st;
}

static enum hsp_status watched_wait(struct hsp_comm *c, struct hsp_comm_req *req,
                                    struct hsp_err *err)
{
    const struct hsp_runs data = req->data;
    uint32_t channel = req->channel;
    size_t bytes = req->is_send ? 0 : req->bytes;
    enum hsp_status st = real->wait(c, req, err);
    if (st == HSP_OK && bytes > 0) {
        arrive(c, channel, &data, bytes);
    }
    return st;
}

void dw_way_watch(struct hsp_ex_epoch *e, int mesh, unsigned dev)
{
    struct hsp_comm *c = e->mesh[mesh];
    (void)pthread_mutex_lock(&lock);
    if (real == NULL) {
        real = c->ops;
        ops = *real;
        ops.recv = watched_recv;
        ops.wait = watched_wait;
    }
    assert_true(c->ops == real || c->ops == &ops);
    c->ops = &ops;
    me = dev;
    if (mesh == HSP_MESH_DATA) {
        data_mesh = c;
    }
    (void)pthread_mutex_unlock(&lock);
}

void dw_way_begin(void)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(board != MAP_FAILED);
}

void dw_way_end(void)
{
    (void)munmap(board, sizeof *board);
}

void dw_way_plan(enum dw_way way, unsigned dev, unsigned after, uint64_t bit)
{
    atomic_store(&board->dev, dev);
    atomic_store(&board->left, (int)after);
    atomic_store(&board->bit, bit);
    atomic_store(&board->done, 0);
    atomic_store(&board->way, way);
}

bool dw_way_done(void)
{
    return atomic_load(&board->done) != 0;
}
