/* Lists the jobs and clusters of all segments on a node, sealed or not, whole or damaged.
 *
 * Purity:  shell (the files of one folder).
 * Example: job-4+0+2+e7+s0.seg and job-4+0+2+e8+s0.seg are job 4, newest layout 8. Its papers
 *          (papers_file.h) say its name, its newest epoch, and the cluster that adopted it last,
 *          unless they are damaged (papers_damaged). */
#ifndef HSP_KEPT_H
#define HSP_KEPT_H
#include "proto/wire/msg.h"

/* Lists at most HSP_MSG_KEPT jobs in *ret, free(). *ret_more: the folder has segments of further
 * jobs. A job has no cluster if none of its files names one. A folder that does not exist has no
 * jobs. HSP_EIO, HSP_ELIMIT, HSP_ENOMEM: nothing is known of the folder. */
enum hsp_status hsp_kept_scan(const char *dir, struct hsp_m_kept **ret, uint32_t *ret_n,
                              bool *ret_more, struct hsp_err *err);
/* For an agent that begins: deletes the papers of jobs that have no segment, since nothing can go
 * on from them. HSP_EIO; HSP_ENOMEM: deletes none. */
enum hsp_status hsp_kept_tidy(const char *dir, struct hsp_err *err);
/* Deletes the papers of @job if it has no segment. Only the writer of papers may call it: a process
 * that deletes the last segment does not know whether papers are on their way. HSP_EIO; HSP_ENOMEM:
 * they stay. */
enum hsp_status hsp_kept_tidy_job(const char *dir, uint32_t job, struct hsp_err *err);

#endif
