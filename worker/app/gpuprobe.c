/* See gpuprobe.h. */
#include "worker/app/gpuprobe.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLOCK_HZ 1.5e9 /* of a GPU under load */
#define REACHED  0.6   /* of its peak by products */
#define SLICE    0.5   /* of the bandwidth of its kind */

struct answer {
    enum hsp_status status;
    struct hsp_err why;
    struct hsp_device_info info;
};

/* In the child. */
static void ask(uint32_t index, struct answer *a)
{
    const struct hsp_device_plugin *plugin = NULL;
    struct hsp_backend *b = NULL;
    a->status = hsp_backend_device_open((int)index, NULL, &b, &a->why);
    if (a->status == HSP_OK) {
        a->status = hsp_plugin_load(NULL, &plugin, &a->why);
    }
    if (a->status == HSP_OK) { /* with the context open, as an executor's will be */
        a->status = plugin->describe((int)index, &a->info, &a->why);
    }
    if (b != NULL) {
        b->close(b);
    }
}

/* Products and bandwidth by the number of multiprocessors: 128 lanes of fp32 each, tensor cores 4 times (Turing,
 * Ampere) to 16 times (Hopper, Blackwell) as much, fp64 a half on the large ones, else 1/32. */
static struct hsp_probe estimate(const struct hsp_device_info *d)
{
    double fp32 = REACHED * 2.0 * 128.0 * (double)d->n_sms * CLOCK_HZ;
    bool large = d->sm == 80 || d->sm == 90 || d->sm == 100;
    double tensor = d->sm >= 90 ? 12.0 : 6.0;
    return (struct hsp_probe){.gemm_fp32_flops = fp32,
                              .gemm_fp64_flops = large ? fp32 / 2.0 : fp32 / 32.0,
                              .gemm_tf32_flops = d->sm >= 80 ? fp32 * tensor / 2.0 : 0.0,
                              .gemm_bf16_flops = d->bf16 ? fp32 * tensor : 0.0,
                              .mem_bytes_per_s = SLICE * (large ? 2.0e12 : 6.0e11),
                              .op_us = 4.0,
                              .share = 1.0};
}

enum hsp_status hsp_gpu_probe(uint32_t index, struct hsp_device_info *ret,
                              struct hsp_probe *ret_can, struct hsp_err *err)
{
    int end[2];
    struct answer a = {.status = HSP_EIO};
    if (pipe(end) != 0) {
        return hsp_err_set(err, HSP_EIO, errno, "no pipe to look at GPU %u", index);
    }
    pid_t pid = fork();
    if (pid == 0) {
        ask(index, &a);
        _exit(write(end[1], &a, sizeof a) == (ssize_t)sizeof a ? 0 : 1);
    }
    (void)close(end[1]);
    ssize_t n = pid > 0 ? read(end[0], &a, sizeof a) : -1;
    (void)close(end[0]);
    if (pid > 0) {
        (void)waitpid(pid, NULL, 0);
    }
    if (n != (ssize_t)sizeof a) {
        return hsp_err_set(err, HSP_EIO, 0, "no GPU %u: the process that looks at it has died",
                           index);
    }
    if (a.status != HSP_OK) {
        *err = a.why;
        return a.status;
    }
    *ret = a.info;
    *ret_can = estimate(&a.info);
    return HSP_OK;
}
