/* Runs of program files on a device that does its work late (tests/lib/ghost.h). */
#ifndef HSP_DEVICE_RUN_H
#define HSP_DEVICE_RUN_H
#include "worker/run/run_program.h"

/* For hsp_run_opts: a ghost for each rank, of its own seed, some without replay. @ctx: NULL. */
enum hsp_status hsp_devicerun_open(void *ctx, uint32_t rank, int threads, struct hsp_backend **ret,
                                   struct hsp_err *err);

/* True when some work of such devices was replayed, and some of it were products with their
 * addends. */
void hsp_devicerun_assert_used(void);

/* Trains the programs of @file for @steps (0: all) on CPUs and on such devices, in folders of @dir.
 * Metrics but for the times, gradients and final model must be the same bits, else the test fails,
 * naming @what. */
void hsp_devicerun_compare(const char *dir, const char *file, uint64_t steps, const char *what);
/* The same on the devices of @o, of which file, steps and where they compute are used. */
void hsp_devicerun_compare_opts(const char *dir, const struct hsp_run_opts *o, const char *what);

#endif
