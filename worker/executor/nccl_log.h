/* Puts the choices of NCCL into the executor's log: the interface of its bootstrap, its network,
 * its warnings.
 *
 * Role:    opened before the executor has threads; told by epoch_nccl.c at each PREPARE, in which
 *          NCCL chooses, and at the end of each epoch, for its warnings; closed by the executor.
 * Purity:  shell (environment, a file in memory); hsp_nccllog_line is pure.
 * Threads: tell by any.
 * Bounds:  HSP_NCCLLOG_LINES lines a call of tell, and how many more there were; a line that is
 *          among the last HSP_NCCLLOG_LINES is not repeated. Lines of NCCL are thrown away when
 *          they were read.
 *
 * NCCL has no call for it. It writes lines to NCCL_DEBUG_FILE, here a file in memory: nobody reads
 * while it writes, so a pipe could hold it up. "Using network" comes with INIT only. Where an
 * administrator has set NCCL_DEBUG or a variable of it, nothing is touched. */
#ifndef HSP_NCCL_LOG_H
#define HSP_NCCL_LOG_H
#include "proto/host/log.h"

#define HSP_NCCLLOG_LINES 32

struct hsp_nccllog;

/* Sets NCCL_DEBUG, _SUBSYS and _FILE of this process. NULL: one of them is set already, or there is
 * no such file. */
struct hsp_nccllog *hsp_nccllog_open(void);
/* Logs new lines. NULL is fine. */
void hsp_nccllog_tell(struct hsp_nccllog *l, struct hsp_logger *log);
struct hsp_nccllog *hsp_nccllog_close(struct hsp_nccllog *l); /* NULL is fine; returns NULL */

/* The part of a line that people want: "Bootstrap: Using eth0:10.0.0.1<0>"; NULL: none. *ret_warns:
 * it is a warning. */
const char *hsp_nccllog_line(const char *line, bool *ret_warns);

#endif
