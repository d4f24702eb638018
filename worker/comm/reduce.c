/* Sums buffers of the members, or takes their maximum, by direct exchange.
 *
 * All-reduce = reduce-scatter + all-gather over one even cut of the buffer. Member i sums piece i
 * of all members in ascending rank order and sends the sum to all. Both halves run in chunks, side
 * by side: while chunk k is summed, chunk k + 1 lands in the other scratch slot and the sum of k -
 * 1 travels. A buffer below COMM_SMALL_BYTES goes to every member whole: one message time instead
 * of two.
 *
 * Deadlock is impossible here, too (collective.c). A turn (take_turn) waits only for messages that
 * their sender sends before it waits itself, in the same turn or an earlier one. Sums may be
 * received into @buf while pieces of @buf are still being sent: member j sends the sum of a chunk
 * only after it has received my part of that chunk, so those bytes have left. */
#include "worker/comm/reduce.h"

#include <stdlib.h>
#include <string.h>

#include "proto/op/bf16.h"
#include "worker/comm/collective.h"
#include "worker/comm/collective_impl.h"

#define WINDOW    1                   /* a sum follows its parts by that many steps */
#define AHEAD     2                   /* receives are posted that many steps early */
#define SLOTS     (WINDOW + AHEAD)    /* scratch per peer, in chunks */
#define CHUNK_MAX ((size_t)256 << 10) /* a few of them stay in a second-level cache */
/* By a socket; with smaller chunks the cost per message shows. */
#define CHUNK_LEAST ((size_t)128 << 10)
/* By several sockets: a chunk and its header are one segment of TCP. */
#define CHUNK_MANY ((size_t)56 << 10)
/* Bytes of one member under way through sockets: as many stay in the caches. */
#define FLIGHT_MAX ((size_t)512 << 10)
/* By memory a chunk is a piece / NEAR_CHUNKS, the fewest that overlap well, at least NEAR_LEAST. */
#define NEAR_CHUNKS  8
#define NEAR_LEAST   ((size_t)64 << 10)
#define SCRATCH_GOAL ((size_t)16 << 20) /* chunks shrink for big groups to stay near this */
#define BF16_BLOCK   ((size_t)1024)     /* elements; their sums in fp32 stay in that cache, too */
#define SUM_BLOCK    ((size_t)4 << 10) /* summed at once over all members, in a first-level cache */

struct piece {
    size_t off, bytes;
};

static enum hsp_status type_check(enum hsp_dtype t, struct hsp_err *err)
{
    return hsp_dtype_real(t)
               ? HSP_OK
               : hsp_err_set(err, HSP_EINVAL, 0, "reductions are of reals, not type %d", (int)t);
}

static enum hsp_status scratch_get(struct hsp_comm *c, size_t bytes, uint8_t **ret,
                                   struct hsp_err *err)
{
    if (c->scratch_bytes < bytes) {
        void *p = NULL;
        if (posix_memalign(&p, 64, bytes) != 0) {
            return hsp_err_nomem(err, "%zu bytes of scratch", bytes);
        }
        free(c->scratch);
        c->scratch = p;
        c->scratch_bytes = bytes;
    }
    *ret = c->scratch;
    return HSP_OK;
}

/* dst = a + b; dst may be a or b. Unit stride and no carried dependence: vectorised at -O3. */
static void add(enum hsp_dtype t, void *dst, const void *a, const void *b, size_t bytes)
{
    if (t == HSP_F64) {
        double *d = dst;
        const double *x = a, *y = b;
        for (size_t i = 0; i < bytes / sizeof *d; i++) {
            d[i] = x[i] + y[i];
        }
    } else {
        float *d = dst;
        const float *x = a, *y = b;
        for (size_t i = 0; i < bytes / sizeof *d; i++) {
            d[i] = x[i] + y[i];
        }
    }
}

/* dst = the larger of a and b; a NaN stays (x != x). */
static void larger(enum hsp_dtype t, void *dst, const void *a, const void *b, size_t bytes)
{
    if (t == HSP_F64) {
        double *d = dst;
        const double *x = a, *y = b;
        for (size_t i = 0; i < bytes / sizeof *d; i++) {
            d[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i];
        }
    } else {
        float *d = dst;
        const float *x = a, *y = b;
        for (size_t i = 0; i < bytes / sizeof *d; i++) {
            d[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i];
        }
    }
}

/* The type of the elements, and @how they are combined. */
struct what {
    enum hsp_dtype t;
    enum hsp_reduce how;
};

