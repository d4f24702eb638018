/* Reads the command line of an executor. The agent writes this command line (spawn.c), and no
 * person types it.
 *
 * Purity: hsp_execargs_parse is pure; hsp_execargs_main is the executor's main. */
#ifndef HSP_EXECUTOR_ARGS_H
#define HSP_EXECUTOR_ARGS_H
#include "proto/base/err.h"
#include "worker/executor/executor.h"

/* Fills all options except `log`. *ret_level: the level of the log. Returns HSP_EINVAL if an option
 * is wrong; @err names the option. */
enum hsp_status hsp_execargs_parse(int argc, char **argv, struct hsp_executor_opts *ret,
                                   enum hsp_log_level *ret_level, struct hsp_err *err);

/* Runs `hspmd-worker --executor FD ...`. Returns the exit status. */
int hsp_execargs_main(int argc, char **argv);

#endif
