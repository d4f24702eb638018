/* Reads identity, connections and health of the GPUs of this host from libnvidia-ml.so.1.
 *
 * Role:    the agent's shell: discovery for its HELLO, signs for worker/agent/gpu_health.h. The
 *          agent has no CUDA context, and needs none for this.
 * Purity:  shell (dlopen, sysfs).
 * Threads: hsp_nvml_hear and hsp_nvml_look by one thread, which the first may keep waiting; the
 *          rest by any, but not during close.
 */
#ifndef HSP_NVML_H
#define HSP_NVML_H
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"
#include "worker/agent/gpu_health.h"

#define HSP_NVML_LIBRARY "libnvidia-ml.so.1"
#define HSP_NVML_GPUS    64 /* of a host; those beyond are not looked at */
#define HSP_NVML_NAME    96

struct hsp_nvml;

struct hsp_gpu {
    char uuid[HSP_NVML_NAME]; /* "GPU-..." */
    char name[HSP_NVML_NAME]; /* "NVIDIA H200" */
    uint64_t memory_bytes;    /* all of it */
    char pci[32];             /* "0000:3b:00.0", as sysfs names it */
    int sm;                   /* compute capability, 10 major + minor; 0: it does not say */
    int numa;                 /* node of the processors nearest to it, -1: not known */
    bool mig;                 /* split by MIG; its parts are not looked at */
    char cpus[128];           /* processors nearest to it, "0-23,48-71"; "" not known */
    /* The network card nearest to it in the PCI tree, "" where none is nearer than others. */
    char card[16];
};

/* How two GPUs reach each other. */
enum hsp_gpu_path {
    HSP_GPU_NVLINK,      /* links between the two */
    HSP_GPU_NVSWITCH,    /* both have links to switches */
    HSP_GPU_PCI_SWITCH,  /* below one PCI bridge */
    HSP_GPU_HOST_BRIDGE, /* of one root of PCI */
    HSP_GPU_NUMA,        /* of one node of processors */
    HSP_GPU_SYSTEM       /* across them */
};

/* @name: NULL: HSP_NVML_LIBRARY. @sys: NULL: "/sys". HSP_EUNSUPPORTED: no such library, no driver,
 * a function it has not; the message says which. HSP_ENOMEM. */
enum hsp_status hsp_nvml_open(const char *name, const char *sys, struct hsp_nvml **ret,
                              struct hsp_err *err);
struct hsp_nvml *hsp_nvml_close(struct hsp_nvml *n); /* NULL is fine; returns NULL */
unsigned hsp_nvml_count(const struct hsp_nvml *n);

/* HSP_EIO: the library does not tell; HSP_ENODEV: the GPU is lost. */
enum hsp_status hsp_nvml_gpu(struct hsp_nvml *n, unsigned i, struct hsp_gpu *ret,
                             struct hsp_err *err);
/* The shortest path of two GPUs; *ret_links: of NVLink, the links between them, or to switches the
 * fewer of both. */
enum hsp_gpu_path hsp_nvml_path(struct hsp_nvml *n, unsigned a, unsigned b, unsigned *ret_links);
/* Bytes a second one way that a large message gets over @links of NVLink between GPUs of @sm (the
 * older one); 0 for the other paths, and of GPUs we do not know. */
double hsp_gpu_path_rate(enum hsp_gpu_path p, unsigned links, int sm);

/* Waits up to @wait_ms for a sign that comes by itself (an XID, a memory error). @sink: called for
 * each sign, of GPU @i, in this thread. */
void hsp_nvml_hear(struct hsp_nvml *n, uint32_t wait_ms,
                   void (*sink)(void *ctx, unsigned i, const struct hsp_gpu_sign *s), void *ctx);
/* Polls values that come without events: counters, clocks, presence. */
void hsp_nvml_look(struct hsp_nvml *n,
                   void (*sink)(void *ctx, unsigned i, const struct hsp_gpu_sign *s), void *ctx);

#endif
