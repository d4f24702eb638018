/* Adds a remedy to the error of a file that cannot be written, and says when to try again.
 *
 * Role:      epoch_export.c tries to write the final model until it succeeds. The report of a
 *            failed checkpoint has the same remedy.
 * Purity:    pure.
 */
#ifndef HSP_DISK_RETRY_H
#define HSP_DISK_RETRY_H
#include <stdint.h>

#include "proto/base/err.h"

#define HSP_DISK_PAUSE_MS     1000u
#define HSP_DISK_PAUSE_MAX_MS 30000u

/* Returns the pause after @tries (1 or more) failed tries: HSP_DISK_PAUSE_MS, doubled each time up
 * to HSP_DISK_PAUSE_MAX_MS. */
uint32_t hsp_disk_pause_ms(uint32_t tries);

/* Adds the remedy to the error record @err if it has an errno. @err may be NULL. */
void hsp_disk_explain(struct hsp_err *err);

#endif
