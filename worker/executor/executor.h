/* Runs the executor: the process that owns one device and runs the device's programs.
 *
 * Role:    `hspmd-worker --executor FD ...`, started and supervised by the agent. An executor never
 *          outlives its agent.
 * Threads: the control thread (this file) reads the agent's messages and opens and closes epochs;
 *          each epoch has threads of its own (epoch.h).
 */
#ifndef HSP_EXECUTOR_H
#define HSP_EXECUTOR_H
#include <stdbool.h>
#include <stdint.h>
#include "proto/host/log.h"
#include "worker/backend/backend.h"
#include "worker/comm/mesh/mesh.h"
#include "worker/executor/nccl_log.h"

/* Exit status of an executor whose device has failed or cannot be opened: the agent has to start a
 * new process, or an administrator has to help. */
#define HSP_EXIT_DEVICE 4

struct hsp_executor_opts {
    int fd; /* socketpair to the agent */
    uint32_t device;
    int gpu_index; /* index of the GPU in CUDA's order; -1: a CPU */
    const char *node, *state_dir;
    const char *listen, *advertise;    /* addresses of the data plane; advertise NULL: listen */
    enum hsp_mesh_transport transport; /* transport to devices of this host */
    double speed;                      /* part of a core; 1: not paced */
    uint64_t mem_bytes;                /* memory offered to jobs; on a GPU no more can be taken */
    uint32_t threads;                  /* threads of a CPU device */
    uint32_t heartbeat_ms;
    const char *audit_dir;        /* NULL: no audit */
    const char *kill_dir;         /* folder for orders of tests (kill_point.h); NULL: none */
    const char *bare_file;        /* file of tests (unprotected.h); NULL: none */
    uint64_t gpu;                 /* hash of the GPU's identity (hsp_device_identity); 0: no GPU */
    bool nccl_unknown;            /* NCCL may have settings that are not in the environment */
    const char *nccl;             /* library of NCCL, for tests; NULL: libnccl.so.2 */
    struct hsp_nccllog *nccl_log; /* closed at the end; NULL: NCCL has no log here */
    struct hsp_logger *log;
    /* For tests: opens the device. NULL: the CPU, or GPU gpu_index by its library. */
    enum hsp_status (*open)(const struct hsp_executor_opts *o, struct hsp_backend **ret,
                            struct hsp_err *err);
};

/* Obeys the agent until the agent closes the channel. Returns the exit status of the process: 0; 1
 * if the executor could not start or a message of the agent was malformed; HSP_EXIT_DEVICE if the
 * device could not be opened. If the device fails later, the process exits at once with
 * HSP_EXIT_DEVICE. The sealed state survives in the segments, which are files, and the peers see a
 * lost peer. */
int hsp_executor_main(const struct hsp_executor_opts *o);

#endif
