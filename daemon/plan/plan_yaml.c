#include "daemon/plan/plan_yaml.h"

#include "daemon/plan/plan_yaml_one.h"
#include "daemon/plan/pool_yaml.h"
#include "daemon/plan/stage_groups.h"
#include "proto/base/size.h"
#include "proto/layout/annot_text.h"
#include "proto/layout/cut_shares.h"
#include "proto/text/yaml.h"
#include "proto/text/yaml_parse.h"
#include "proto/text/yaml_read.h"

/* apiVersion and kind of a file. HSP_EPARSE. */
static enum hsp_status read_head(const struct hsp_yaml *y, bool *ret_pool, struct hsp_err *err)
{
    static const char *const versions[] = {"hspmd/v1"}, *const kinds[] = {"plan", "pool"};
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_MAP, err);
    const struct hsp_yaml *v = hsp_yaml_get(y, "apiVersion"), *k = hsp_yaml_get(y, "kind");
    if (rc == HSP_OK && (v == NULL || k == NULL)) {
        rc = hsp_yaml_error(y, err, "missing key %s", v == NULL ? "apiVersion" : "kind");
    }
    size_t i = 0;
    if (rc == HSP_OK) {
        rc = hsp_yaml_choice(v, versions, 1, &i, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_yaml_choice(k, kinds, 2, &i, err);
    }
    *ret_pool = i == 1;
    return rc;
}

enum hsp_status hsp_plan_parse(const char *text, size_t len, const char *name,
                               uint32_t global_batch, struct hsp_arena *arena,
                               struct hsp_plan **ret, struct hsp_err *err)
{
    const struct hsp_yaml *y = NULL;
    bool pool = false;
    enum hsp_status rc = hsp_yaml_parse(name, text, len, arena, &y, err);
    if (rc == HSP_OK) {
        rc = read_head(y, &pool, err);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    return pool ? hsp_pool_read(y, global_batch, arena, ret, err)
                : hsp_plan_read(y, global_batch, arena, ret, err);
}

/* ---- dump ---- */

void hsp_plan_dump(const struct hsp_plan *p, struct hsp_buf *out)
{
    if (p->n_shorter > 0) {
        hsp_pool_dump(p, out);
    } else {
        hsp_plan_dump_one(p, out);
    }
}
