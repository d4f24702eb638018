/* Holds the daemon's record of a job, in addition to the core's: its files, model and plans.
 *
 * Role:      a job record is made from the submitted texts (and again from its stored row); a plan
 *            record is made by planning (and again from its row). Both rows hold texts only:
 *            everything else follows from them deterministically (decision D13).
 * Purity:    pure.
 * Threads:   counted references; immutable except the compiled plan, which is made once under the
 *            record's lock, and a job's templates, which one compile at a time uses. Any thread may
 *            hold and use one.
 * Ownership: records own all they point to. A plan record holds a reference to its job.
 */
#ifndef HSP_JOB_RECORD_H
#define HSP_JOB_RECORD_H
#include <pthread.h>
#include <stdatomic.h>

#include "daemon/app/plans/epoch_package.h"
#include "daemon/planner/job_file.h"
#include "daemon/planner/planner.h"

struct hsp_job_rec {
    atomic_uint refs;
    struct hsp_arena *arena; /* texts and spec */
    const char *file;        /* name of the job file, for messages */
    const char *text;        /* as submitted, with HSP_JOB_DEFAULTS; of an older hspmdd without */
    size_t len;
    uint32_t n_plans; /* annotation files, in the order of the job file */
    struct hsp_plan_text *plans;
    const struct hsp_job_spec *spec;
    struct hsp_graph *graph; /* owned, differentiated */
    const char *config_json; /* of the model */
    pthread_mutex_t compiling;
    struct hsp_templates *templates; /* owned, under @compiling: of its last plans */
};

/* Checks everything that can be checked without devices: the job file, that paths are absolute, and
 * that each plan file that it names is there (matched by name in @files) and is a plan for the
 * model. HSP_EPARSE, HSP_EINVAL with one line that names the file; HSP_ENOMEM. */
enum hsp_status hsp_job_rec_make(const char *file, const char *text, size_t len, uint32_t n_files,
                                 const struct hsp_m_file *files, struct hsp_job_rec **ret,
                                 struct hsp_err *err);
struct hsp_job_rec *hsp_job_rec_ref(struct hsp_job_rec *j);
struct hsp_job_rec *hsp_job_rec_unref(struct hsp_job_rec *j); /* NULL allowed; returns NULL */

void hsp_job_rec_encode(const struct hsp_job_rec *j, struct hsp_buf *out);
/* HSP_EPARSE: @data is no such row. */
enum hsp_status hsp_job_rec_decode(const void *data, size_t len, struct hsp_job_rec **ret,
                                   struct hsp_err *err);

struct hsp_plan_rec {
    atomic_uint refs;
    struct hsp_job_rec *job; /* counted */
    struct hsp_arena *arena;
    const char *text;    /* plan file, total: the running plan */
    const char *source;  /* "planner", or the annotation's name */
    const char *summary; /* "2 pipelines: 10 seq on a/0+a/1 (3:1) > b/0; ..." */
    const char *why;     /* one line */
    uint32_t n_ranks, copies;
    hsp_device_id *device; /* [n_ranks] */
    double *compute_s;     /* [n_ranks] predicted */
    double step_s;
    pthread_mutex_t lock;
    struct hsp_epoch_plan *built; /* under lock; made by hsp_plan_rec_build */
};

/* Compiles @plan and keeps the total plan of the compiled one as its text. Takes long.
 * @names[rank]: NODE/INDEX, for the summary. */
enum hsp_status hsp_plan_rec_make(struct hsp_job_rec *job, const struct hsp_plan *plan,
                                  const hsp_device_id *device, const double *compute_s,
                                  const char *const *names, const char *source, size_t mem_cap,
                                  struct hsp_plan_rec **ret, struct hsp_err *err);
struct hsp_plan_rec *hsp_plan_rec_ref(struct hsp_plan_rec *p);
struct hsp_plan_rec *hsp_plan_rec_unref(struct hsp_plan_rec *p); /* NULL allowed; returns NULL */

/* Gets the compiled plan, which lives as long as the record. For a decoded record the first call
 * compiles it, which takes long, so do not call this on the loop thread. */
enum hsp_status hsp_plan_rec_build(struct hsp_plan_rec *p, size_t mem_cap,
                                   const struct hsp_epoch_plan **ret, struct hsp_err *err);

/* Returns the sealed bytes of each rank in the state folder of its node, [n_ranks], own state and
 * copies. Returns NULL if the plan was not compiled in this process, or a compile is under way; it
 * never waits. */
const uint64_t *hsp_plan_rec_folder_bytes(struct hsp_plan_rec *p);

void hsp_plan_rec_encode(const struct hsp_plan_rec *p, struct hsp_buf *out);
enum hsp_status hsp_plan_rec_decode(const void *data, size_t len, struct hsp_job_rec *job,
                                    struct hsp_plan_rec **ret, struct hsp_err *err);

#endif
