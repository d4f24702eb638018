/* hspmdctl plan import: strategies of the HSPMD artifact as plans. */
#include "daemon/ctl/command.h"
#include "daemon/ctl/jobload.h"
#include "daemon/ctl/table.h"
#include "daemon/spmd/strategy.h"
#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/text/yaml.h"

#define MAX_PLAN_BYTES ((size_t)64 << 20)

static int list(struct hsp_ctl *ctl, const struct hsp_strategies *all)
{
    static const struct hsp_column columns[] = {
        {"N", true},       {"CLUSTER", false}, {"MODEL", false}, {"DEVICES", true},
        {"STREAMS", true}, {"STAGES", true},   {"LAYERS", true}, {"MICRO", true}};
    struct hsp_table *t = hsp_table_new(ctl, columns, HSP_ARRAY_LEN(columns));
    for (uint32_t i = 0; i < all->n; i++) {
        const struct hsp_plan *p = all->of[i].plan;
        uint32_t stages = 0, layers = 0, micro = 0;
        for (uint32_t k = 0; k < p->n_streams; k++) {
            stages += p->streams[k].n_stages;
            micro += p->streams[k].micro_batches;
        }
        for (uint32_t k = 0; k < p->streams[0].n_stages; k++) {
            layers += p->streams[0].stages[k].layers;
        }
        const char *cells[] = {hsp_ctl_text(ctl, "%u", i),
                               all->of[i].cluster,
                               all->of[i].model,
                               hsp_ctl_text(ctl, "%u", p->n_ranks),
                               hsp_ctl_text(ctl, "%u", p->n_streams),
                               hsp_ctl_text(ctl, "%u", stages),
                               hsp_ctl_text(ctl, "%u", layers),
                               hsp_ctl_text(ctl, "%u", micro)};
        hsp_table_row(t, cells);
    }
    return hsp_table_print(t) ? HSP_EXIT_OK : HSP_EXIT_FAILED;
}

static int print(struct hsp_ctl *ctl, const char *path, const struct hsp_strategy *s)
{
    struct hsp_buf b;
    struct hsp_err err = {0};
    hsp_buf_init(&b, MAX_PLAN_BYTES);
    hsp_buf_puts(&b, "# from ");
    hsp_yaml_put_str(&b, path);
    hsp_buf_puts(&b, "\n");
    for (uint32_t r = 0; r < s->plan->n_ranks; r++) {
        if (s->device[r] != r) {
            hsp_buf_printf(&b, "# rank %u: device %u\n", r, s->device[r]);
        }
    }
    if (s->rings_open) {
        hsp_buf_printf(&b,
                       "# each of its %u pipelines is a stream: the file has no CP_LIST that says "
                       "which are rings\n",
                       s->plan->n_streams);
    }
    hsp_plan_dump(s->plan, &b);
    enum hsp_status st = hsp_buf_status(&b);
    if (st != HSP_OK) {
        (void)hsp_err_set(&err, st, 0, "%s for the plan",
                          st == HSP_ENOMEM ? "out of memory" : "more than 64 MiB");
    } else if (fwrite(b.data, 1, b.len, ctl->out) != b.len) {
        st = hsp_err_set(&err, HSP_EIO, 0, "the answer could not be written");
    }
    hsp_buf_fini(&b);
    return st == HSP_OK ? HSP_EXIT_OK : hsp_ctl_fail(ctl, &err);
}

int hsp_cmd_plan_import(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_strategies all;
    const char *text = NULL;
    size_t len = 0;
    uint64_t n = 0;
    enum hsp_status st = hsp_load_text(ctl->arena, ctl->pos[0], &text, &len, &err);
    if (st == HSP_OK) {
        st = hsp_bad_file(hsp_strategies_parse(text, len, ctl->pos[0], ctl->arena, &all, &err),
                          &err);
    }
    if (st == HSP_OK && ctl->n_pos > 1 && (!hsp_parse_u64(ctl->pos[1], &n) || n >= all.n)) {
        st = hsp_err_set(&err, HSP_ENOENT, 0, "no strategy %s, %s has %u", ctl->pos[1], ctl->pos[0],
                         all.n);
    }
    if (st != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    return all.n > 1 && ctl->n_pos == 1 ? list(ctl, &all) : print(ctl, ctl->pos[0], &all.of[n]);
}
