/* Asserts invariants of this program. Input from outside is never checked by assertions.
 *
 * Role:    HSP_ASSERT is always compiled in; HSP_DASSERT only in debug and sanitizer builds
 *          (HSP_DEBUG), for checks that cost O(n).
 * Purity:  the failure path prints to stderr and aborts; nothing else here does I/O.
 * Threads: the hook is installed once, in main, before other threads start.
 */
#ifndef HSP_CHECK_H
#define HSP_CHECK_H

/* Called once by a failing assertion before abort(), e.g. to dump the log ring. */
typedef void (*hsp_assert_hook)(const char *expr, const char *file, int line);

/* The base library has no other mutable global: a process that aborts could not find its log
 * without this one. */
void hsp_assert_set_hook(hsp_assert_hook hook);

_Noreturn void hsp_assert_fail(const char *expr, const char *file, int line);

#define HSP_ASSERT(x)                                \
    do {                                             \
        if (!(x)) {                                  \
            hsp_assert_fail(#x, __FILE__, __LINE__); \
        }                                            \
    } while (0)

#ifdef HSP_DEBUG
#define HSP_DASSERT(x) HSP_ASSERT(x)
#else
#define HSP_DASSERT(x) ((void)(0 && (x))) /* checked by the compiler, not evaluated */
#endif

#endif
