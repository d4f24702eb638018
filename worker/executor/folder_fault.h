/* Turns a failure of the state folder into a fact for the planner, and names its errno for people.
 *
 * Example: the folder is mounted read-only. "cannot create /s/job-4.tmp: Read-only file system"
 * becomes "cannot create /s/job-4.tmp: Read-only file system [EROFS]; mount it writable", and the
 * fact is HSP_FACT_STATE_FOLDER: the node is of no use until that is mended, at any size of a plan.
 * A folder without room is HSP_FACT_OUT_OF_MEMORY, as a smaller part of the state may fit; where
 * there is next to none, PREPARE makes it HSP_FACT_STATE_FOLDER, too (epoch_memory.h).
 *
 * Role:   PREPARE (epoch.c).
 * Purity: pure.
 */
#ifndef HSP_FOLDER_FAULT_H
#define HSP_FOLDER_FAULT_H
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/wire/msg.h"

/* HSP_FACT_OUT_OF_MEMORY for ENOMEM and ENOSPC, and for HSP_ENOMEM and HSP_ENOSPC without an errno;
 * HSP_FACT_STATE_FOLDER for any other errno. The name and the remedy of these and of ENOSPC are
 * appended to the message of @err. HSP_FACT_OTHER for a failure that no system call told of. */
enum hsp_fact_kind hsp_folder_fault(struct hsp_err *err);

/* The bytes that a device must offer less, so that the next plan fits: it offers @offered, a plan
 * needs @need of them and @state bytes of the folder, which has room for @room. The next plan gets
 * the same part of @need as there is room for @state: what lies in the folder counts in a CPU's
 * memory, with a version more, and only that version in a GPU's. UINT64_MAX when there is room for
 * less than a sixteenth: then the folder counts as full. */
uint64_t hsp_folder_lack(uint64_t offered, uint64_t need, uint64_t state, uint64_t room);

#endif