/* acc = @src if @first, else acc + @src or the larger of the two; a NaN stays. */
static void fold_bf16(const struct what *w, float *acc, const uint16_t *src, size_t n, bool first)
{
    bool max = w->how == HSP_REDUCE_MAX;
    for (size_t i = 0; i < n; i++) {
        float x = hsp_bf16_float(src[i]);
        float kept = acc[i] > x || acc[i] != acc[i] ? acc[i] : x;
        acc[i] = first ? x : max ? kept : acc[i] + x;
    }
}

/* Sums elements of bf16 in fp32 over all members and rounds once. Part i is part[i] or, where @part
 * is NULL, stands @step bytes behind part i - 1. @out may be one of the parts. */
static void sum_bf16(const struct what *w, uint8_t *out, const uint8_t *const *part,
                     const uint8_t *parts, size_t step, uint32_t n, size_t bytes)
{
    float acc[BF16_BLOCK];
    size_t count = bytes / sizeof(uint16_t);
    for (size_t at = 0; at < count; at += BF16_BLOCK) {
        size_t k = count - at < BF16_BLOCK ? count - at : BF16_BLOCK;
        for (uint32_t i = 0; i < n; i++) {
            const void *p = part != NULL ? part[i] : parts + step * i;
            fold_bf16(w, acc, (const uint16_t *)p + at, k, i == 0);
        }
        uint16_t *to = (uint16_t *)(void *)out + at;
        for (size_t i = 0; i < k; i++) {
            to[i] = hsp_bf16_of(acc[i]);
        }
    }
}

static void combine(const struct what *w, void *dst, const void *a, const void *b, size_t bytes)
{
    if (w->how == HSP_REDUCE_MAX) {
        larger(w->t, dst, a, b, bytes);
    } else {
        add(w->t, dst, a, b, bytes);
    }
}

/* State of one reduction. Between every two members travels one sequence of messages, the same at
 * both ends. Step q holds the sum of the sender's chunk q - WINDOW (all-reduce only), then the
 * sender's part of the receiver's chunk q. So parts and sums alternate, and a fresh sum is sent
 * while it is in the cache. */
struct reduce {
    const struct hsp_group *g;
    struct what what;
    const uint8_t *in; /* all pieces, this member's contributions */
    struct piece *piece;
    uint8_t *out;    /* place of piece me of the sum */
    uint8_t *gather; /* all-reduce: base of the result; NULL: reduce-scatter */
    size_t chunk;
    uint8_t *slots; /* SLOTS chunks per member */
    struct comm_batch b;
    struct peer {
        bool lends;                       /* its parts are summed in place */
        bool lent;                        /* a part of it is lent now */
        size_t parts, sums;               /* receives posted (parts: or lent) so far */
        struct hsp_comm_req *ring[SLOTS]; /* parts of my piece under way, by chunk mod SLOTS */
        struct hsp_comm_req **sum;        /* receives of sums, by chunk */
    } * peer;
    const uint8_t **part;      /* of the chunk that is summed, by member */
    struct hsp_comm_req **sum; /* storage of peer[i].sum */
};

static size_t n_chunks(const struct reduce *r, uint32_t i)
{
    return (r->piece[i].bytes + r->chunk - 1) / r->chunk;
}

static size_t chunk_bytes(const struct reduce *r, uint32_t i, size_t k)
{
    size_t left = r->piece[i].bytes - k * r->chunk;
    return left < r->chunk ? left : r->chunk;
}

static uint8_t *slot(const struct reduce *r, uint32_t i, size_t k)
{
    return r->slots + ((size_t)i * SLOTS + k % SLOTS) * r->chunk;
}

/* Posts the receive of member @i's part of my chunk @k, if there is one. */
static enum hsp_status post_part(struct reduce *r, uint32_t i, size_t k, struct hsp_err *err)
{
    struct peer *p = &r->peer[i];
    if (k >= n_chunks(r, r->g->me) || p->lends) {
        return HSP_OK;
    }
    p->ring[k % SLOTS] = &r->b.req[r->b.n];
    p->parts++;
    return hsp_batch_recv(&r->b, r->g->ranks[i], slot(r, i, k), chunk_bytes(r, r->g->me, k), err);
}

/* Posts the sums of member @i that come before the next part from it. */
static enum hsp_status post_sums(struct reduce *r, uint32_t i, struct hsp_err *err)
{
    struct peer *p = &r->peer[i];
    size_t mine = n_chunks(r, r->g->me), theirs = r->gather != NULL ? n_chunks(r, i) : 0;
    enum hsp_status st = HSP_OK;
    for (; p->sums < theirs && st == HSP_OK; p->sums++) {
        if (p->parts < mine && p->parts < p->sums + WINDOW) {
            break;
        }
        p->sum[p->sums] = &r->b.req[r->b.n];
        st = hsp_batch_recv(&r->b, r->g->ranks[i], r->gather + r->piece[i].off + p->sums * r->chunk,
                            chunk_bytes(r, i, p->sums), err);
    }
    return st;
}

