#include "worker/executor/epoch_memory.h"

#include <inttypes.h>
#include <sys/statvfs.h>

#include "proto/program/pool.h"
#include "worker/executor/epoch_device.h"
#include "worker/executor/epoch_segments.h"
#include "worker/executor/folder_fault.h"

/* Returns the bytes of those of the two segments of one owner that are open. */
static uint64_t open_bytes(struct hsp_state_segment *const seg[2])
{
    return (seg[0] != NULL ? (uint64_t)hsp_segment_area_bytes(seg[0]) : 0) +
           (seg[1] != NULL ? (uint64_t)hsp_segment_area_bytes(seg[1]) : 0);
}

/* Returns the number of bytes that the epoch needs. Segments are in host memory, so their bytes
 * count only if the device is a CPU. */
static uint64_t memory_needed(const struct hsp_ex_epoch *e)
{
    uint64_t state = (uint64_t)e->prog.bind.state_bytes;
    uint64_t n = (uint64_t)(hsp_pool_memory(&e->prog, e->shorter, e->pkg.n_shorter) +
                            hsp_pool_comm(&e->prog, e->shorter, e->pkg.n_shorter)) +
                 state;
    if (!e->env->backend->device) { /* a CPU computes on bf16 in fp32 */
        n += (uint64_t)hsp_pool_wide(&e->prog, e->shorter, e->pkg.n_shorter) + 2 * state;
    }
    for (uint32_t i = 0; i < e->n_copies && !e->env->backend->device; i++) {
        n += open_bytes(e->copies[i].seg);
    }
    return n;
}

/* Returns the number of bytes by which the device must reduce its offer if the folder has no room
 * for the segments (hsp_folder_lack). Until this epoch has begun, the folder may also have the
 * state of an earlier layout of the job; then the next plan is to put this state on other nodes. */
static uint64_t folder_lacks(const struct hsp_ex_epoch *e)
{
    uint64_t offered = e->env->mem_bytes, room = open_bytes(e->seg);
    uint64_t state = 2 * (uint64_t)e->prog.bind.state_bytes;
    struct statvfs fs;
    if (!e->member) { /* a replica holder: a smaller plan would not make its copies smaller */
        return 0;
    }
    if (statvfs(e->env->state_dir, &fs) == 0) {
        room += (uint64_t)fs.f_bavail * fs.f_frsize;
    }
    return hsp_folder_lack(offered, memory_needed(e), state, room);
}

enum hsp_status hsp_epoch_take_memory(struct hsp_ex_epoch *e, enum hsp_fact_kind *ret_fact,
                                      uint64_t *ret_amount, struct hsp_err *err)
{
    hsp_epoch_device_clear(e);
    enum hsp_status st = hsp_epoch_open_segments(e, err);
    if (st == HSP_ESTATE || st == HSP_EUNSUPPORTED) {
        *ret_fact = HSP_FACT_STATE_SHAPE;
        *ret_amount = st == HSP_ESTATE ? 0 : UINT64_MAX;
        return st;
    }
    if (st != HSP_OK) {
        *ret_fact = hsp_folder_fault(err);
        *ret_amount = *ret_fact == HSP_FACT_OUT_OF_MEMORY ? folder_lacks(e) : 0;
        if (*ret_amount == UINT64_MAX) { /* no plan would fit */
            *ret_fact = HSP_FACT_STATE_FOLDER;
            *ret_amount = 0;
        }
        return st;
    }
    uint64_t need = e->mem_bytes = memory_needed(e);
    *ret_fact = HSP_FACT_OUT_OF_MEMORY;
    if (e->member && need > e->env->mem_bytes) { /* replica holders need room only in the folder */
        *ret_amount = need - e->env->mem_bytes;
        return hsp_err_set(err, HSP_ENOMEM, 0,
                           "needs %" PRIu64 " bytes, the device offers %" PRIu64, need,
                           e->env->mem_bytes);
    }
    bool of_host;
    st = hsp_epoch_device_take(e, &of_host, err);
    if (st != HSP_OK && (st != HSP_ENOMEM || of_host)) { /* no other plan needs less host memory */
        *ret_fact = HSP_FACT_OTHER;
    }
    return st;
}
