/* Judges accesses to memory: bounds, unwritten bytes, and races between lanes. For these: the last
 * writer and readers of every two bytes, against work known to have happened before (Flanagan
 * and Freund, "FastTrack: efficient and precise dynamic race detection", PLDI 2009; up to three
 * readers are kept). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/lib/fakecuda/fakeint.h"

#define READERS   3
#define NAMES     4096 /* names of the last pieces of each lane */
#define OP_BITS   27
#define OP_MASK   ((UINT32_C(1) << OP_BITS) - 1)
#define NOBODY    0 /* pieces are counted from 1 */
#define LANE(tag) ((tag) >> OP_BITS)
#define OP(tag)   ((tag)&OP_MASK)

struct cell {
    uint32_t writer, reader[READERS]; /* lane << OP_BITS | number of the piece */
};

enum { NOWHERE, UNWRITTEN, WRITTEN };

static_assert(FAKE_LANES <= UINT32_C(1) << (32 - OP_BITS), "a cell holds a lane");

static struct cell *cells;
static uint8_t *state; /* one for each byte */
static size_t n_bytes; /* of the range */
static const char *names[FAKE_LANES][NAMES];

static void *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) {
        abort();
    }
    return p;
}

void fake_race_reset(size_t bytes)
{
    if (cells != NULL) {
        (void)munmap(cells, n_bytes / 2 * sizeof(*cells));
        (void)munmap(state, n_bytes);
        cells = NULL;
    }
    n_bytes = bytes;
    if (bytes > 0) {
        cells = reserve(n_bytes / 2 * sizeof(*cells));
        state = reserve(n_bytes);
    }
}

static size_t offset(const void *p)
{
    return (size_t)((const uint8_t *)p - fake.base);
}

/* Forgets the accesses to earlier memory at this place: its owner had waited before freeing it, or
 * running work finds it gone. */
void fake_race_alloc(const void *p, size_t bytes, bool written)
{
    size_t at = offset(p);
    memset(state + at, written ? WRITTEN : UNWRITTEN, bytes);
    memset(&cells[at / 2], 0, (bytes + 1) / 2 * sizeof(*cells));
}

void fake_race_free(const void *p, size_t bytes)
{
    memset(state + offset(p), NOWHERE, bytes);
}

void fake_race_names(const struct piece *c, uint32_t op)
{
    names[c->lane][op % NAMES] = c->name;
}

void fake_clock_join(struct fake_clock *a, const struct fake_clock *b)
{
    for (int i = 0; i < FAKE_LANES; i++) {
        if (a->at[i] < b->at[i]) {
            a->at[i] = b->at[i];
        }
    }
}

static bool before(uint32_t tag, const struct fake_clock *c)
{
    return tag == NOBODY || OP(tag) <= c->at[LANE(tag)];
}

static void blame(uint32_t tag, const char *did, const void *p, bool write)
{
    if (fake.blamed) {
        return;
    }
    fake.blamed = true;
    fake_say("race: %s (stream %d) %s %p, which %s (stream %u) %s, and nothing orders the two",
             fake.running->name, fake.running->lane, write ? "writes" : "reads", p,
             names[LANE(tag)][OP(tag) % NAMES], LANE(tag), did);
}

static void note_reader(struct cell *x, uint32_t me, const struct fake_clock *c)
{
    int at = 0;
    for (int i = READERS - 1; i >= 0; i--) {
        if (before(x->reader[i], c)) { /* of this lane too */
            at = i;
        }
    }
    x->reader[at] = me;
}

static const char *judge(size_t at, size_t bytes, bool write)
{
    if (bytes > n_bytes - at || memchr(state + at, NOWHERE, bytes) != NULL) {
        return "outside of all allocations";
    }
    if (!write && !fake.o.lenient && !fake.unwritten &&
        memchr(state + at, UNWRITTEN, bytes) != NULL) {
        return "which nobody wrote";
    }
    return NULL;
}

static void touch(struct cell *x, const void *p, bool write)
{
    const struct piece *who = fake.running;
    const struct fake_clock *c = &who->clock;
    uint32_t me = (uint32_t)who->lane << OP_BITS | (c->at[who->lane] & OP_MASK);
    if (!before(x->writer, c)) {
        blame(x->writer, "wrote", p, write);
    }
    for (int r = 0; write && r < READERS; r++) {
        if (!before(x->reader[r], c)) {
            blame(x->reader[r], "read", p, write);
        }
    }
    if (write) {
        x->writer = me;
        memset(x->reader, 0, sizeof(x->reader));
    } else {
        note_reader(x, me, c);
    }
}

const char *fake_race(const void *p, size_t bytes, bool write)
{
    size_t at = offset(p);
    const char *why = judge(at, bytes, write);
    if (why != NULL || fake.running == NULL || bytes == 0) {
        return why;
    }
    if (write) {
        memset(state + at, WRITTEN, bytes);
    }
    for (size_t i = at / 2; i <= (at + bytes - 1) / 2; i++) {
        touch(&cells[i], fake.base + 2 * i, write);
    }
    return NULL;
}
