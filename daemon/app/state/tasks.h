/* Runs slow work on libuv's pool so that the loop goes on answering: planning, packages, the disk.
 *
 * Purity:    shell (libuv).
 * Threads:   `run` on a pool thread, everything else on the loop thread.
 * Ownership: `done` owns and frees the task.
 */
#ifndef HSP_TASKS_H
#define HSP_TASKS_H
#include <stdbool.h>
#include <uv.h>

struct hsp_app;

/* One piece of work: run on a pool thread, then done on the loop. */
struct hsp_app_task {
    uv_work_t req;
    struct hsp_app *app;
    void (*run)(struct hsp_app_task *w);
    void (*done)(struct hsp_app_task *w);
};

/* Queues @w. Behind its `done` the events that were posted there go to the core.
 * False: no memory, nothing was queued. */
bool hsp_app_queue(struct hsp_app *a, struct hsp_app_task *w);

#endif
