/* Makes jobs, plans and clusters for the tests of daemon/app. */
#ifndef HSP_APP_LIB_H
#define HSP_APP_LIB_H
#include "daemon/app/plans/job_record.h"
#include "daemon/cluster/cluster_state.h"

/* A job file of a small gpt in fp32 with AdamW; @extra: more lines. Fails the test on error. */
struct hsp_job_rec *app_job(const char *extra, uint32_t n_files, const struct hsp_m_file *files);
/* Parses and checks a plan of the job; lives in @arena. */
struct hsp_plan *app_plan(const struct hsp_job_rec *j, const char *text, struct hsp_arena *arena);
/* A compiled plan of the job on the devices. */
struct hsp_epoch_plan *app_epoch(const struct hsp_job_rec *j, const char *text,
                                 const hsp_device_id *device, uint32_t copies);

extern const char app_dp2[], app_pipe2[], app_tp2[], app_zero3[], app_one[];

/* A core with nodes that joined in the given order, one device each; never stepped. */
struct app_node {
    const char *name;
    double speed;
    uint64_t mem_bytes;
};
struct hsp_cluster *app_cluster(const struct app_node *nodes, uint32_t n);
void app_cluster_free(struct hsp_cluster *c);

#endif
