/* Asserts our own invariants. Never used on anything that comes from outside.
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

/* The only mutable global of the base library: a dying process has no other way to find its log. */
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
