#include "worker/run/run_device.h"

#include <string.h>

#include "proto/base/str.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/backend/plugin.h"

#define CUDA "cuda"

enum hsp_status hsp_run_device_parse(const char *text, struct hsp_run_device *ret,
                                     struct hsp_err *err)
{
    size_t n = strlen(CUDA);
    uint64_t index = 0;
    bool cuda = strncmp(text, CUDA, n) == 0;
    bool numbered = cuda && text[n] == ':' && hsp_parse_u64(text + n + 1, &index) && index < 1024;
    if (strcmp(text, "cpu") != 0 && !numbered && strcmp(text, CUDA) != 0) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%s is no device: cpu, cuda or cuda:N", text);
    }
    *ret = (struct hsp_run_device){.gpu = cuda, .index = numbered ? (int)index : -1};
    return HSP_OK;
}

/* The GPU of @rank. */
static enum hsp_status index_of(const struct hsp_run_device *d, uint32_t rank, int *ret,
                                struct hsp_err *err)
{
    const struct hsp_device_plugin *plugin;
    int n = 0;
    *ret = d->index;
    enum hsp_status st = hsp_plugin_load(NULL, &plugin, err);
    if (st == HSP_OK && d->index < 0) {
        st = plugin->count(&n, err);
        *ret = n > 0 ? (int)(rank % (uint32_t)n) : 0;
    }
    return st;
}

enum hsp_status hsp_run_device_open(void *ctx, uint32_t rank, int threads, struct hsp_backend **ret,
                                    struct hsp_err *err)
{
    const struct hsp_run_device *d = ctx;
    int index = 0;
    if (!d->gpu) {
        return hsp_backend_cpu_open(threads, ret, err);
    }
    enum hsp_status st = index_of(d, rank, &index, err);
    return st == HSP_OK ? hsp_backend_device_open(index, NULL, ret, err) : st;
}

uint64_t hsp_run_device_gpu(void *ctx, uint32_t rank)
{
    const struct hsp_run_device *d = ctx;
    int index = 0;
    return d->gpu && index_of(d, rank, &index, NULL) == HSP_OK ? hsp_device_identity(NULL, index)
                                                               : 0;
}
