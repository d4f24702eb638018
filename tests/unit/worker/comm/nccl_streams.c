#include "tests/unit/worker/comm/nccl_streams.h"

#include "tests/lib/fakecuda/fakecuda.h"
#include "tests/unit/worker/comm/nccl_world.h"

static bool work_ready(void *args)
{
    const struct hsp_fakenccl_work *w = args;
    return w->ready(w->arg);
}

static void work_run(void *args)
{
    const struct hsp_fakenccl_work *w = args;
    w->run(w->arg);
}

static void submit(void *stream, const struct hsp_fakenccl_work *w)
{
    const struct hsp_fake_work f = {
        .name = "nccl", .run = work_run, .ready = work_ready, .args = w, .bytes = sizeof *w};
    assert_int_equal(hsp_fake_submit(stream, &f), cudaSuccess);
}

static void touch(const void *p, size_t bytes, bool write)
{
    (void)hsp_fake_touch(p, bytes, write);
}

void nw_use_cuda_streams(void)
{
    nw_fake()->set_streams(submit, touch);
}
