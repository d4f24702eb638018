#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/lib/mockdevint.h"

#define PAGE ((size_t)4096)

static const char *queue_name(enum hsp_devq q)
{
    static const char *const name[] = {"compute", "comm", "state"};
    return q < HSP_DEVQ_LANE ? name[q] : "lane";
}

struct hsp_mockdev_area *hsp_mockdev_area_new(enum hsp_mem mem, size_t bytes)
{
    struct hsp_mockdev_area *a = calloc(1, sizeof(*a));
    struct hsp_mockdev_part *part = calloc(1, sizeof(*part));
    size_t mapped = (bytes + PAGE - 1) / PAGE * PAGE + PAGE; /* a page that faults behind it */
    void *real = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *at = real;
    if (mem == HSP_MEM_DEVICE) {
        at = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (a == NULL || part == NULL || real == MAP_FAILED || at == MAP_FAILED) {
        free(a);
        free(part);
        return NULL;
    }
    memset(real, 0xc5, bytes); /* contents are undefined */
    *part = (struct hsp_mockdev_part){.to = bytes};
    *a = (struct hsp_mockdev_area){.at = at,
                                   .real = real,
                                   .bytes = bytes,
                                   .mapped = mapped,
                                   .mem = mem,
                                   .part = part,
                                   .n = 1,
                                   .cap = 1};
    return a;
}

struct hsp_mockdev_area *hsp_mockdev_area_of(void *p, size_t bytes)
{
    struct hsp_mockdev_area *a = calloc(1, sizeof(*a));
    struct hsp_mockdev_part *part = calloc(1, sizeof(*part));
    if (a == NULL || part == NULL) {
        free(a);
        free(part);
        return NULL;
    }
    *part = (struct hsp_mockdev_part){.to = bytes};
    *a = (struct hsp_mockdev_area){
        .at = p, .real = p, .bytes = bytes, .mem = HSP_MEM_HOST, .part = part, .n = 1, .cap = 1};
    return a;
}

void hsp_mockdev_area_free(struct hsp_mockdev_area *a)
{
    if (a->at != a->real) {
        (void)munmap(a->at, a->mapped);
    }
    if (a->mapped > 0) { /* else the caller's */
        (void)munmap(a->real, a->mapped);
    }
    free(a->part);
    free(a);
}

struct hsp_mockdev_area *hsp_mockdev_find(struct hsp_mockdev_area *all, const void *p, size_t bytes)
{
    uintptr_t x = (uintptr_t)p;
    for (struct hsp_mockdev_area *a = all; a != NULL; a = a->next) {
        uintptr_t from = (uintptr_t)a->at;
        if (x >= from && x - from <= a->bytes && bytes <= a->bytes - (x - from)) {
            return a;
        }
    }
    return NULL;
}

/* The first part that ends behind @at. */
static size_t part_at(const struct hsp_mockdev_area *a, size_t at)
{
    size_t lo = 0, hi = a->n - 1;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (a->part[mid].to > at) {
            hi = mid;
        } else {
            lo = mid + 1;
        }
    }
    return lo;
}

/* Makes a part begin at @at, if that is inside of one. False: no memory. */
static bool split(struct hsp_mockdev_area *a, size_t at)
{
    if (at == 0 || at >= a->bytes) {
        return true;
    }
    size_t k = part_at(a, at);
    if (a->part[k].from == at) {
        return true;
    }
    if (a->n == a->cap) {
        struct hsp_mockdev_part *more = realloc(a->part, 2 * a->cap * sizeof(*more));
        if (more == NULL) {
            return false;
        }
        a->part = more;
        a->cap *= 2;
    }
    memmove(&a->part[k + 1], &a->part[k], (a->n - k) * sizeof(*a->part));
    a->n++;
    a->part[k].to = a->part[k + 1].from = at;
    return true;
}

/* The first conflict of an access with work not known to be done. */
static bool judge(const struct hsp_mockdev_part *p, const struct hsp_mockdev_touch *t,
                  struct hsp_err *err)
{
    if (p->wrote > 0 && p->wrote_by != t->q && p->wrote > t->known->done[p->wrote_by]) {
        (void)hsp_err_set(err, HSP_EIO, 0,
                          "mockdev: %s of queue %s %s what queue %s writes, without waiting for it",
                          t->what, queue_name(t->q), t->write ? "writes" : "reads",
                          queue_name(p->wrote_by));
        return false;
    }
    for (int q = 0; q < HSP_N_DEVQ && t->write; q++) {
        if (q != (int)t->q && p->read[q] > t->known->done[q]) {
            (void)hsp_err_set(
                err, HSP_EIO, 0,
                "mockdev: %s of queue %s writes what queue %s reads, without waiting for it",
                t->what, queue_name(t->q), queue_name((enum hsp_devq)q));
            return false;
        }
    }
    return true;
}

bool hsp_mockdev_note(struct hsp_mockdev_area *a, const void *p, size_t bytes,
                      const struct hsp_mockdev_touch *t, struct hsp_err *err)
{
    size_t from = (size_t)((const uint8_t *)p - a->at), to = from + bytes;
    if (bytes == 0) {
        return true;
    }
    if (!split(a, from) || !split(a, to)) {
        (void)hsp_err_set(err, HSP_ENOMEM, 0, "mockdev: no memory");
        return false;
    }
    size_t first = part_at(a, from), k = first;
    for (; k < a->n && a->part[k].from < to; k++) {
        if (!judge(&a->part[k], t, err)) {
            return false;
        }
        a->part[k].read[t->q] = t->number;
    }
    if (t->write) { /* one history from now on */
        a->part[first] =
            (struct hsp_mockdev_part){.from = from, .to = to, .wrote = t->number, .wrote_by = t->q};
        memmove(&a->part[first + 1], &a->part[k], (a->n - k) * sizeof(*a->part));
        a->n -= k - first - 1;
    }
    return true;
}

bool hsp_mockdev_pending(const struct hsp_mockdev_area *a, const void *p, size_t bytes,
                         const struct hsp_mockdev_clock *known, bool reads)
{
    size_t from = (size_t)((const uint8_t *)p - a->at);
    for (size_t k = part_at(a, from); k < a->n && a->part[k].from < from + bytes; k++) {
        const struct hsp_mockdev_part *x = &a->part[k];
        if (x->wrote > known->done[x->wrote_by]) {
            return true;
        }
        for (int q = 0; q < HSP_N_DEVQ && reads; q++) {
            if (x->read[q] > known->done[q]) {
                return true;
            }
        }
    }
    return false;
}
