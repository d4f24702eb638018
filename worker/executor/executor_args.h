/* Reads the command line of an executor, as spawn.c writes it. No person types this command line.
 *
 * Purity: hsp_execargs_parse is pure; hsp_execargs_main is the executor's main. */
#ifndef HSP_EXECUTOR_ARGS_H
#define HSP_EXECUTOR_ARGS_H
#include "proto/base/err.h"
#include "worker/executor/executor.h"

/* Fills all options but the log. *ret_level: the level of the log. HSP_EINVAL: @err names the
 * option. */
enum hsp_status hsp_execargs_parse(int argc, char **argv, struct hsp_executor_opts *ret,
                                   enum hsp_log_level *ret_level, struct hsp_err *err);

/* Runs `hspmd-worker --executor FD ...`. Returns the exit status. */
int hsp_execargs_main(int argc, char **argv);

#endif
