#include "daemon/ctl/cmd_check.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/remote.h"
#include "daemon/ctl/table.h"
#include "proto/base/size.h"
#include "proto/base/str.h"
#include "proto/op/op.h"

enum { O_THRESHOLD, O_BUSY }; /* rows of check_options */
#define THRESHOLD 0.7

static const cJSON *part(const cJSON *o, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(o, key);
}

static const char *giga(struct hsp_ctl *ctl, const cJSON *o, const char *key)
{
    return hsp_ctl_text(ctl, "%.2f", 1e-9 * hsp_doc_number(o, key));
}

/* A number of a document, or "-". */
static const char *two_digits(struct hsp_ctl *ctl, const cJSON *o, const char *key)
{
    return hsp_doc_has(o, key) ? hsp_ctl_text(ctl, "%.2f", hsp_doc_number(o, key)) : "-";
}

static bool print_devices(struct hsp_ctl *ctl, const cJSON *nodes)
{
    static const struct hsp_column cols[] = {{"NODE", false},  {"DEVICE", true}, {"GFLOP/s", true},
                                             {"RECORD", true}, {"GB/s", true},   {"RECORD", true},
                                             {"SHARE", true},  {"RATIO", true},  {"VERDICT", false},
                                             {"REASON", false}};
    struct hsp_table *t = hsp_table_new(ctl, cols, HSP_ARRAY_LEN(cols));
    const cJSON *n, *d;
    cJSON_ArrayForEach(n, nodes)
    {
        const char *none[] = {hsp_doc_text(n, "name"),
                              NULL,
                              NULL,
                              NULL,
                              NULL,
                              NULL,
                              NULL,
                              NULL,
                              hsp_doc_text(n, "verdict"),
                              hsp_doc_text(n, "reason")};
        if (cJSON_GetArraySize(part(n, "devices")) == 0) {
            hsp_table_row(t, none);
        }
        cJSON_ArrayForEach(d, part(n, "devices"))
        {
            const cJSON *m = part(d, "measured"), *r = part(d, "on_record");
            const char *cells[] = {hsp_doc_text(n, "name"),
                                   hsp_ctl_text(ctl, "%.0f", hsp_doc_number(d, "index")),
                                   giga(ctl, m, "gemm_flops_per_second"),
                                   giga(ctl, r, "gemm_flops_per_second"),
                                   giga(ctl, m, "memory_bytes_per_second"),
                                   giga(ctl, r, "memory_bytes_per_second"),
                                   two_digits(ctl, d, "share"),
                                   two_digits(ctl, d, "ratio"),
                                   hsp_doc_text(d, "verdict"),
                                   ""};
            hsp_table_row(t, cells);
        }
    }
    return hsp_table_print(t);
}

