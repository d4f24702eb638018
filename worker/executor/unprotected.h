/* Switches the protection of the state off while a file exists, so that tests can measure its cost.
 *
 * The option --unprotected FILE of hspmd-worker, which no help text names, names the file. While
 * FILE exists, rank 0 of a job with `recovery.every: auto` asks for no due version (due.h), and
 * updates make no sums and no hashes. The first version, the last version and the versions of
 * periodic checkpoints are due all the same. The times of the steps meanwhile are not used for the
 * distance of due versions.
 *
 * Purity: shell (looks for a file).
 */
#ifndef HSP_UNPROTECTED_H
#define HSP_UNPROTECTED_H
#include <stddef.h>
#include <unistd.h>
#include "worker/executor/epoch.h"

/* Returns true while the file exists. Any thread may call this function. @epoch: a struct
 * hsp_ex_epoch. */
static inline bool hsp_unprotected(void *epoch)
{
    const struct hsp_exec_env *env = ((const struct hsp_ex_epoch *)epoch)->env;
    return env->bare_file != NULL && access(env->bare_file, F_OK) == 0;
}

#endif
