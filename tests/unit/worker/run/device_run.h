/* Runs program files on the mock device, which does its work late (tests/lib/mockdev.h). */
#ifndef HSP_DEVICE_RUN_H
#define HSP_DEVICE_RUN_H
#include "worker/run/run_program.h"

/* Opens a mock device for hsp_run_opts. Each rank has a seed of its own, and some ranks cannot
 * replay recorded work. @ctx: NULL. */
enum hsp_status hsp_devicerun_open(void *ctx, uint32_t rank, int threads, struct hsp_backend **ret,
                                   struct hsp_err *err);

/* Fails the test unless the mock devices replayed some work, and computed some products together
 * with an addend. */
void hsp_devicerun_assert_used(void);

/* Trains the programs of @file for @steps (0: all) on CPUs and on such devices, in folders of @dir.
 * Metrics but for the times, gradients and final model must be the same bits, else the test fails,
 * naming @what. */
void hsp_devicerun_compare(const char *dir, const char *file, uint64_t steps, const char *what);
/* Does the same on the devices of @o. Of @o only the file, the steps and the devices are used. */
void hsp_devicerun_compare_opts(const char *dir, const struct hsp_run_opts *o, const char *what);

#endif
