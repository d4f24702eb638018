/* Reads the job file: the wishes of a user, checked and with defaults filled in.
 *
 * Role:      read by hspmdctl (compile, plan, submit) and by hspmdd from the submit message, which
 *            carries the same text. JSON is a subset of YAML, so a JSON text is a job file too.
 * Purity:    pure: texts in, no file is opened. `annotations` are names of plan files relative to
 *            the job file; the holder of the files reads them and passes their texts on.
 * Ownership: everything lives in the arena given; immutable.
 * Bounds:    the ranges in the table of job_file.c.
 */
#ifndef HSP_JOB_FILE_H
#define HSP_JOB_FILE_H

#include "daemon/graph/train_spec.h"
#include "daemon/plan/plan.h"
#include "proto/text/field.h"

#define HSP_MAX_ANNOTATIONS  64 /* plan files of one job: one for each number of devices */
#define HSP_MAX_GLOBAL_BATCH 65536

struct hsp_job_spec {
    const char *name;
    struct hsp_model_spec model;
    struct hsp_train_spec train;
    const char *data_path; /* on every worker */
    uint32_t min, max;     /* devices */
    int64_t priority;      /* higher first */
    uint32_t copies;       /* nodes that hold each piece of state */
    uint32_t every;        /* steps between versions that are sealed and copied; 0: chosen by */
    double overhead, max_recompute_s; /* at most so much of the time; seconds of steps */
    const char *ckpt_path;            /* on every worker, or a shared folder */
    bool ckpt_shared;
    uint32_t ckpt_every_steps; /* 0: never */
    uint32_t ckpt_keep;
    struct hsp_strs annotations; /* file names as written */
    const char *init_from;       /* safetensors, "" none */
    const void *fields;          /* the input of hsp_job_dump */
};

/* Parses @len bytes; @file stands in messages only. HSP_EPARSE: one line
 * "file:line:column: key: what is wrong", for an unknown key with the nearest known one. */
enum hsp_status hsp_job_parse(const char *text, size_t len, const char *file,
                              struct hsp_arena *arena, const struct hsp_job_spec **ret,
                              struct hsp_err *err);
/* hspmdd appends this line to the text of a job that it stores. It marks that keys absent from the
 * text have the defaults of this version. Older versions of hspmdd took `recovery.every: 1` as the
 * default, and stored the text as it was sent. */
#define HSP_JOB_DEFAULTS "\n# hspmdd: recovery.every is auto where it is not said\n"

/* Parses, like hsp_job_parse, the text of a job that hspmdd took earlier and stored, with two
 * differences. A name that is a number is allowed, since it is refused only when a job is
 * submitted. If the text does not end with HSP_JOB_DEFAULTS, `recovery.every` is 1 when the text
 * does not say it. */
enum hsp_status hsp_job_parse_stored(const char *text, size_t len, const char *file,
                                     struct hsp_arena *arena, const struct hsp_job_spec **ret,
                                     struct hsp_err *err);

/* The job as YAML with every default written out; parse(dump(x)) == x. @help: each key with its
 * explanation as a comment. */
void hsp_job_dump(const struct hsp_job_spec *job, bool help, struct hsp_buf *out);

/* The keys of `model:` as one JSON object: config.json beside the trained weights. */
void hsp_job_model_json(const struct hsp_job_spec *job, struct hsp_buf *out);

#endif
