/* Turns a failure of the state folder into a fact for the planner, and adds the name of its errno
 * and a remedy to the error message.
 *
 * Example: the folder is mounted read-only. "cannot create /s/job-4.tmp: Read-only file system"
 * becomes "cannot create /s/job-4.tmp: Read-only file system [EROFS]; mount it writable", and the
 * fact is HSP_FACT_STATE_FOLDER: no plan of any size can use the node until the mount is repaired.
 * For a folder without room the fact is HSP_FACT_OUT_OF_MEMORY, because a smaller part of the state
 * may fit. If almost no room is left, PREPARE reports HSP_FACT_STATE_FOLDER instead
 * (epoch_memory.h).
 *
 * Role:   called by PREPARE (epoch.c).
 * Purity: pure.
 */
#ifndef HSP_FOLDER_FAULT_H
#define HSP_FOLDER_FAULT_H
#include <stdint.h>

#include "proto/base/err.h"
#include "proto/wire/msg.h"

/* Returns the fact for failure @err: HSP_FACT_OUT_OF_MEMORY for ENOMEM and ENOSPC, and for
 * HSP_ENOMEM and HSP_ENOSPC without an errno; HSP_FACT_STATE_FOLDER for any other errno;
 * HSP_FACT_OTHER for any other failure without an errno. Appends the name and the remedy of the
 * errno to the message of @err, except for ENOMEM. */
enum hsp_fact_kind hsp_folder_fault(struct hsp_err *err);

/* Returns the number of bytes by which a device must reduce its offer so that the next plan fits.
 * The device offers @offered bytes. The plan that does not fit needs @need of these bytes and
 * @state bytes of the folder, which has room for @room bytes. The next plan may need only the part
 * @room / @state of @need. On a CPU device @need contains the bytes in the folder and one version
 * more, on a GPU only one version. Returns UINT64_MAX if @room is less than a sixteenth of @state:
 * then the folder counts as full. */
uint64_t hsp_folder_lack(uint64_t offered, uint64_t need, uint64_t state, uint64_t room);

#endif
