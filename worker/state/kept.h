/* Lists the jobs of which a node keeps anything, sealed or not, whole or damaged, and whose it is.
 *
 * Purity:  shell (the files of one folder).
 * Example: job-4+0+2+e7+s0.seg and job-4+0+2+e8+s0.seg are job 4, newest layout 8. Its papers
 *          (papers_file.h) say its name, its newest epoch, and whose it is since it was adopted. */
#ifndef HSP_KEPT_H
#define HSP_KEPT_H
#include "proto/wire/msg.h"

/* *ret, released with free(), has at most HSP_MSG_KEPT jobs, of each no more than the files say:
 * no cluster, when none of them names one. A folder that is not there has none. HSP_EIO, HSP_ELIMIT;
 * HSP_ENOMEM. */
enum hsp_status hsp_kept_scan(const char *dir, struct hsp_m_kept **ret, uint32_t *ret_n,
                              struct hsp_err *err);
/* For an agent that begins: deletes the papers of jobs that have no segment, since nothing can go on
 * from them. HSP_EIO; HSP_ENOMEM: deletes none. */
enum hsp_status hsp_kept_tidy(const char *dir, struct hsp_err *err);

#endif
