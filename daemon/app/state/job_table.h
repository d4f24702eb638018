/* Keeps the jobs of the coordinator with their plans and epochs, and reads their rows at the start.
 *
 * Role:      the core knows the resources of a job; this table has its texts: the record, the kept
 *            plans and the texts of status. Rows in the store: app/job/ID and app/plan/ID/NUMBER.
 * Purity:    pure, except hsp_app_job_look_back and hsp_app_jobs_recall, which read the store;
 *            hsp_app_jobs_recall also writes to the log.
 * Ownership: the app owns the table; records of jobs and plans are reference-counted.
 * Bounds:    HSP_MAX_JOBS + 1 jobs, HSP_APP_EPOCHS lines of epochs for each.
 */
#ifndef HSP_JOB_TABLE_H
#define HSP_JOB_TABLE_H
#include "daemon/app/http/prometheus.h"
#include "daemon/app/plans/job_record.h"
#include "daemon/app/plans/plan_request.h"
#include "daemon/app/store/event_line.h"

#define HSP_APP_EPOCHS 64 /* newest lines of a job's epochs table that status shows */

struct hsp_app;

struct hsp_app_plan {
    uint64_t no;
    struct hsp_plan_rec *rec; /* counted */
};

struct hsp_app_job {
    uint32_t id;
    struct hsp_job_rec *rec; /* counted */
    size_t n_plans, cap_plans;
    struct hsp_app_plan *plans;
    uint64_t result_ticket; /* of the answer that may be kept */
    struct hsp_plan_rec *result;
    uint64_t key_epoch; /* whose key is below */
    uint8_t key[HSP_KEY_BYTES];
    size_t n_epochs, cap_epochs;
    struct hsp_epoch_line *epochs; /* oldest first */
    size_t n_measured;
    struct hsp_device_measured *measured; /* owned: by its last steps that were recorded */
    uint64_t traced;                      /* epoch whose steps were recorded for that; 0 none */
    /* The newest reported step. A part of the history may be given up since: ask hsp_app_job_newest
     * and hsp_app_job_diverges. */
    bool have_step;
    struct hsp_m_step step; /* the newest of the newest epoch; arrays not valid */
    uint64_t step_epoch;    /* of it */
    bool diverged;          /* no loss from diverged_from on is finite, as far as is known */
    uint64_t diverged_from, diverged_epoch;
    /* `begun` of the job when its store was read for the valid steps; 0 never. */
    uint64_t looked_back;
    struct hsp_job_metrics metrics;
};

/* A job whose stored rows cannot be read, by this version at least. The rows stay. */
struct hsp_app_unreadable {
    uint32_t id;
    char why[HSP_TEXT_MAX];
};

/* NULL: unknown. */
struct hsp_app_job *hsp_app_job_find(struct hsp_app *a, uint32_t id);
/* Takes over the caller's reference. NULL: no memory. */
struct hsp_app_job *hsp_app_job_add(struct hsp_app *a, uint32_t id, struct hsp_job_rec *rec);
void hsp_app_job_remove(struct hsp_app *a, uint32_t id);
/* Returns the reason why the rows of a job cannot be read, with the name of the row. Returns NULL
 * if they can be read, or if there is no such job. */
const char *hsp_app_job_fault(const struct hsp_app *a, uint32_t id);
/* Returns the newest step of @core that is known, to show to people. After a start of hspmdd the
 * core learns the step with the next vote; the table has read it from the store before that. */
uint64_t hsp_app_job_step(struct hsp_app *a, const struct hsp_job *core);
/* "": unknown. */
const char *hsp_app_job_name(struct hsp_app *a, uint32_t id);

/* NULL: not kept. Borrowed. */
struct hsp_plan_rec *hsp_app_plan_find(struct hsp_app_job *j, uint64_t no);
/* Takes over @rec. False: no memory. */
bool hsp_app_plan_add(struct hsp_app_job *j, uint64_t no, struct hsp_plan_rec *rec);
void hsp_app_plan_drop(struct hsp_app_job *j, uint64_t no);
/* The oldest line goes when there are HSP_APP_EPOCHS. */
void hsp_app_epoch_add(struct hsp_app_job *j, const struct hsp_epoch_line *l);

/* Takes the report of @epoch on step @s, unless the job's history has dropped that step of that
 * epoch. Notes whether the loss is finite, and the norm of the gradient. Returns true if the step
 * is newer than all reported before. */
bool hsp_app_job_told(struct hsp_app_job *j, const struct hsp_job *core, uint64_t epoch,
                      const struct hsp_m_step *s);
/* Returns the newest step of the history of @core whose metrics are known. Returns NULL if there is
 * none, or if the job has given up all steps that are known (daemon/cluster/ckpt_cuts.h). @j may be
 * NULL. */
const struct hsp_m_step *hsp_app_job_newest(const struct hsp_app_job *j,
                                            const struct hsp_job *core);
/* Returns true if no loss of the history of @core from step *ret_from on is finite. */
bool hsp_app_job_diverges(const struct hsp_app_job *j, const struct hsp_job *core,
                          uint64_t *ret_from);

/* If the job has given up the newest step that is known, reads the newest step that still counts
 * from the store, on a pool thread, once for each begin of the job. */
void hsp_app_job_look_back(struct hsp_app *a, struct hsp_app_job *j, const struct hsp_job *core);

/* Reads this table's rows among the rows of the store. If some row of a job cannot be read, the job
 * is not loaded: it is listed as unreadable, with the reason (hsp_app_job_fault). HSP_ENOMEM. */
enum hsp_status hsp_app_jobs_load(struct hsp_app *a, const struct hsp_cluster_row *rows, uint32_t n,
                                  struct hsp_err *err);
/* Reads the lines of epochs and the metrics of the jobs of an earlier start back from the store. */
void hsp_app_jobs_recall(struct hsp_app *a);
void hsp_app_jobs_free(struct hsp_app *a);

#endif
