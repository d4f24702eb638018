/* Defines the functions that code compiled with -fsanitize=thread calls. Kernels of the tests are
 * compiled so, and nothing else; no run-time library of the compiler is linked. */
#include <stdint.h>

#include "tests/lib/fakecuda/memshadow.h"

#define HOOK(name, n, how)                 \
    void __tsan_##name(void *p);           \
    void __tsan_##name(void *p)            \
    {                                      \
        hsp_fake_shadow_access(p, n, how); \
    }
#define HOOKS(n)                              \
    HOOK(read##n, n, HSP_FAKE_READ)           \
    HOOK(write##n, n, HSP_FAKE_WRITE)         \
    HOOK(unaligned_read##n, n, HSP_FAKE_READ) \
    HOOK(unaligned_write##n, n, HSP_FAKE_WRITE)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_read_range(void *p, unsigned long n);
void __tsan_read_range(void *p, unsigned long n)
{
    hsp_fake_shadow_access(p, n, HSP_FAKE_READ);
}

void __tsan_write_range(void *p, unsigned long n);
void __tsan_write_range(void *p, unsigned long n)
{
    hsp_fake_shadow_access(p, n, HSP_FAKE_WRITE);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc);
void __tsan_func_entry(void *pc)
{
    (void)pc;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}
