/* Loads the inputs that several commands share: a job's file, its graph, its plan files, a cluster.
 *
 * Purity:    shell (reads files).
 * Ownership: texts and specs in the arena given; the graph is freed by hsp_loaded_fini. */
#ifndef HSP_JOB_LOAD_H
#define HSP_JOB_LOAD_H

#include "daemon/planner/job_file.h"
#include "daemon/planner/planner.h"

struct hsp_loaded {
    const char *path;
    const char *text; /* of the job file */
    size_t len;
    const struct hsp_job_spec *job;
    struct hsp_graph *g; /* owned */
    uint32_t n_plans;
    struct hsp_plan_text *plans; /* of annotations, in order */
};

/* Turns the errors of a wrong file, HSP_EINVAL and HSP_ELIMIT, into HSP_EPARSE ("exit code 6");
 * @err too. */
enum hsp_status hsp_bad_file(enum hsp_status st, struct hsp_err *err);

/* A whole file as text. HSP_EPARSE ("exit code 6") also when it cannot be read. */
enum hsp_status hsp_load_text(struct hsp_arena *arena, const char *path, const char **ret,
                              size_t *ret_len, struct hsp_err *err);

/* Job file, annotation files beside it, graph. */
enum hsp_status hsp_load_job(struct hsp_arena *arena, const char *path, struct hsp_loaded *ret,
                             struct hsp_err *err);
/* The same of a job file's text, which stays the caller's; annotations are not looked for. @name
 * appears in messages. */
enum hsp_status hsp_read_job(struct hsp_arena *arena, const char *name, const char *text,
                             size_t len, struct hsp_loaded *ret, struct hsp_err *err);
void hsp_loaded_fini(struct hsp_loaded *l);

/* Cluster file. */
enum hsp_status hsp_load_cluster(struct hsp_arena *arena, const char *path,
                                 struct hsp_cluster_desc *ret, struct hsp_err *err);

/* One plan file, or its text, parsed and checked against the job. */
enum hsp_status hsp_load_plan(struct hsp_arena *arena, const struct hsp_loaded *l, const char *path,
                              struct hsp_plan **ret, struct hsp_err *err);
enum hsp_status hsp_read_plan(struct hsp_arena *arena, const struct hsp_loaded *l,
                              const struct hsp_plan_text *text, struct hsp_plan **ret,
                              struct hsp_err *err);

/* True when a text is a file of a plan or a pool of them, by its `kind`. Only HSP_ENOMEM: other
 * mistakes in a text are told by its later reader. */
enum hsp_status hsp_is_plan(const char *text, size_t len, struct hsp_arena *arena, bool *ret,
                            struct hsp_err *err);

#endif
