/* Plays libnvidia-ml.so.1 without GPUs, as a test orders.
 *
 * Role: a shared object for tests, loaded as the library is (worker/probe/nvml.h); its one symbol
 *       beside the library's own is hsp_fakenvml.
 * In a program of its own a file does: $HSPMD_FAKENVML names it, of lines `gpu BUS`, `links A B N`,
 * `xid GPU NUMBER`, `uncorrected GPU COUNT`; added lines happen when they are added.
 */
#ifndef HSP_FAKENVML_H
#define HSP_FAKENVML_H
#include <stdbool.h>

#define HSP_FAKENVML_GPUS  8
#define HSP_FAKENVML_LINKS 18
#define HSP_FAKENVML_FILE  "tests/lib/fakenvml/libnvidia-ml.so.1" /* in the build */

struct hsp_fakenvml_gpu {
    bool lost; /* every question is answered so */
    bool no_ecc, mig;
    unsigned bus;
    unsigned long long memory, corrected, uncorrected, slow;
    unsigned pending, failed;
    int link[HSP_FAKENVML_LINKS]; /* 0: none; k + 1: to GPU k; -1: to a switch */
};

struct hsp_fakenvml {
    void (*reset)(unsigned n); /* @n GPUs that are well */
    struct hsp_fakenvml_gpu *(*gpu)(unsigned i);
    void (*no_driver)(void); /* until reset */
    void (*event)(unsigned i, unsigned long long type, unsigned long long data);
    unsigned (*open)(void); /* Init less Shutdown */
};

#endif
