/* @@SENTENCE@@ marks: purpose to be written. */
#ifndef HSP_MARKS_H
#define HSP_MARKS_H
#include "daemon/cluster/cluster_state.h"

struct hsp_job_mark *hsp_ci_marked(const struct hsp_job *j, uint32_t node); /* NULL: nothing */
struct hsp_job_mark *hsp_ci_mark(struct hsp_cluster *c, struct hsp_job *j, uint32_t node);
void hsp_ci_marks_free(struct hsp_job *j);

#endif
