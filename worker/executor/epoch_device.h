/* Keeps the state of an epoch once in the memory of its device, beside the two segments in host
 * memory. Terms: epoch.h.
 *
 * The engine reads the state and writes each version over the version before. When the device has
 * written a due version, hsp_epoch_device_save copies that version into a segment, and then the
 * version is sealed. Before the first step of an epoch hsp_epoch_device_load copies the state from
 * the segment to the device. Copies for other ranks, checkpoints, the final model and switches read
 * sealed segments only, so their code does not depend on the kind of device. A CPU device keeps its
 * state once in ordinary memory in the same way.
 *
 * An update overwrites the version that it reads, so damage of that version cannot be found
 * afterwards. Therefore the update itself makes sums of the words that it reads and of the words
 * that it writes (worker/exec/state_watch.h). hsp_epoch_device_changed compares the sums of the
 * words read with the sums of the words that the previous update has written: before the next vote,
 * and before the new version is sealed.
 *
 * Queue:     HSP_DEVQ_STATE. One thread at a time uses this queue: the run thread until the
 *            replication thread begins, then the thread that seals (the field `sealing` of the
 *            epoch). Two epochs never seal at the same time, because the next epoch begins after
 *            this epoch has sealed its last version.
 * Order:     the update of step t overwrites version t, after vote t has passed. If version t is
 *            due, a rank sends its record of vote t only after version t is copied to its segment.
 * Memory:    an epoch that is alone on the device allocates the memory of its state at PREPARE, and
 *            tries whether the rest of its memory fits, too. An epoch that is prepared while
 *            another epoch runs allocates its state when it begins; by then the other epoch has
 *            freed all of its device memory. The memory for the hashes is allocated at PREPARE.
 *            Segments of a device other than a CPU are pinned at PREPARE, in pieces, and stay
 *            pinned for the next epoch (segment_pool.h). The log says once if pinning is refused.
 *            While NCCL or another transport may work, no memory is freed and no segment is
 *            unpinned. Both are done by hsp_backend.trim, at three times: (1) at PREPARE of an
 *            epoch that is alone, before its segments are opened and after its trial; (2) at the
 *            begin of an epoch that was prepared while another epoch ran; the other epoch has
 *            released all memory by then, also that of its transport; (3) when no epoch is left.
 *            Unpinning much memory takes seconds, so a reaper (reaper.h) does it. (1) and (2) wait
 *            for the reaper, and poll for at most a second until the device is idle. The device
 *            becomes idle soon, because all members have ended the step and the device waits for no
 *            peer. If segments of an earlier PREPARE still wait to be unpinned, the next epoch pins
 *            its own segments when it begins, not at PREPARE. So while steps run, at most one pair
 *            of segments waits to be unpinned.
 */
#ifndef HSP_EPOCH_DEVICE_H
#define HSP_EPOCH_DEVICE_H
#include "worker/exec/engine.h"

struct hsp_ex_epoch;
struct hsp_exec_env;

struct hsp_epoch_device {
    void *state;               /* HSP_MEM_DEVICE, state_bytes long; NULL: not allocated */
    uint64_t *sum, *seen;      /* hashes of the rows of `state`: on the device, on the host */
    uint64_t *wrote;           /* hashes of the rows of the version that is being sealed */
    size_t pinned[2];          /* pinned bytes at the front of each segment */
    bool late;                 /* the epoch pins its segments at its begin, not at PREPARE */
    bool counted;              /* this epoch is counted in env->on_device */
    struct hsp_written newest; /* newest version that the engine wrote; under the epoch's lock */
    uint64_t ticket;           /* of the newest copy in HSP_DEVQ_STATE; under the epoch's lock */
};

enum hsp_epoch_part { HSP_EPOCH_ALL, HSP_EPOCH_WEIGHTS, HSP_EPOCH_REST /* all but weights */ };

/* The first call of PREPARE: waits until the reaper has freed the device memory of ended epochs, or
 * @e is over. If no epoch has memory of the device, trims the device: segments that were deleted
 * but are still mapped take room in the folder until then. */
