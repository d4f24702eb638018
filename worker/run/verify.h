/* Verifies the sharded programs of a file against the unsharded program beside them, value by value
 * (`hspmd-worker --verify`).
 */
#ifndef HSP_VERIFY_H
#define HSP_VERIFY_H
#include "worker/run/run_program.h"

/* Prints the comparisons; HSP_EDIGEST when something differs (says step, rank and op). */
enum hsp_status hsp_verify_file(const struct hsp_run_opts *o, struct hsp_err *err);

#endif
