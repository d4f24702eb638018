/* Keeps the state of an epoch in the memory of its device: once, beside the two segments.
 *
 * The engine reads the state and writes each version over the one before. A due version is copied
 * into a segment when the device has written it (hsp_epoch_device_save, then it is sealed), and from the segment to the device before the first step of an epoch
 * (hsp_epoch_device_load). Copies for other ranks, checkpoints, the final model and switches read
 * sealed segments only: so they know nothing of devices. A CPU device does the same in ordinary
 * memory.
 *
 * An update destroys the version that it reads, so it sums what it reads and what it writes
 * (worker/exec/state_watch.h). The sums are compared before the next vote, and before the version
 * that it wrote is sealed (hsp_epoch_device_changed).
 *
 * Queue:     HSP_DEVQ_STATE. One caller at a time: the run thread until the keeper thread begins,
 *            then the thread that seals (`sealing` of the epoch). Two epochs never seal at once:
 *            the next one begins when this one has sealed its last version.
 * Order:     the update of step t writes over version t. It comes after vote t, whose record waits
 *            until version t, if it is due, is in its segment.
 * Memory:    an epoch that is alone on the device takes its state at PREPARE, and tries whether the
 *            rest fits too. One beside another takes it when it begins; the other has given back
 *            all it had by then. Words for hashes are taken at PREPARE.
 *            Segments of a device that is no CPU are pinned at PREPARE, in pieces, and stay so for
 *            the next epoch (segment_pool.h); refused, that is told once in the log.
 *            While a transport may be at work nothing is freed and nothing is unpinned
 *            (hsp_backend.trim): that comes at PREPARE of an epoch that is alone, before its
 *            segments are opened and behind its trial; at the begin of one that was prepared beside
 *            another, which has released all it had by then, also of its transport; and when no
 *            epoch is left. Unpinning takes seconds where there is much, so a reaper does it. The
 *            first two wait for that, and look for a second at most until the device is idle: all
 *            members have ended the step, so nothing there waits for what is still to be given.
 *            Where an earlier PREPARE beside steps has left segments that are to be unpinned, the
 *            next one pins its own at its begin: so beside steps there is one such pair at most.
 */
#ifndef HSP_EPOCH_DEVICE_H
#define HSP_EPOCH_DEVICE_H
#include "worker/exec/engine.h"

struct hsp_ex_epoch;
struct hsp_exec_env;

struct hsp_epoch_device {
    void *state;               /* state_bytes, HSP_MEM_DEVICE; NULL: not taken, or no member */
    uint64_t *sum, *seen;      /* hashes of its rows, there and for the host to read */
    uint64_t *wrote;           /* hashes of the rows of the version that is being sealed */
    size_t pinned[2];          /* of the segments, their first bytes */
    bool late;                 /* they are pinned when it begins, where some are out still */
    bool counted;              /* in env->on_device */
    struct hsp_written newest; /* as the engine told it; the epoch's lock */
    uint64_t ticket;           /* of HSP_DEVQ_STATE: all copies so far; the epoch's lock */
};

enum hsp_epoch_part { HSP_EPOCH_ALL, HSP_EPOCH_WEIGHTS, HSP_EPOCH_REST /* all but weights */ };

/* At PREPARE, first of all: waits until ended epochs have given the device back, or @e is over.
 * Where no epoch has memory of the device, what the ones before have left goes; segments that are
 * discarded, but mapped, take room of the folder until then. */
void hsp_epoch_device_clear(struct hsp_ex_epoch *e);
/* At PREPARE, when the segments are open. HSP_ENOMEM says how many bytes, and *ret_host whether
 * they are the host's; errors of the device. */
enum hsp_status hsp_epoch_device_take(struct hsp_ex_epoch *e, bool *ret_host, struct hsp_err *err);
/* At the end of PREPARE, when the segments are those of the epoch. */
void hsp_epoch_device_pin(struct hsp_ex_epoch *e);
/* When no epoch works on the device of @env: frees what the backend had to keep (hsp_backend.trim),
 * and env->untrimmed is false. Not now where the device is busy, or communicators are being made.
 * Waits for neither. */
void hsp_epoch_device_trim(void *env);
/* When the epoch begins, by all ranks: the memory of the one before it goes, and what PREPARE has
 * not taken is taken. As above. */
enum hsp_status hsp_epoch_device_begin(struct hsp_ex_epoch *e, struct hsp_err *err);
/* @part of @version from its segment to the device; it is there on return. Errors of the device. */
enum hsp_status hsp_epoch_device_load(struct hsp_ex_epoch *e, uint64_t version,
                                      enum hsp_epoch_part part, struct hsp_err *err);
/* The newest version that was written, from the device to a segment; it is there on return, and
 * no source before it is sealed. Errors of the device: the segment has garbage and no version. */
enum hsp_status hsp_epoch_device_save(struct hsp_ex_epoch *e, uint64_t version,
                                      struct hsp_err *err);
/* Compares the state on the device, which is @version, with the seal of its segment. *ret_row: the
 * first row that differs, or UINT32_MAX. No update is under way. Errors of the device. */
enum hsp_status hsp_epoch_device_compare(struct hsp_ex_epoch *e, uint64_t version,
                                         uint32_t *ret_row, struct hsp_err *err);
/* Compares what the update of step @version has read with what the update before it has written,
 * or, where that was another epoch's, with the seal. Returns the first row that differs, or
 * UINT32_MAX, also when @version + 1 is not the newest one that was written. No update is under
 * way. */
uint32_t hsp_epoch_device_changed(struct hsp_ex_epoch *e, uint64_t version);
/* A sealed segment of the version that the epoch began with, where steps up to @version were no-op
 * steps alone: of that version, or of a later one. NULL: there is none. */
const struct hsp_state_segment *hsp_epoch_device_loaded(struct hsp_ex_epoch *e, uint64_t version);
/* Compares the segment of @version, which is the newest version that was written or the one before,
 * with what its update has written, by sums: a pass of the host. Returns the first row that
 * differs, or UINT32_MAX, also where the sums are not known. */
uint32_t hsp_epoch_device_unlike(struct hsp_ex_epoch *e, uint64_t version);
/* Before a vote, by its thread: waits until the copies so far are done, also for the work that this
 * thread queues next. */
enum hsp_status hsp_epoch_device_await(struct hsp_ex_epoch *e, struct hsp_err *err);
/* The epoch has been left, and the next one may begin: gives back the memory of engine and state.
 * The run thread, between steps, without the epoch's lock. */
void hsp_epoch_device_leave(struct hsp_ex_epoch *e);
/* When all threads have ended, the engine is closed and the pool has the segments. */
void hsp_epoch_device_close(struct hsp_ex_epoch *e);
/* After any failure: when the device has failed this says so in the log and ends the process with
 * HSP_EXIT_DEVICE. Nothing can be saved any more that is not in the segments. */
void hsp_epoch_device_check(struct hsp_exec_env *env);

#endif
