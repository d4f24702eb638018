#include "daemon/plan/pool_yaml.h"

#include <string.h> /* memchr */

#include "daemon/plan/plan.h"
#include "daemon/plan/plan_yaml_one.h"
#include "proto/base/size.h"
#include "proto/text/yaml.h"
#include "proto/text/yaml_read.h"

#define INDENT     "      " /* of a plan in the list of a pool */
#define TEXT_BYTES ((size_t)64 << 20)

static enum hsp_status read_entry(const struct hsp_yaml *y, uint32_t global_batch, uint32_t below,
                                  struct hsp_arena *arena, struct hsp_plan **ret,
                                  struct hsp_err *err)
{
    static const char *const keys[] = {"max_length", "plan"};
    enum hsp_status rc = hsp_yaml_expect(y, HSP_YAML_MAP, err);
    uint64_t length = 0;
    if (rc == HSP_OK) {
        rc = hsp_yaml_check_keys(y, keys, HSP_ARRAY_LEN(keys), err);
    }
    const struct hsp_yaml *l = hsp_yaml_get(y, "max_length"), *p = hsp_yaml_get(y, "plan");
    if (rc == HSP_OK && (l == NULL || p == NULL)) {
        rc = hsp_yaml_error(y, err, "missing key %s", l == NULL ? "max_length" : "plan");
    }
    if (rc == HSP_OK) {
        rc = hsp_yaml_u64(l, 1, HSP_MAX_LONGEST, &length, err);
    }
    if (rc == HSP_OK && length <= below) {
        rc = hsp_yaml_error(l, err, "must be above %u, that of the plan before it", below);
    }
    if (rc == HSP_OK) {
        rc = hsp_plan_read(p, global_batch, arena, ret, err);
    }
    if (rc == HSP_OK) {
        (*ret)->max_length = (uint32_t)length;
    }
    return rc;
}

enum hsp_status hsp_pool_read(const struct hsp_yaml *y, uint32_t global_batch,
                              struct hsp_arena *arena, struct hsp_plan **ret, struct hsp_err *err)
{
    static const char *const keys[] = {"apiVersion", "kind", "plans"};
    struct hsp_plan **of = NULL;
    enum hsp_status rc = hsp_yaml_check_keys(y, keys, HSP_ARRAY_LEN(keys), err);
    const struct hsp_yaml *plans = hsp_yaml_get(y, "plans");
    if (rc == HSP_OK && plans == NULL) {
        rc = hsp_yaml_error(y, err, "missing key plans");
    }
    if (rc == HSP_OK) {
        rc = hsp_yaml_expect(plans, HSP_YAML_SEQ, err);
    }
    if (rc == HSP_OK && (plans->n == 0 || plans->n > HSP_MAX_POOL)) {
        rc = hsp_yaml_error(plans, err, "%zu entries, must be 1 to %d", plans->n, HSP_MAX_POOL);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    of = hsp_arena_array(arena, plans->n, sizeof *of);
    if (of == NULL) {
        return hsp_err_nomem(err, "the pool of plans");
    }
    for (size_t i = 0; rc == HSP_OK && i < plans->n; i++) {
        uint32_t below = i > 0 ? of[i - 1]->max_length : 0;
        rc = read_entry(&plans->items[i], global_batch, below, arena, &of[i], err);
    }
    if (rc == HSP_OK) {
        *ret = of[plans->n - 1];
        (*ret)->n_shorter = (uint32_t)plans->n - 1;
        (*ret)->shorter = of;
    }
    return rc;
}

/* The lines of @text behind the indentation of a list's plan. */
static void put_indented(const char *text, size_t len, struct hsp_buf *out)
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t n = end != NULL ? (size_t)(end - text) + 1 : len;
        hsp_buf_puts(out, INDENT);
        hsp_buf_append(out, text, n);
        text += n;
        len -= n;
    }
}

void hsp_pool_dump(const struct hsp_plan *p, struct hsp_buf *out)
{
    hsp_buf_puts(out, "apiVersion: hspmd/v1\nkind: pool\nplans:\n");
    for (uint32_t k = 0; k <= p->n_shorter; k++) {
        const struct hsp_plan *one = hsp_pool_plan(p, k);
        struct hsp_buf text;
        hsp_buf_init(&text, TEXT_BYTES);
        hsp_plan_dump_one(one, &text);
        hsp_buf_printf(out, "  - max_length: %u\n    plan:\n", one->max_length);
        put_indented((const char *)text.data, text.len, out);
        if (text.failed) {
            out->failed = true;
            out->nomem = out->nomem || text.nomem;
        }
        hsp_buf_fini(&text);
    }
}
