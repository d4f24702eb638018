/* Runs a launch in its turn: the kernel, then its accesses, told to the runtime. */
#include "tests/lib/fakecuda/emulate.h"
#include "tests/lib/fakecuda/fakecuda.h"
#include "tests/lib/fakecuda/memshadow.h"

static void touched(void *ctx, void *p, size_t n, bool write)
{
    bool *good = ctx;
    *good = *good && hsp_fake_touch(p, n, write);
}

void hsp_fake_run_launch(void *args)
{
    static void *base;
    static size_t bytes;
    void *now;
    size_t n;
    hsp_fake_range(&now, &n);
    if (now != base || n != bytes) {
        base = now;
        bytes = n;
        hsp_fake_shadow_init(base, bytes);
    }
    const char *wrong = hsp_fake_run_kernel(args, args);
    if (wrong != NULL) {
        hsp_fake_blame(wrong);
        hsp_fake_lose(cudaErrorLaunchFailure);
        return;
    }
    bool good = true;
    hsp_fake_shadow_touched(touched, &good);
}