/* Posts the receives from member @i for step @q, AHEAD steps early, in the order in which the
 * messages come. */
static enum hsp_status post_step(struct reduce *r, uint32_t i, size_t q, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (size_t k = q == 0 ? 0 : q + AHEAD; k <= q + AHEAD && st == HSP_OK; k++) {
        if ((st = post_part(r, i, k, err)) == HSP_OK) {
            st = post_sums(r, i, err);
        }
    }
    return st;
}

/* out = part 0 + part 1 + ... in ascending rank order, block by block, so partial sums stay in the
 * first cache. @out may be one of the parts: a block of it is written last. */
static void sum_parts(const struct what *w, uint8_t *out, const uint8_t *const *part, uint32_t n,
                      size_t bytes)
{
    _Alignas(64) uint8_t acc[SUM_BLOCK];
    if (w->t == HSP_BF16) {
        sum_bf16(w, out, part, NULL, 0, n, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += SUM_BLOCK) {
        size_t k = bytes - at < SUM_BLOCK ? bytes - at : SUM_BLOCK;
        const uint8_t *sum = part[0] + at;
        for (uint32_t i = 1; i < n; i++) {
            uint8_t *to = i == n - 1 ? out + at : acc;
            combine(w, to, sum, part[i] + at, k);
            sum = to;
        }
    }
}

/* Waits for member @i's part of chunk @k of my piece. */
static enum hsp_status get_part(struct reduce *r, uint32_t i, size_t k, struct hsp_err *err)
{
    struct hsp_comm *c = r->b.c;
    struct peer *p = &r->peer[i];
    size_t bytes = chunk_bytes(r, r->g->me, k);
    const void *lies = NULL;
    enum hsp_status st = HSP_OK;
    r->part[i] = slot(r, i, k);
    if (!p->lends) {
        return c->ops->wait(c, p->ring[k % SLOTS], err);
    }
    p->parts++;
    st = c->ops->lend(c, r->g->ranks[i], r->b.channel, bytes, &lies, err);
    if (st == HSP_AGAIN) {
        return c->ops->recv(c, r->g->ranks[i], r->b.channel, slot(r, i, k), bytes, err);
    }
    p->lent = st == HSP_OK;
    r->part[i] = lies;
    return st;
}

/* Waits for all parts of chunk @k of my piece and sums them. */
static enum hsp_status sum_chunk(struct reduce *r, size_t k, struct hsp_err *err)
{
    const struct hsp_group *g = r->g;
    enum hsp_status st = HSP_OK;
    r->part[g->me] = r->in + r->piece[g->me].off + k * r->chunk;
    for (uint32_t i = 0; i < g->n && st == HSP_OK; i++) {
        st = i != g->me ? get_part(r, i, k, err) : HSP_OK;
    }
    if (st == HSP_OK) {
        sum_parts(&r->what, r->out + k * r->chunk, r->part, g->n, chunk_bytes(r, g->me, k));
    }
    for (uint32_t i = 0; i < g->n; i++) {
        if (r->peer[i].lent) {
            r->b.c->ops->unlend(r->b.c, g->ranks[i]);
            r->peer[i].lent = false;
        }
    }
    return st;
}

/* Sends member @i the sum and the part of step @q. */
static enum hsp_status send_step(struct reduce *r, uint32_t i, size_t q, struct hsp_err *err)
{
    const struct hsp_group *g = r->g;
    enum hsp_status st = HSP_OK;
    if (r->gather != NULL && q >= WINDOW && q - WINDOW < n_chunks(r, g->me)) {
        size_t k = q - WINDOW;
        st = hsp_batch_send(&r->b, g->ranks[i], r->out + k * r->chunk, chunk_bytes(r, g->me, k),
                            err);
    }
    if (st == HSP_OK && q < n_chunks(r, i)) {
        st = hsp_batch_send(&r->b, g->ranks[i], r->in + r->piece[i].off + q * r->chunk,
                            chunk_bytes(r, i, q), err);
    }
    return st;
}

/* Waits for a turn: by sockets a large group takes turns, so that few bytes are under way at once
 * and they stay in the caches. A member that has sent to member me + d goes on when the messages of
 * member me - d of that turn have come. All members do so, hence no member waits for long. */
static enum hsp_status take_turn(struct reduce *r, uint32_t from, size_t q, struct hsp_err *err)
{
    const struct peer *p = &r->peer[from];
    struct hsp_comm *c = r->b.c;
    enum hsp_status st = HSP_OK;
    if (c->near || 2 * (r->g->n - 1) * r->chunk <= FLIGHT_MAX || p->lends) {
        return HSP_OK;
    }
    if (r->gather != NULL && q >= WINDOW && q - WINDOW < n_chunks(r, from)) {
        st = c->ops->wait(c, p->sum[q - WINDOW], err);
    }
    if (st == HSP_OK && q < n_chunks(r, r->g->me)) {
        st = c->ops->wait(c, p->ring[q % SLOTS], err);
    }
    return st;
}

/* Runs step @q with all other members, first with member me + 1, so that not all begin with one
 * peer. */
static enum hsp_status exchange_step(struct reduce *r, size_t q, struct hsp_err *err)
{
    uint32_t n = r->g->n, me = r->g->me;
    enum hsp_status st = HSP_OK;
    for (uint32_t d = 1; d < n && st == HSP_OK; d++) {
        st = post_step(r, (me + n - d) % n, q, err);
    }
    for (uint32_t d = 1; d < n && st == HSP_OK; d++) {
        if ((st = send_step(r, (me + d) % n, q, err)) == HSP_OK) {
            st = take_turn(r, (me + n - d) % n, q, err);
        }
    }
    return st;
}

static enum hsp_status reduce_chunks(struct reduce *r, struct hsp_err *err)
{
    const struct hsp_group *g = r->g;
    enum hsp_status st = HSP_OK;
    size_t most = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        most = n_chunks(r, i) > most ? n_chunks(r, i) : most;
    }
    for (uint32_t i = 0; i < g->n; i++) {
        r->peer[i].lends = i != g->me && r->b.c->ops->lends != NULL &&
                           r->b.c->ops->lends(r->b.c, g->ranks[i], r->chunk);
    }
    for (size_t q = 0; q < most + WINDOW && st == HSP_OK; q++) {
        if (q >= WINDOW && q - WINDOW < n_chunks(r, g->me)) {
            st = sum_chunk(r, q - WINDOW, err);
        }
        if (st == HSP_OK) {
            st = exchange_step(r, q, err);
        }
    }
    return st;
}

