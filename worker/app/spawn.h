/* Starts an executor, a process of the same program at the other end of a socket pair, and reads
 * how it ended.
 *
 * Role:      the agent's shell starts one per device and learns how it ended.
 * Purity:    shell (processes).
 * Threads:   the loop thread: an executor is killed by the kernel when the *thread* that started it
 *            ends, so that thread must live as long as the agent.
 * Ownership: the descriptor returned belongs to the caller; the process must be polled to its end.
 */
#ifndef HSP_SPAWN_H
#define HSP_SPAWN_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/err.h"

struct hsp_spawn_opts { /* the executor's arguments; texts are borrowed */
    const char *exe;    /* the program */
    const char *name;   /* argv[0] */
    uint32_t device;
    const char *node, *state_dir;
    const char *listen, *advertise; /* advertise NULL or "": as listen */
    const char *transport;          /* auto, shm, tcp; NULL: auto */
    double speed;                   /* fraction of a core, 1: not paced */
    uint64_t mem_bytes;
    int gpu_index; /* which GPU; -1: a CPU */
    uint32_t threads, heartbeat_ms;
    const char *audit_dir; /* NULL or "": none */
    const char *kill_dir;  /* orders of tests (kill_point.h); NULL: none */
    const char *bare_file; /* of tests (unprotected.h); NULL: none */
    const char *log_level;
    char *const *env;  /* its environment; NULL: ours */
    bool nccl_unknown; /* NCCL may have settings that are not in it */
};

struct hsp_child {
    pid_t pid;
    int fd; /* our end of the pair, non-blocking, closed on exec */
};

enum { HSP_EXIT_TEXT = 64 };

/* HSP_EIO: no process, no descriptors. That the program could not be executed is seen as its end,
 * with exit status 127. The child has its own process group (a ^C is for the agent), default signal
 * handling, /dev/null as standard input, and dies with the agent. */
enum hsp_status hsp_spawn_executor(const struct hsp_spawn_opts *o, struct hsp_child *ret,
                                   struct hsp_err *err);

/* Returns true if @pid has ended, and writes how: "exit 1", "signal 9", "its GPU failed (exit 4)".
 * Call it until it returns true, then never again. */
bool hsp_spawn_ended(pid_t pid, char ret_text[HSP_EXIT_TEXT]);

#endif
