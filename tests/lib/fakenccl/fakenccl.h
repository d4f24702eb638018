/* Plays libnccl.so.2 without GPUs: the calls hspmd makes, with their rules, among threads of a
 * process.
 *
 * Role:    a shared object for tests, loaded as the library is (worker/comm/nccl/nccl_lib.h); its
 *          one symbol beside the library's own is hsp_fakenccl, by which a test orders faults and
 *          asks for counts.
 * What:    communicators that are made in the background and in progress until all members have
 *          come; operations that begin when all members are there, in the order of their streams
 *          and of their communicator; sums in ascending order of members; abort, finalize, split.
 *          Each communicator has a thread that does its work. Of stream NULL a call is in progress
 *          until its work is done; any other pointer is a stream whose work goes on after the call.
 *          As in the library, a member's first message to another is in progress until that one has
 *          given the first receive (and the other way round), its first collective until all have
 *          given theirs, and a split returns at once: the parent is in progress until the new
 *          communicator stands, whose handle is written then.
 * Traps:   of the real one. A finalize is in progress until all members have come to it, so for
 *          ever where one died. A destroy waits likewise, without limit (2.31). An abort waits
 *          until the device is idle, so for kernels of other communicators that nobody has told to
 *          end, unless they are aborted in the same group (2.22).
 * Rules:   told as misuse: a call while the one before is in progress, two at a time for one
 *          communicator, a communicator that is gone, one with work under way that is split,
 *          members that disagree about an operation, a group's end without a begin, a config whose
 *          calls would wait.
 * Process: threads say by enter which executor they belong to. One that dies stops in its next
 *          call, all of its threads; its communicators neither come nor go, until it is revived to
 *          be cleaned up.
 */
#ifndef HSP_FAKENCCL_H
#define HSP_FAKENCCL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSP_FAKENCCL_PROCESSES 16
#define HSP_FAKENCCL_FILE      "tests/lib/fakenccl/libnccl.so.2" /* in the build */

/* Work of a stream: begins when ready says so (asked in its turn, often), then runs once. */
struct hsp_fakenccl_work {
    bool (*ready)(void *arg);
    void (*run)(void *arg);
    void *arg;
};

struct hsp_fakenccl {
    /* As if newly loaded; no call may be under way. Leftovers are counted as misuse no more. */
    void (*reset)(uint64_t seed, int version);
    void (*enter)(int process); /* the calling thread belongs to it; 0 at first */

    /* Faults; the @nth call (1: the next) of @name ("ncclSend"; NULL: any). One order of each kind
     * at a time; @nth 0 takes it back. */
    void (*refuse)(const char *name, unsigned nth, int result);
    void (*hang)(const char *name, unsigned nth); /* until a communicator it is for is aborted */
    void (*die)(int process, unsigned nth); /* in its nth call, where polls in a row are one */
    bool (*is_dead)(int process);
    void (*revive)(int process);
    /* All communicators of a process have this error from now on. */
    void (*spoil)(int process, int result);

    unsigned (*calls)(const char *name); /* since reset; NULL: all */
    unsigned (*calls_of)(int process);
    unsigned (*hung)(void);    /* calls that hang, or did */
    unsigned (*grouped)(void); /* aborts that were given in a group */
    void (*let_go)(void);      /* until reset nobody waits in the end of a communicator */
    unsigned (*alive)(void);   /* communicators neither destroyed nor aborted */
    unsigned (*misuses)(void);
    const char *(*misuse)(unsigned i); /* in words; NULL beyond the first 32 */
    /* Groups of calls given to a stream that is not NULL, and those of them that are done. */
    void (*work)(const void *stream, uint64_t *ret_given, uint64_t *ret_done);
    /* Until reset such work is given to @submit instead, and its reads and writes of its own
     * member are told to @touch when it runs. */
    void (*set_streams)(void (*submit)(void *stream, const struct hsp_fakenccl_work *w),
                        void (*touch)(const void *p, size_t bytes, bool write));
    /* Of devices that judge work when it is given: the next reads and writes of a stream's work of
     * its own member, before it is submitted; the answer is where these bytes are for the thread
     * that does the work. */
    void (*set_announce)(void *(*announce)(void *stream, const void *p, size_t bytes, bool write));
};

#endif