void hsp_epoch_device_clear(struct hsp_ex_epoch *e);
/* Allocates memory at PREPARE, after the segments are open. Returns HSP_ENOMEM if memory is
 * lacking: @err says how many bytes were asked for, and *ret_host whether the host lacks them; else
 * errors of the device. */
enum hsp_status hsp_epoch_device_take(struct hsp_ex_epoch *e, bool *ret_host, struct hsp_err *err);
/* Pins the segments of the epoch, at the end of PREPARE. */
void hsp_epoch_device_pin(struct hsp_ex_epoch *e);
/* Frees the memory that the backend of @env had to keep (hsp_backend.trim), and sets env->untrimmed
 * to false, when no epoch works on the device. It becomes true again if a segment stays pinned.
 * Does nothing, and does not wait, if the device is busy or communicators are being made. */
void hsp_epoch_device_trim(void *env);
/* Called by all ranks when the epoch begins: frees the memory of the previous epoch, and allocates
 * the memory that PREPARE has not allocated. Returns errors as hsp_epoch_device_take does. */
enum hsp_status hsp_epoch_device_begin(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Copies @part of @version from its segment to the device; the copy is done on return. Returns
 * errors of the device. */
enum hsp_status hsp_epoch_device_load(struct hsp_ex_epoch *e, uint64_t version,
                                      enum hsp_epoch_part part, struct hsp_err *err);
/* Copies @version, the newest written version, from the device to a segment; the copy is done on
 * return. The segment is no source of a transfer before it is sealed. Returns errors of the device;
 * then the segment has garbage and no version. */
enum hsp_status hsp_epoch_device_save(struct hsp_ex_epoch *e, uint64_t version,
                                      struct hsp_err *err);
/* Compares the state on the device, which is @version, with the seal of its segment. *ret_row: the
 * first row that differs, or UINT32_MAX. No update may be under way. Returns errors of the
 * device. */
enum hsp_status hsp_epoch_device_compare(struct hsp_ex_epoch *e, uint64_t version,
                                         uint32_t *ret_row, struct hsp_err *err);
/* Finds damage of @version on the device: compares the sums of @version that the update of step
 * @version made while reading it with the sums that the previous update made while writing it. If
 * an earlier epoch made the previous update, compares hashes with the seal instead. Returns the
 * first row that differs. Returns UINT32_MAX if no row differs, or if @version + 1 is not the
 * newest written version. No update may be under way. */
uint32_t hsp_epoch_device_changed(struct hsp_ex_epoch *e, uint64_t version);
/* Called if all steps of this epoch up to @version were no-op steps, so that its state is still the
 * state loaded at the begin: returns a sealed segment with this state, of the first or of a later
 * version; NULL if there is none. */
const struct hsp_state_segment *hsp_epoch_device_loaded(struct hsp_ex_epoch *e, uint64_t version);
/* Compares the segment of @version with the sums of the update that wrote @version; the host reads
 * the complete segment for that. @version is the newest written version or the version before.
 * Returns the first row that differs. Returns UINT32_MAX if no row differs, or if the sums are not
 * known. */
uint32_t hsp_epoch_device_unlike(struct hsp_ex_epoch *e, uint64_t version);
/* Called before a vote by the thread that votes: waits until all copies of this queue so far are
 * done. Work that the calling thread queues afterwards sees their results. */
enum hsp_status hsp_epoch_device_await(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Frees the device memory of engine and state when the epoch has handed over, so that the next
 * epoch can begin. Called by the run thread between steps, without the epoch's lock. */
void hsp_epoch_device_leave(struct hsp_ex_epoch *e);
/* Frees all memory. Called when all threads have ended, the engine is closed and the pool has the
 * segments. */
void hsp_epoch_device_close(struct hsp_ex_epoch *e);
/* Called after any failure: if the device has failed, logs that and ends the process with
 * HSP_EXIT_DEVICE. Then state that is not in the segments is lost. */
void hsp_epoch_device_check(struct hsp_exec_env *env);

#endif
