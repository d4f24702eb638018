/* Runs kernels of the GPU on the host: a __global__ function runs with one fiber for each thread of
 * a block, blocks one after the other.
 *
 * Role:      replaces the GPU in tests on machines without one. fakekernel.h turns a launch into a
 *            struct hsp_fake_kernel. The fake runtime (fakecuda.h) queues it in its stream, and
 *            calls this file to run the kernel when the earlier work of the stream is done.
 * Threads:   one kernel at a time in the process; the caller locks.
 * Checks:    barriers that not all threads reach, warp functions whose lanes disagree, stacks that
 *            overflow, and the races of memshadow.h.
 * Bounds:    1024 threads a block, 228 KiB of dynamic shared memory, 128 KiB of stack a thread.
 */
#ifndef HSP_EMULATE_H
#define HSP_EMULATE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HSP_FAKE_WARP         32
#define HSP_FAKE_MAX_THREADS  1024
#define HSP_FAKE_MAX_SHARED   (227 * 1024) /* of a block, as on a Hopper */
#define HSP_FAKE_MAX_EXCHANGE 64           /* bytes that a lane gives to a warp function */

struct hsp_fake_kernel {
    const char *name;
    unsigned grid[3], block[3];
    size_t shared_bytes;     /* dynamic */
    void (*run)(void *args); /* one thread: calls the kernel */
};

/* Runs the kernel to its end with the borrowed @args. Returns NULL, or a fault in static storage
 * that ended the kernel. */
const char *hsp_fake_run_kernel(const struct hsp_fake_kernel *k, void *args);

/* Runs a struct hsp_fake_work (fakecuda.h) that is a launch: @args begins with its struct
 * hsp_fake_kernel. Defined in fakelaunch.c. */
void hsp_fake_run_launch(void *args);

/* Returns whether fibers can run. They cannot under valgrind (HSPMD_VALGRIND) and ThreadSanitizer,
 * which take the stacks of all fibers for one stack. */
bool hsp_fake_can_run(void);

/* Makes blocks and threads run in descending (@yes) or ascending order. The result of a correct
 * kernel does not depend on the order. */
void hsp_fake_run_backwards(bool yes);

/* Ends the running kernel with a fault, as a trap would; the first message of a kernel is kept.
 * Returns only if no kernel runs. */
void hsp_fake_fault(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- the view of a device function ---- */

struct hsp_fake_index {
    unsigned x, y, z;
};
extern struct hsp_fake_index hsp_fake_thread_index, hsp_fake_block_index, hsp_fake_block_extent,
    hsp_fake_grid_extent;

/* Returns the dynamic shared memory of the block, aligned to 1024 bytes. */
void *hsp_fake_dynamic_shared(void);
/* __syncthreads. */
void hsp_fake_barrier(void);
/* Every lane of @mask gives @bytes (at most HSP_FAKE_MAX_EXCHANGE) and gets those of all 32 lanes;
 * the bytes of lanes outside the mask are 0. @what: name of the function, equal in all lanes. */
void hsp_fake_warp_exchange(const char *what, unsigned mask, const void *mine, size_t bytes,
                            void *all);
/* Returns the linear index of the running thread in its block; -1 if no kernel runs. */
int hsp_fake_thread(void);
/* Grows by one at each barrier of the block, or at each whole-warp function of the thread's
 * warp. */
unsigned hsp_fake_block_epoch(void);
unsigned hsp_fake_warp_epoch(void);

#ifdef __cplusplus
}
#endif
#endif
