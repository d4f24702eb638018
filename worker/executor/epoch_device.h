/* Keeps the state of an epoch in the memory of its device: once, beside the two segments.
 *
 * The engine reads the state and writes each version over the version before. When the device has
 * written a due version, hsp_epoch_device_save copies that version into a segment, and then the
 * version is sealed. Before the first step of an epoch hsp_epoch_device_load copies the state from
 * the segment to the device. Copies for other ranks, checkpoints, the final model and switches read
 * sealed segments only, so their code knows nothing of devices. A CPU device does the same in
 * ordinary memory.
 *
 * An update destroys the version that it reads, so the update sums the state as read and as written
 * (worker/exec/state_watch.h). hsp_epoch_device_changed compares the sums before the next vote, and
 * before the written version is sealed.
 *
 * Queue:     HSP_DEVQ_STATE. One caller at a time: the run thread until the replication thread
 *            begins, then the thread that seals (`sealing` of the epoch). Two epochs never seal at
 *            once: the next epoch begins when this epoch has sealed its last version.
 * Order:     the update of step t writes over version t, after vote t. The record of vote t waits
 *            until version t, if it is due, is in its segment.
 * Memory:    an epoch that is alone on the device takes its state at PREPARE, and tries whether the
 *            rest of its memory fits, too. An epoch beside another takes its state when it begins;
 *            by then the other epoch has given back all of its device memory. The words for hashes
 *            are taken at PREPARE.
 *            Segments of a device other than a CPU are pinned at PREPARE, in pieces, and stay
 *            pinned for the next epoch (segment_pool.h). The log says once if pinning is refused.
 *            While a transport may work, no memory is freed and no segment is unpinned. Both happen
 *            in hsp_backend.trim, at three times: (1) at PREPARE of an epoch that is alone, before
 *            its segments are opened and after its trial; (2) at the begin of an epoch that was
 *            prepared beside another, which has released all memory by then, also that of its
 *            transport; (3) when no epoch is left. Unpinning much memory takes seconds, so a reaper
 *            does it. (1) and (2) wait for the reaper, and poll for a second at most until the
 *            device is idle: all members have ended the step, so the device waits for no peer.
 *            Where an earlier PREPARE beside steps has left segments to be unpinned, the next epoch
 *            pins its own segments at its begin. So beside steps at most one pair of segments waits
 *            to be unpinned.
 */
#ifndef HSP_EPOCH_DEVICE_H
#define HSP_EPOCH_DEVICE_H
#include "worker/exec/engine.h"

struct hsp_ex_epoch;
struct hsp_exec_env;

struct hsp_epoch_device {
    void *state;               /* state_bytes, HSP_MEM_DEVICE; NULL: not taken, or no member */
    uint64_t *sum, *seen;      /* hashes of the rows of `state`: on the device, and on the host */
    uint64_t *wrote;           /* hashes of the rows of the version that is being sealed */
    size_t pinned[2];          /* pinned bytes at the front of each segment */
    bool late;                 /* the epoch pins its segments at its begin, not at PREPARE */
    bool counted;              /* this epoch is counted in env->on_device */
    struct hsp_written newest; /* newest version by the engine; under the epoch's lock */
    uint64_t ticket;           /* newest copy of HSP_DEVQ_STATE; under the epoch's lock */
};

enum hsp_epoch_part { HSP_EPOCH_ALL, HSP_EPOCH_WEIGHTS, HSP_EPOCH_REST /* all but weights */ };

/* The first call of PREPARE: waits until ended epochs have given the device back, or @e is over.
 * Where no epoch has memory of the device, left-overs of earlier epochs are freed. Until then
 * segments that are discarded but still mapped take room of the folder. */
void hsp_epoch_device_clear(struct hsp_ex_epoch *e);
/* Takes the memory at PREPARE, when the segments are open. HSP_ENOMEM: @err says how many bytes
 * were asked for, and *ret_host whether the host lacks them; errors of the device. */
enum hsp_status hsp_epoch_device_take(struct hsp_ex_epoch *e, bool *ret_host, struct hsp_err *err);
/* Pins the segments of the epoch, at the end of PREPARE. */
void hsp_epoch_device_pin(struct hsp_ex_epoch *e);
/* Frees the memory that the backend of @env had to keep (hsp_backend.trim), and sets env->untrimmed
 * to false, when no epoch works on the device. Does nothing where the device is busy or
 * communicators are being made, and waits for neither. */
void hsp_epoch_device_trim(void *env);
/* Called at the begin of the epoch by all ranks: frees the memory of the epoch before, and takes
 * the memory that PREPARE has not taken. Errors as hsp_epoch_device_take. */
enum hsp_status hsp_epoch_device_begin(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Copies @part of @version from its segment to the device; the copy is done on return. Errors of
 * the device. */
enum hsp_status hsp_epoch_device_load(struct hsp_ex_epoch *e, uint64_t version,
                                      enum hsp_epoch_part part, struct hsp_err *err);
/* Copies the newest written version from the device to a segment; the copy is done on return. The
 * segment is no source of a transfer before it is sealed. Errors of the device: the segment has
 * garbage and no version. */
enum hsp_status hsp_epoch_device_save(struct hsp_ex_epoch *e, uint64_t version,
                                      struct hsp_err *err);
/* Compares the state on the device, which is @version, with the seal of its segment. *ret_row: the
 * first row that differs, or UINT32_MAX. No update may be under way. Errors of the device. */
enum hsp_status hsp_epoch_device_compare(struct hsp_ex_epoch *e, uint64_t version,
                                         uint32_t *ret_row, struct hsp_err *err);
/* Compares the state as the update of step @version has read it with the state as the update before
 * has written it, or with the seal where another epoch made the update before. Returns the first
 * row that differs, or UINT32_MAX, also when @version + 1 is not the newest written version. No
 * update may be under way. */
uint32_t hsp_epoch_device_changed(struct hsp_ex_epoch *e, uint64_t version);
/* Returns a sealed segment of the version with which the epoch began, or of a later version, if all
 * steps up to @version were no-op steps; NULL if there is none. */
const struct hsp_state_segment *hsp_epoch_device_loaded(struct hsp_ex_epoch *e, uint64_t version);
/* Compares the segment of @version with the sums of the update that wrote @version: a pass of the
 * host. @version is the newest written version or the version before. Returns the first row that
 * differs, or UINT32_MAX, also where the sums are not known. */
uint32_t hsp_epoch_device_unlike(struct hsp_ex_epoch *e, uint64_t version);
/* Called before a vote by the thread that votes: waits until the copies so far are done, also for
 * the work that this thread queues next. */
enum hsp_status hsp_epoch_device_await(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Gives back the memory of engine and state when the epoch was left, so that the next epoch may
 * begin. Called by the run thread between steps, without the epoch's lock. */
void hsp_epoch_device_leave(struct hsp_ex_epoch *e);
/* Gives back all memory when all threads have ended, the engine is closed and the pool has the
 * segments. */
void hsp_epoch_device_close(struct hsp_ex_epoch *e);
/* Called after any failure: if the device has failed, logs that and ends the process with
 * HSP_EXIT_DEVICE. State that is not in the segments is lost then. */
void hsp_epoch_device_check(struct hsp_exec_env *env);

#endif
