/* Makes allocations fail on purpose: runs a function of a test once for every n, and fails its n-th
 * allocation.
 *
 * Role:    a program that links liboom.a (and HSP_OOM_LDFLAGS) has this malloc instead of the C
 *          library's, so that allocations inside of libraries (cJSON, libyaml, GLPK) fail too, and
 *          wrappers around the arena, whose chunks hide most of them.
 * Threads: a loop is one thread's; the nth allocation of any thread fails. Its place differs from
 *          run to run where threads of the body allocate side by side.
 * Evidence: the stacks at the failures are written to $HSPMD_BUILD/PROGRAM.stacks, by which
 *          scripts/check-alloc.py knows which functions were under the loop. Not with sanitizers
 *          or valgrind.
 */
#ifndef HSP_OOM_H
#define HSP_OOM_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

/* Makes the @nth allocation from now on fail (0: none); with @on, all later allocations fail,
 * too. */
void hsp_oom_arm(uint64_t nth, bool on);

/* Ends the failures. Returns whether an allocation was made to fail. */
bool hsp_oom_disarm(void);

/* Returns the number of allocations since hsp_oom_arm, including those that failed. */
uint64_t hsp_oom_count(void);

/* Returns the number of heap blocks that are allocated. Callers compare two values to find a
 * leak. */
int64_t hsp_oom_live(void);

/* The body of the loop. Makes its inputs, writes its result to @out (which fails as any buffer
 * does: the body then returns HSP_ENOMEM), releases everything. @err as any function has
 * it. */
typedef enum hsp_status (*hsp_oom_body)(void *ctx, struct hsp_buf *out, struct hsp_err *err);

/* Runs @body undisturbed, then with its first, second, ... allocation failing, alone and with all
 * later ones, until none fails. If there are more than @most allocations, it fails one for each
 * call path (the innermost calls) that has not failed before in this program; if stacks are not
 * recorded (Evidence), it fails @most random ones. Under each failure the body must return
 * HSP_ENOMEM with a message, or succeed with the undisturbed result. Nothing may stay allocated,
 * and the body must give the undisturbed result when it is run again. */
void hsp_oom_loop(const char *name, hsp_oom_body body, void *ctx, uint32_t most);

/* Does as hsp_oom_loop for functions without a message: err->code need not be set. */
void hsp_oom_loop_mute(const char *name, hsp_oom_body body, void *ctx, uint32_t most);

/* Does as hsp_oom_loop for state machines, whose state may only be released after a failure. @body
 * uses the present state and releases it. For each allocation that fails it runs in a child
 * process, so that the caller can go on with the state. */
void hsp_oom_fork(const char *name, hsp_oom_body body, void *ctx, uint32_t most);

/* For a call that says "unchanged" on failure and is tried again on the same object:
 *     for (struct hsp_oom_try t = {0}; hsp_oom_again(&t);) { t.st = ...; hsp_oom_end(&t); ... }
 * The loop ends behind the first try in which nothing failed; t.failed tells of the present try.
 * hsp_oom_end checks that a failed try gave HSP_ENOMEM, and that the last gave HSP_OK. */
struct hsp_oom_try {
    uint64_t n;
    bool failed, done;
    enum hsp_status st;
};
bool hsp_oom_again(struct hsp_oom_try *t);
void hsp_oom_end(struct hsp_oom_try *t);

/* For writers to a buffer: hsp_oom_empty makes an empty buffer whose first growth fails, and
 * hsp_oom_nothing checks that it failed: hsp_oom_empty(&b); hsp_yaml_put_str(&b, "x");
 * hsp_oom_nothing(&b); */
void hsp_oom_empty(struct hsp_buf *b);
void hsp_oom_nothing(struct hsp_buf *b);

/* The tests of the file FILE.c of this program (testlib.h), under the name of a test without
 * memory. */
#define HSP_TEST_AGAIN(name, file)  \
    HSP_TEST_FILE(name)             \
    {                               \
        return hsp_test_run(#file); \
    }

#endif
