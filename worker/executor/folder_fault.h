/* Turns a failure of the state folder into a fact for the planner, and names its errno for people.
 *
 * Example: the folder is mounted read-only. "cannot create /s/job-4.tmp: Read-only file system"
 * becomes "cannot create /s/job-4.tmp: Read-only file system [EROFS]; mount it writable", and the
 * fact is HSP_FACT_STATE_FOLDER: no plan of any size can use the node until the mount is repaired.
 * A folder without room is HSP_FACT_OUT_OF_MEMORY, as a smaller part of the state may fit. Where
 * almost no room is left, PREPARE reports HSP_FACT_STATE_FOLDER, too (epoch_memory.h).
 *
 * Role:   called by PREPARE (epoch.c).
 * Purity: pure.
 */
#ifndef HSP_FOLDER_FAULT_H
#define HSP_FOLDER_FAULT_H
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/wire/msg.h"

/* Returns HSP_FACT_OUT_OF_MEMORY for ENOMEM and ENOSPC, and for HSP_ENOMEM and HSP_ENOSPC without
 * an errno. Returns HSP_FACT_STATE_FOLDER for any other errno. Appends name and remedy of such an
 * errno and of ENOSPC to the message of @err. Returns HSP_FACT_OTHER for a failure without an
 * errno. */
enum hsp_fact_kind hsp_folder_fault(struct hsp_err *err);

/* Returns the number of bytes by which a device must reduce its offer so that the next plan fits.
 * The device offers @offered; a plan needs @need of these bytes, and @state bytes of the folder,
 * which has room for @room. The next plan gets the part @room / @state of @need. At a CPU device
 * @need counts the bytes in the folder and one version more, at a GPU only that version. Returns
 * UINT64_MAX if @room is less than a sixteenth of @state: then the folder counts as full. */
uint64_t hsp_folder_lack(uint64_t offered, uint64_t need, uint64_t state, uint64_t room);

#endif
