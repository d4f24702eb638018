/* @@SENTENCE@@ yaml_parse: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_YAML_PARSE_H
#define HSP_YAML_PARSE_H
#include "proto/text/yaml.h"

/* Parses @len bytes. @name stands in messages only. An empty text gives a NULL node.
 * Returns HSP_EPARSE with "name:line:column: what", HSP_ELIMIT likewise, HSP_ENOMEM. */
enum hsp_status hsp_yaml_parse(const char *name, const void *data, size_t len,
                               struct hsp_arena *arena, const struct hsp_yaml **ret,
                               struct hsp_err *err);

#endif