static double item(const cJSON *o, const char *key, int i)
{
    const cJSON *v = cJSON_GetArrayItem(part(o, key), i);
    return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

static bool print_pairs(struct hsp_ctl *ctl, const cJSON *pairs)
{
    static const struct hsp_column cols[] = {{"FROM", false},    {"TO", false},    {"BY", false},
                                             {"LATENCY", true},  {"RECORD", true}, {"RATE", true},
                                             {"BACK", true},     {"RECORD", true}, {"RATIO", true},
                                             {"VERDICT", false}, {"REASON", false}};
    struct hsp_table *t = hsp_table_new(ctl, cols, HSP_ARRAY_LEN(cols));
    const cJSON *p;
    cJSON_ArrayForEach(p, pairs)
    {
        const cJSON *m = part(p, "measured"), *r = part(p, "on_record");
        double there = item(m, "latency_seconds", 0), back = item(m, "latency_seconds", 1);
        const char *cells[] = {
            hsp_doc_text(p, "a"),
            hsp_doc_text(p, "b"),
            m != NULL ? hsp_doc_text(p, "transport") : NULL,
            m != NULL ? hsp_ctl_time(ctl, 1e6 * (there > back ? there : back)) : NULL,
            r != NULL ? hsp_ctl_time(ctl, 1e6 * hsp_doc_number(r, "latency_seconds")) : NULL,
            m != NULL ? hsp_ctl_bytes(ctl, item(m, "bytes_per_second", 0)) : NULL,
            m != NULL ? hsp_ctl_bytes(ctl, item(m, "bytes_per_second", 1)) : NULL,
            r != NULL ? hsp_ctl_bytes(ctl, hsp_doc_number(r, "bytes_per_second")) : NULL,
            two_digits(ctl, p, "ratio"),
            hsp_doc_text(p, "verdict"),
            hsp_doc_text(p, "reason")};
        hsp_table_row(t, cells);
    }
    return hsp_table_print(t);
}

int hsp_check_view(struct hsp_ctl *ctl, const cJSON *doc)
{
    const cJSON *nodes = part(doc, "nodes"), *pairs = part(doc, "pairs");
    double skipped = hsp_doc_number(doc, "skipped"), bad = hsp_doc_number(doc, "worse");
    bool ok = true;
    if (ctl->format != HSP_FORMAT_JSON) {
        ok = print_devices(ctl, nodes);
        if (cJSON_GetArraySize(pairs) > 0) {
            ok = fputc('\n', ctl->out) != EOF && print_pairs(ctl, pairs) && ok;
        }
    }
    if (skipped > 0) {
        (void)fprintf(ctl->msg,
                      "hspmdctl: left out because they execute a job: %.0f; --busy measures them "
                      "too and slows the job down meanwhile\n",
                      skipped);
    }
    if (bad > 0) {
        (void)fprintf(
            ctl->msg,
            "hspmdctl: slow (below %g of the recorded rate), crowded or not reached: %.0f\n",
            hsp_doc_number(doc, "threshold"), bad);
    }
    return !ok || bad > 0                         ? HSP_EXIT_FAILED
           : hsp_doc_number(doc, "measured") == 0 ? HSP_EXIT_IMPOSSIBLE
                                                  : HSP_EXIT_OK;
}

/* Sends the request and waits, for ever, until hspmdd has measured: its orders have time limits. */
static enum hsp_status ask(struct hsp_ctl *ctl, struct hsp_msg *m, const char **ret,
                           struct hsp_err *err)
{
    struct hsp_remote *r = NULL;
    size_t len;
    bool more;
    enum hsp_status st = hsp_remote_open(ctl, &r, err);
    if (st == HSP_OK) {
        st = hsp_remote_send(r, m, err);
    }
    if (st == HSP_OK) {
        st = hsp_remote_recv(r, UINT32_MAX, ret, &len, &more, err);
    }
    (void)hsp_remote_close(r);
    return st;
}

int hsp_cmd_node_check(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    struct hsp_m_nodename name[HSP_CHECK_NODES];
    const char *text = "", *least = ctl->opt[O_THRESHOLD];
    double threshold = THRESHOLD;
    if (least != NULL &&
        (!hsp_parse_f64(least, &threshold) || !(threshold > 0 && threshold <= 1))) {
        return hsp_ctl_usage(ctl, "--threshold %s is not a part like 0.7", least);
    }
    for (int i = 0; i < ctl->n_pos; i++) {
        name[i].name = ctl->pos[i];
    }
    struct hsp_msg m = {.type = HSP_MSG_NODE_CHECK,
                        .u.nodecheck = {.threshold = threshold,
                                        .busy = ctl->opt[O_BUSY] != NULL,
                                        .n_nodes = (uint32_t)ctl->n_pos,
                                        .nodes = name}};
    if (ask(ctl, &m, &text, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    cJSON *doc;
    if (hsp_doc_parse(text, strlen(text), &doc, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    int rc = hsp_check_view(ctl, doc);
    cJSON_Delete(doc);
    if (ctl->format == HSP_FORMAT_JSON && fprintf(ctl->out, "%s\n", text) < 0) {
        rc = HSP_EXIT_FAILED;
    }
    return rc;
}
