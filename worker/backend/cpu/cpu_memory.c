#include "worker/backend/cpu/cpu_memory.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/base/size.h"
#include "proto/op/bf16.h"
#include "worker/backend/cpu/cpu.h"

#define PAGE ((size_t)4096) /* a page before each area; it holds the length of the area */

/* Maps the memory, so that it is zeros, and pages that nobody touches cost nothing. */
static enum hsp_status mem_alloc(struct hsp_backend *b, enum hsp_mem mem, size_t bytes, void **ret,
                                 struct hsp_err *err)
{
    size_t all;
    (void)b;
    if (bytes == 0) {
        *ret = NULL;
        return HSP_OK;
    }
    void *p = MAP_FAILED;
    if (hsp_add_size(bytes, PAGE, &all)) {
        p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (p == MAP_FAILED) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no %smemory for %zu bytes",
                           mem == HSP_MEM_HOST ? "host " : "", bytes);
    }
    *(size_t *)p = all;
    *ret = (uint8_t *)p + PAGE;
    return HSP_OK;
}

static void mem_release(struct hsp_backend *b, enum hsp_mem mem, void *p)
{
    (void)b;
    (void)mem;
    if (p != NULL) {
        void *all = (uint8_t *)p - PAGE;
        (void)munmap(all, *(const size_t *)all);
    }
}

struct copy {
    uint8_t *dst;
    const uint8_t *src;
};

static void copy_range(const void *ctx, unsigned worker, int64_t lo, int64_t hi)
{
    const struct copy *c = ctx;
    (void)worker;
    memcpy(c->dst + lo, c->src + lo, (size_t)(hi - lo));
}

/* Copies the state by the caller and the idle workers, other memory by memmove: a wrong program may
 * place tensors over each other (cells.h). */
static enum hsp_status mem_copy(struct hsp_backend *b, enum hsp_devq q, void *dst, const void *src,
                                size_t bytes, struct hsp_err *err)
{
    (void)err;
    if (q == HSP_DEVQ_STATE && bytes > (size_t)HSP_CPU_BLOCK) {
        const struct copy c = {dst, src};
        const struct hsp_cpu *cpu = (const struct hsp_cpu *)b;
        hsp_workpool_beside(cpu->pool, (int64_t)bytes, HSP_CPU_BLOCK, copy_range, &c);
    } else if (bytes > 0) {
        memmove(dst, src, bytes);
    }
    return HSP_OK;
}

static enum hsp_status mem_fill(struct hsp_backend *b, enum hsp_devq q, enum hsp_dtype t, void *dst,
                                double value, int64_t n, struct hsp_err *err)
{
    (void)b;
    (void)q;
    (void)err;
    if (n > 0 && fpclassify(value) == FP_ZERO) { /* zero has the same bytes in each type */
        memset(dst, 0, (size_t)n * hsp_dtype_size(t));
        return HSP_OK;
    }
    for (int64_t k = 0; k < n; k++) {
        switch (t) {
        case HSP_F32: ((float *)dst)[k] = (float)value; break;
        case HSP_F64: ((double *)dst)[k] = value; break;
        case HSP_I32: ((int32_t *)dst)[k] = (int32_t)value; break;
        case HSP_BF16: ((uint16_t *)dst)[k] = hsp_bf16_of((float)value); break;
        }
    }
    return HSP_OK;
}

static enum hsp_status mem_cells(struct hsp_backend *b, enum hsp_devq q,
                                 const struct hsp_cell_view *dst, const struct hsp_cell_view *src,
                                 const struct hsp_box *cell, enum hsp_cells how,
                                 struct hsp_err *err)
{
    (void)b;
    (void)q;
    (void)err;
    if (how == HSP_CELLS_COPY) {
        hsp_cell_copy(dst, src, cell);
    } else {
        hsp_cell_reduce(dst, src, cell, how == HSP_CELLS_MAX ? HSP_REDUCE_MAX : HSP_REDUCE_SUM);
    }
    return HSP_OK;
}

static enum hsp_status queue_mark(struct hsp_backend *b, enum hsp_devq q, uint64_t *ret_ticket,
                                  struct hsp_err *err)
{
    (void)b;
    (void)q;
    (void)err;
    *ret_ticket = 1;
    return HSP_OK;
}

static enum hsp_status queue_await(struct hsp_backend *b, enum hsp_devq q, enum hsp_devq of,
                                   uint64_t ticket, struct hsp_err *err)
{
    (void)b;
    (void)q;
    (void)of;
    (void)ticket;
    (void)err;
    return HSP_OK;
}

static enum hsp_status queue_finish(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket,
                                    struct hsp_err *err)
{
    (void)b;
    (void)of;
    (void)ticket;
    (void)err;
    return HSP_OK;
}

static bool queue_reached(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket)
{
    (void)b;
    (void)of;
    (void)ticket;
    return true;
}

static void *queue_native(struct hsp_backend *b, enum hsp_devq q)
{
    (void)b;
    (void)q;
    return NULL;
}

void hsp_cpu_memory(struct hsp_backend *b)
{
    b->alloc = mem_alloc;
    b->release = mem_release;
    b->copy = mem_copy;
    b->fill = mem_fill;
    b->cells = mem_cells;
    b->mark = queue_mark;
    b->await = queue_await;
    b->finish = queue_finish;
    b->reached = queue_reached;
    b->native = queue_native;
}
