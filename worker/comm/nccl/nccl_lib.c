#include "worker/comm/nccl/nccl_lib.h"

#include <dlfcn.h>

#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/host/dl_symbols.h"

#define SYMBOL(f, o)                                                               \
    {                                                                              \
        .name = "nccl" #f, .at = offsetof(struct hsp_nccl_lib, f), .optional = (o) \
    }

static const struct hsp_dlsym symbols[] = {
    SYMBOL(GetVersion, false),
    SYMBOL(GetUniqueId, false),
    SYMBOL(CommInitRankConfig, false),
    SYMBOL(CommFinalize, false),
    SYMBOL(CommDestroy, false),
    SYMBOL(CommAbort, false),
    SYMBOL(CommGetAsyncError, false),
    SYMBOL(GetErrorString, false),
    SYMBOL(GetLastError, false),
    SYMBOL(GroupStart, false),
    SYMBOL(GroupEnd, false),
    SYMBOL(Send, false),
    SYMBOL(Recv, false),
    SYMBOL(AllReduce, false),
    SYMBOL(Reduce, false),
    SYMBOL(ReduceScatter, false),
    SYMBOL(AllGather, false),
    SYMBOL(Broadcast, false),
    SYMBOL(CommSplit, true),
};

/* Loads the library for good: threads of its own may still be in it, and CUDA calls it at the end
 * of the process. */
static void *load(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static enum hsp_status open_as(const char *name, void *handle, struct hsp_nccl_lib *ret,
                               struct hsp_err *err)
{
    struct hsp_nccl_lib l = {.handle = handle};
    if (l.handle == NULL) {
        const char *why = dlerror();
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "no NCCL: %s", why != NULL ? why : name);
    }
    enum hsp_status st = hsp_dlsyms_find(l.handle, name, symbols, HSP_ARRAY_LEN(symbols), &l, err);
    if (st == HSP_OK && l.GetVersion(&l.version) != NCCL_SUCCESS) {
        st = hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s does not tell its version", name);
    }
    if (st == HSP_OK && (l.version < NCCL_OLDEST || l.version > NCCL_NEWEST)) {
        st = hsp_err_set(err, HSP_EUNSUPPORTED, 0, "NCCL %d is not one of %d to %d", l.version,
                         NCCL_OLDEST, NCCL_NEWEST);
    }
    if (st == HSP_OK && l.version == NCCL_DEAF) {
        st = hsp_err_set(err, HSP_EUNSUPPORTED, 0,
                         "NCCL 2.25.1 hangs in ncclCommAbort; install 2.26.2 or later");
    }
    if (st != HSP_OK) {
        hsp_nccl_lib_close(&l);
        return st;
    }
    *ret = l;
    return HSP_OK;
}

enum hsp_status hsp_nccl_lib_seek(const char *folder, struct hsp_nccl_lib *ret, struct hsp_err *err)
{
    char path[HSP_NCCL_PATH];
    void *handle = NULL;
    if (folder == NULL) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "no NCCL: hspmd was built --without-nccl");
    }
    if (folder[0] != '\0') {
        hsp_str_printf(path, sizeof path, "%s/" HSP_NCCL_LIBRARY, folder);
        handle = load(path);
    }
    return open_as(handle != NULL ? path : HSP_NCCL_LIBRARY,
                   handle != NULL ? handle : load(HSP_NCCL_LIBRARY), ret, err);
}

enum hsp_status hsp_nccl_lib_open(const char *name, struct hsp_nccl_lib *ret, struct hsp_err *err)
{
    return name != NULL ? open_as(name, load(name), ret, err)
                        : hsp_nccl_lib_seek(HSP_NCCL_FOLDER, ret, err);
}

void hsp_nccl_lib_close(struct hsp_nccl_lib *l)
{
    if (l->handle != NULL) {
        (void)dlclose(l->handle); /* nothing can be done about it */
    }
    *l = (struct hsp_nccl_lib){0};
}

enum hsp_status hsp_nccl_failed(const struct hsp_nccl_lib *l, struct nccl_comm *c,
                                enum nccl_result r, const char *what, struct hsp_err *err)
{
    const char *more = l->GetLastError(c);
    bool peer = r == NCCL_REMOTE_ERROR || r == NCCL_SYSTEM_ERROR;
    return hsp_err_set(err, peer ? HSP_EPEER : HSP_EIO, 0, "NCCL: %s: %s%s%s", what,
                       l->GetErrorString(r), more != NULL && more[0] != '\0' ? ": " : "",
                       more != NULL ? more : "");
}

struct nccl_config hsp_nccl_config(int max_ctas)
{
    return (struct nccl_config){.size = sizeof(struct nccl_config),
                                .magic = NCCL_MAGIC,
                                .version = NCCL_OLDEST,
                                .blocking = 0,
                                .cga_cluster_size = NCCL_UNDEFINED,
                                .min_ctas = NCCL_UNDEFINED,
                                .max_ctas = max_ctas > 0 ? max_ctas : NCCL_UNDEFINED,
                                .net_name = NULL,
                                .split_share = NCCL_UNDEFINED};
}

bool hsp_nccl_type(enum hsp_dtype t, enum nccl_type *ret)
{
    switch (t) {
    case HSP_F32: *ret = NCCL_FLOAT32; return true;
    case HSP_F64: *ret = NCCL_FLOAT64; return true;
    case HSP_BF16: *ret = NCCL_BFLOAT16; return true;
    case HSP_I32: return false;
    }
    return false;
}
