/* Keeps the program templates of a job's last compiles, so that a switch builds only those that changed.
 *
 * Purity:    pure.
 * Threads:   for one compile at a time.
 */
#ifndef HSP_TEMPLATE_CACHE_H
#define HSP_TEMPLATE_CACHE_H
#include <stdbool.h>
#include <stdint.h>

/* Templates of the last compiles of a job, so that a switch makes only those that changed (template_builder.h).
 * For one compile at a time. */
struct hsp_templates;
struct hsp_templates *hsp_templates_new(void);                     /* NULL without memory */
struct hsp_templates *hsp_templates_free(struct hsp_templates *k); /* NULL allowed; returns NULL */
struct hsp_template_count {
    uint32_t made, kept; /* different templates: new ones; those that were there */
    bool stored;         /* they are there for the next compile; else memory was short */
};
/* Of the last compile that succeeded. */
struct hsp_template_count hsp_templates_count(const struct hsp_templates *k);

#endif