/* Bytes of a chunk, equal on all members since all of them know the arguments. */
static size_t chunk_for(bool near, uint32_t n, size_t longest)
{
    if (!near && n > 2) {
        return CHUNK_MANY;
    }
    size_t least = near ? NEAR_LEAST : CHUNK_LEAST;
    size_t most = SCRATCH_GOAL / ((size_t)n * SLOTS), k = near ? longest / NEAR_CHUNKS : longest;
    most = most < least ? least : most > CHUNK_MAX ? CHUNK_MAX : most;
    k = k < least ? least : k > most ? most : k;
    return (k + 63) / 64 * 64;
}

/* Allocates the state that a run keeps for each member. */
static enum hsp_status reduce_alloc(struct reduce *r, size_t chunks, struct hsp_err *err)
{
    uint32_t n = r->g->n;
    r->peer = calloc(n, sizeof *r->peer);
    r->part = calloc(n, sizeof *r->part);
    r->sum = calloc(chunks, sizeof *r->sum);
    if (r->peer == NULL || r->part == NULL || r->sum == NULL) {
        return hsp_err_nomem(err, "a group");
    }
    for (size_t i = 0, at = 0; i < n; at += n_chunks(r, (uint32_t)i), i++) {
        r->peer[i].sum = r->sum + at;
    }
    return HSP_OK;
}

/* Runs @r; its g, t, in, piece, out and gather are set. */
static enum hsp_status reduce_run(struct reduce *r, struct hsp_comm *c, uint32_t channel,
                                  struct hsp_err *err)
{
    const struct hsp_group *g = r->g;
    size_t longest = 0, chunks = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        longest = r->piece[i].bytes > longest ? r->piece[i].bytes : longest;
    }
    r->chunk = chunk_for(c->near, g->n, longest);
    for (uint32_t i = 0; i < g->n; i++) {
        chunks += n_chunks(r, i);
    }
    /* A part to and a sum from each member; each of them sends a part and gets a sum. */
    size_t cap = 2 * chunks + 2 * (size_t)g->n * n_chunks(r, g->me);
    enum hsp_status st = scratch_get(c, (size_t)g->n * SLOTS * r->chunk, &r->slots, err);
    if (st != HSP_OK || (st = hsp_batch_init(&r->b, c, channel, cap, err)) != HSP_OK) {
        return st;
    }
    st = reduce_alloc(r, chunks, err);
    st = hsp_batch_finish(&r->b, st == HSP_OK ? reduce_chunks(r, err) : st, err);
    free(r->peer);
    free(r->part);
    free(r->sum);
    return st;
}

