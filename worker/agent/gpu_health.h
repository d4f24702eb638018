/* Judges the signs of a GPU's health: whether a sign is worth a line in the log, bars new work, or
 * ends all work.
 *
 * Role:    the agent's shell hears signs (worker/probe/nvml.h) and acts by the verdict.
 * Purity:  pure.
 * Bounds:  a state of fixed size for each GPU.
 *
 *   FINE --> WARN: told. Its work goes on. A warning ends when its cause does (heat), else it
 *            stays a day.
 *   any  --> CORDON: the device may still compute, but must not be trusted with more: its work is
 *            moved away in order, as from a device that leaves, and it gets none until its driver
 *            is loaded anew or it is reset.
 *   any  --> LOST: the device does not compute any more. Its executor is ended, and comes back
 *            without it to serve the state it had sealed.
 * A cordon for state that went bad ends after a day, and the next such sign is a cordon at once.
 * Other verdicts that are no warnings never get better by themselves.
 *
 * Source of XID numbers: NVIDIA's catalogue (GPU Deployment and Management Documentation, XID
 * Errors): those that end an application only, those that ask for a reset or drain, and those after
 * which the GPU is not reachable.
 */
#ifndef HSP_GPU_HEALTH_H
#define HSP_GPU_HEALTH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hsp_gpu_verdict { HSP_GPU_FINE, HSP_GPU_WARN, HSP_GPU_CORDON, HSP_GPU_LOST };
#define HSP_N_GPU_VERDICTS 4

enum hsp_gpu_sign_kind {
    HSP_SIGN_XID,             /* value: its number */
    HSP_SIGN_ECC_UNCORRECTED, /* memory errors so far, since the driver was loaded */
    HSP_SIGN_ECC_CORRECTED,   /* the same of those that were corrected */
    HSP_SIGN_REMAP_PENDING,   /* 1: rows of memory are to be replaced at the next reset */
    HSP_SIGN_REMAP_FAILED,    /* 1: there are no spare rows left */
    HSP_SIGN_SLOWED,          /* 1: clocks are down for heat or power (HW or SW); 0: they are not */
    HSP_SIGN_GONE,            /* the driver does not reach it */
    HSP_SIGN_DAMAGE           /* state that it held went bad while its job ran */
};

struct hsp_gpu_sign {
    enum hsp_gpu_sign_kind kind;
    uint64_t value;
};

/* a GPU slowed for so long is worth a word: shorter times are usual control of clocks */
#define HSP_GPU_SLOW_MS UINT64_C(10000)
#define HSP_GPU_WARN_MS UINT64_C(86400000) /* a warning without an end is forgotten after a day */
/* corrected errors within HSP_GPU_ECC_MS: memory that is failing */
#define HSP_GPU_ECC_BURST UINT64_C(1000)
#define HSP_GPU_ECC_MS    UINT64_C(3600000)
/* a second bit that goes bad in memory is not due to a cosmic ray */
#define HSP_GPU_DAMAGES 2u
#define HSP_GPU_WHY     120

struct hsp_gpu_health {
    enum hsp_gpu_verdict verdict;
    char why[HSP_GPU_WHY]; /* of the verdict; "" when FINE */
    uint64_t warned_ms;    /* when the verdict was found */
    bool ends;             /* CORDON that ends like a warning */
    bool slow_warned;      /* WARN for being slow, which ends with it */
    bool slowed;
    uint64_t slowed_ms; /* since when */
    /* corrected, uncorrected: the first counts are errors from before this agent */
    bool knows_ecc[2];
    uint64_t ecc[2], ecc_ms;
    uint32_t damages; /* of state, so far */
};

/* A GPU of which nothing is known. */
void hsp_gpu_health_init(struct hsp_gpu_health *h);
/* Takes a sign in at @now_ms, which never descends. Returns true if the verdict or its reason is
 * another now. */
bool hsp_gpu_health_sign(struct hsp_gpu_health *h, const struct hsp_gpu_sign *s, uint64_t now_ms);
/* The passage of time: a GPU that stays slow, a warning that is old. True as above. */
bool hsp_gpu_health_tick(struct hsp_gpu_health *h, uint64_t now_ms);

/* The verdict of an XID by itself, and a few words on it. */
enum hsp_gpu_verdict hsp_gpu_xid(uint64_t xid, const char **ret_words);
const char *hsp_gpu_verdict_name(enum hsp_gpu_verdict v); /* "fine", "warn", "cordon", "lost" */

#endif
