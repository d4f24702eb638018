/* Parses YAML text into a tree with the events of libyaml. Recursion is bounded by
 * HSP_YAML_MAX_DEPTH.
 *
 * Purity: pure. */
#ifndef HSP_YAML_PARSE_H
#define HSP_YAML_PARSE_H
#include "proto/text/yaml.h"

/* Parses @len bytes. @name stands in messages only. An empty text gives a NULL node.
 * Returns HSP_EPARSE with "name:line:column: what", HSP_ELIMIT likewise, HSP_ENOMEM. */
enum hsp_status hsp_yaml_parse(const char *name, const void *data, size_t len,
                               struct hsp_arena *arena, const struct hsp_yaml **ret,
                               struct hsp_err *err);

#endif