enum hsp_status hsp_comm_reduce_scatter(struct hsp_comm *c, const struct hsp_group *g,
                                        uint32_t channel, enum hsp_dtype t, enum hsp_reduce how,
                                        const void *in, const size_t *count, void *out,
                                        struct hsp_err *err)
{
    enum hsp_status st = hsp_group_check(c, g, err);
    if (st != HSP_OK || (st = type_check(t, err)) != HSP_OK) {
        return st;
    }
    if (c->ops->collect != NULL) {
        return c->ops->collect->reduce_scatter(c, g, channel, t, how, in, count, out, err);
    }
    struct piece *piece = calloc(g->n, sizeof *piece);
    if (piece == NULL) {
        return hsp_err_nomem(err, "a group");
    }
    size_t off = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        piece[i] = (struct piece){.off = off, .bytes = count[i] * hsp_dtype_size(t)};
        off += piece[i].bytes;
    }
    if (g->n == 1) {
        if (out != in && piece[0].bytes > 0) {
            memmove(out, in, piece[0].bytes);
        }
    } else {
        struct reduce r = {.g = g, .what = {t, how}, .in = in, .piece = piece, .out = out};
        st = reduce_run(&r, c, channel, err);
    }
    free(piece);
    return st;
}

/* Each member sends its whole buffer to all, and sums all buffers. */
static enum hsp_status all_reduce_small(struct hsp_comm *c, const struct hsp_group *g,
                                        uint32_t channel, const struct what *w, uint8_t *buf,
                                        size_t bytes, struct hsp_err *err)
{
    struct comm_batch b;
    uint8_t *parts = NULL;
    size_t step = (bytes + 63) / 64 * 64;
    enum hsp_status st = scratch_get(c, step * g->n, &parts, err);
    if (st != HSP_OK || (st = hsp_batch_init(&b, c, channel, 2 * (size_t)g->n, err)) != HSP_OK) {
        return st;
    }
    memcpy(parts + step * g->me, buf, bytes);
    for (uint32_t i = 0; i < g->n && st == HSP_OK; i++) {
        if (i != g->me) {
            st = hsp_batch_recv(&b, g->ranks[i], parts + step * i, bytes, err);
        }
    }
    for (uint32_t d = 1; d < g->n && st == HSP_OK; d++) {
        st = hsp_batch_send_now(&b, g->ranks[(g->me + d) % g->n], parts + step * g->me, bytes, err);
    }
    st = hsp_batch_finish(&b, st, err);
    if (w->t == HSP_BF16 && st == HSP_OK) {
        sum_bf16(w, buf, NULL, parts, step, g->n, bytes);
        return HSP_OK;
    }
    for (uint32_t i = 1; i < g->n && st == HSP_OK; i++) {
        combine(w, buf, i == 1 ? parts : buf, parts + step * i, bytes);
    }
    return st;
}

enum hsp_status hsp_comm_all_reduce(struct hsp_comm *c, const struct hsp_group *g, uint32_t channel,
                                    enum hsp_dtype t, enum hsp_reduce how, void *buf, size_t count,
                                    struct hsp_err *err)
{
    enum hsp_status st = hsp_group_check(c, g, err);
    if (st != HSP_OK || (st = type_check(t, err)) != HSP_OK) {
        return st;
    }
    if (c->ops->collect != NULL) {
        return c->ops->collect->all_reduce(c, g, channel, t, how, buf, count, err);
    }
    size_t bytes = count * hsp_dtype_size(t);
    if (g->n == 1 || count == 0) {
        return HSP_OK;
    }
    if (bytes <= COMM_SMALL_BYTES) {
        return all_reduce_small(c, g, channel, &(struct what){t, how}, buf, bytes, err);
    }
    struct piece *piece = calloc(g->n, sizeof *piece);
    if (piece == NULL) {
        return hsp_err_nomem(err, "a group");
    }
    size_t off = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        size_t n = count / g->n + (i < count % g->n ? 1 : 0);
        piece[i] = (struct piece){.off = off, .bytes = n * hsp_dtype_size(t)};
        off += piece[i].bytes;
    }
    struct reduce r = {.g = g,
                       .what = {t, how},
                       .in = buf,
                       .piece = piece,
                       .out = (uint8_t *)buf + piece[g->me].off,
                       .gather = buf};
    st = reduce_run(&r, c, channel, err);
    free(piece);
    return st;
}
