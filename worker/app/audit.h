/* The audit: which samples of the global batch each stream has read for each committed step.
 *
 * Role:    written for tests and for people who must prove what a model has seen; off by default.
 * Purity:  shell (one JSON line per step and stream, appended to a file per device). */
#ifndef HSP_AUDIT_H
#define HSP_AUDIT_H
#include "worker/app/epoch.h"

/* Notes the samples of @step, whose vote has passed. Only the rank that counts its stream's tokens
 * writes. HSP_OK without an audit folder. HSP_EIO, HSP_ENOSPC. */
enum hsp_status hsp_audit_step(const struct hsp_epoch *e, uint64_t step, struct hsp_err *err);

#endif
