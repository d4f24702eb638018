/* Keeps the program templates of a job's last two compiles, so that a switch builds only the
 * templates that it changes.
 *
 * Purity:    pure.
 * Threads:   an hsp_templates belongs to one compile at a time.
 * Ownership: an hsp_templates has copies of its own.
 * Bounds:    KEPT_BYTES for the templates of one compile; beyond, they are built again. */
#ifndef HSP_TEMPLATE_CACHE_H
#define HSP_TEMPLATE_CACHE_H
#include <stdbool.h>
#include <stdint.h>

#include "daemon/spmd/lower/stage_ir.h"

struct hsp_member_code;
struct hsp_traced_template;
struct hsp_traced_templates;

/* Templates of the last compiles of a job. */
struct hsp_templates;
struct hsp_templates *hsp_templates_new(void);                     /* NULL without memory */
struct hsp_templates *hsp_templates_free(struct hsp_templates *k); /* NULL allowed; returns NULL */
struct hsp_template_count {
    uint32_t made, kept; /* different templates: new ones; those that were there */
    bool stored;         /* templates are there for the next compile; else memory was short */
};
/* Counts of the last compile that succeeded. */
struct hsp_template_count hsp_templates_count(const struct hsp_templates *k);
/* Keeps the traced templates @m, and drops those of the compile before last. Without memory nothing
 * changes. */
void hsp_templates_renew(struct hsp_templates *k, const struct hsp_traced_templates *m);
/* Gets the traced template of @code: one of this compile, else a copy of a kept one, else a new
 * one. *ret is valid until the next call. Errors of hsp_traced_template_make. */
enum hsp_status hsp_traced_template_get(struct hsp_compiler *c, const struct hsp_member_code *code,
                                        const struct hsp_traced_template **ret,
                                        struct hsp_err *err);

#endif
