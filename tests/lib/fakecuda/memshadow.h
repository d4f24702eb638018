/* Records the accesses of kernels on the host to memory of the device, and finds their races.
 *
 * Role:    kernels of the tests are compiled with -fsanitize=thread, and the functions that this
 *          calls at each access are ours: they look the access up here. Without it (a build with
 *          --enable-sanitize=thread) kernels run unchecked.
 * Device:  one range of addresses. A kernel's accesses there are gathered, and given to the
 *          runtime when the kernel has ended. Blocks run in any order: two blocks of a kernel may
 *          not touch the same bytes unless both read or both are atomic.
 * Shared:  memory that is neither of the device nor on a stack. Two threads of a block may not
 *          touch the same bytes, one of them writing, without a barrier (or, in a warp, a warp
 *          function) between.
 * Threads: as emulate.h.
 */
#ifndef HSP_MEMSHADOW_H
#define HSP_MEMSHADOW_H
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the addresses of device memory, multiples of 4096. Aborts if there is no room for the
 * shadow, which is 9 times as large, but takes memory only for its used part. A second call
 * replaces the first. */
void hsp_fake_shadow_init(void *base, size_t bytes);
void hsp_fake_shadow_fini(void);
/* Calls @fn for each run of bytes of the device that the last kernel read before it wrote them, in
 * ascending order, then for each that it wrote. */
typedef void (*hsp_fake_touched_fn)(void *ctx, void *p, size_t n, bool write);
void hsp_fake_shadow_touched(hsp_fake_touched_fn fn, void *ctx);

/* emulate.c calls these when a kernel begins and when a block begins. */
void hsp_fake_shadow_kernel(const void *stacks, size_t bytes);
void hsp_fake_shadow_block(void);

enum hsp_fake_access { HSP_FAKE_READ, HSP_FAKE_WRITE, HSP_FAKE_ATOMIC };
/* Records one access of the running thread. */
void hsp_fake_shadow_access(const void *p, size_t n, enum hsp_fake_access how);

#ifdef __cplusplus
}
#endif
#endif
