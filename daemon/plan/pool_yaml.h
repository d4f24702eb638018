/* @@SENTENCE@@ pool_yaml: purpose to be written. */
#ifndef HSP_POOL_YAML_H
#define HSP_POOL_YAML_H
#include "daemon/plan/plan.h"
#include "proto/text/yaml.h"

enum hsp_status hsp_pool_read(const struct hsp_yaml *y, uint32_t global_batch,
                              struct hsp_arena *arena, struct hsp_plan **ret, struct hsp_err *err);
void hsp_pool_dump(const struct hsp_plan *p, struct hsp_buf *out);

#endif
