/* Keeps the papers of jobs (proto/wire/papers.h) beside their segments, for an hspmdd that has lost
 * its rows.
 *
 * Purity:  shell (the files of one folder).
 * Example: job-4.papers lies beside job-4+0+2+e7+s0.seg, and goes with the last segment of job
 *          4. */
#ifndef HSP_PAPERS_FILE_H
#define HSP_PAPERS_FILE_H
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

/* Replaces the papers of @job, whole or not at all. HSP_EDIGEST, HSP_EVERSION: @data are no papers
 * of @job; HSP_ENOSPC, HSP_EPERM, HSP_EIO, HSP_ENOMEM. After an error the old papers are still
 * there. */
enum hsp_status hsp_papers_file_write(const char *dir, uint32_t job, const void *data, size_t len,
                                      struct hsp_err *err);
/* Reads the papers of @job. *ret: free(). HSP_ENOENT; HSP_EDIGEST, HSP_EVERSION: the file cannot be
 * used; HSP_ELIMIT, HSP_EPERM, HSP_EIO, HSP_ENOMEM. */
enum hsp_status hsp_papers_file_read(const char *dir, uint32_t job, uint8_t **ret, size_t *ret_len,
                                     struct hsp_err *err);
/* Deletes the papers of @job; no error when there are none. HSP_EIO. */
enum hsp_status hsp_papers_file_remove(const char *dir, uint32_t job, struct hsp_err *err);
/* Calls @fn with each job that has papers in @dir, and deletes the files of writers that died.
 * HSP_ENOENT: no folder; HSP_EIO, HSP_ENOMEM. */
typedef void hsp_papers_file_fn(void *ctx, uint32_t job);
enum hsp_status hsp_papers_file_each(const char *dir, hsp_papers_file_fn *fn, void *ctx,
                                     struct hsp_err *err);

#endif
