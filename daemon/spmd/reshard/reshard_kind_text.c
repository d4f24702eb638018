#include "daemon/spmd/reshard/reshard_kind_text.h"

#include <string.h>

#include "daemon/spmd/reshard/reshard_kind.h"
#include "proto/base/buf.h"
#include "proto/base/size.h"

const char *hsp_method_name(uint8_t method)
{
    static const char *const names[] = {"identity",
                                        "slice",
                                        "to_partial",
                                        "send_recv",
                                        "all_reduce",
                                        "reduce_scatter",
                                        "all_gather",
                                        "split_all_reduce",
                                        "split_reduce_scatter",
                                        "split_all_gather",
                                        "all_to_all",
                                        "bsr"};
    return method < HSP_ARRAY_LEN(names) ? names[method] : "unknown";
}

static bool same_steps(const struct hsp_method_part *a, const struct hsp_method_part *b)
{
    return a->n_steps == b->n_steps && memcmp(a->step, b->step, a->n_steps) == 0;
}

static void put_steps(const struct hsp_method_part *p, struct hsp_buf *out)
{
    for (uint8_t i = 0; i < p->n_steps; i++) {
        hsp_buf_printf(out, "%s%s", i > 0 ? " + " : "", hsp_method_name(p->step[i]));
    }
}

void hsp_methods_put(const struct hsp_methods *m, struct hsp_buf *out)
{
    for (uint32_t i = 0; i < m->n; i++) {
        bool first = true;
        for (uint32_t k = 0; k < i; k++) {
            first = first && !same_steps(&m->part[k], &m->part[i]);
        }
        if (first) {
            hsp_buf_puts(out, i > 0 ? ", " : "");
            put_steps(&m->part[i], out);
        }
    }
}
