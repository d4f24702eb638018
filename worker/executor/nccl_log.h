/* Copies lines of NCCL into the executor's log: the interface that its bootstrap uses, its network,
 * and its warnings.
 *
 * Role:    opened before the executor starts threads, and closed by the executor. epoch_nccl.c
 *          calls hsp_nccllog_tell at each PREPARE, in which NCCL chooses interface and network, and
 *          at the end of each epoch, for warnings.
 * Purity:  shell (environment, a file in memory); hsp_nccllog_line is pure.
 * Threads: any thread may call hsp_nccllog_tell.
 * Bounds:  each call of hsp_nccllog_tell logs at most HSP_NCCLLOG_LINES lines, and the number of
 *          further lines. A line that equals one of the last HSP_NCCLLOG_LINES lines is not logged
 *          again. The lines of NCCL are deleted after they are read.
 *
 * NCCL has no call that returns its choices. NCCL writes lines to NCCL_DEBUG_FILE, here a file in
 * memory: no thread reads while NCCL writes, so a pipe could fill up and block NCCL. NCCL writes
 * the line "Using network" only if NCCL_DEBUG_SUBSYS has INIT. If an administrator has set
 * NCCL_DEBUG, NCCL_DEBUG_SUBSYS or NCCL_DEBUG_FILE, this module changes nothing. */
#ifndef HSP_NCCL_LOG_H
#define HSP_NCCL_LOG_H
#include "proto/host/log.h"

#define HSP_NCCLLOG_LINES 32

struct hsp_nccllog;

/* Sets NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE of this process. Returns NULL if one of
 * these variables is set already, or if the file cannot be made. */
struct hsp_nccllog *hsp_nccllog_open(void);
/* Logs new lines. @l may be NULL. */
void hsp_nccllog_tell(struct hsp_nccllog *l, struct hsp_logger *log);
/* Closes @l, which may be NULL. Returns NULL. */
struct hsp_nccllog *hsp_nccllog_close(struct hsp_nccllog *l);

/* Returns the part of @line for the log, such as "Bootstrap: Using eth0:10.0.0.1<0>", or NULL if
 * the line is not logged. *ret_warns: the line is a warning. */
const char *hsp_nccllog_line(const char *line, bool *ret_warns);

#endif
