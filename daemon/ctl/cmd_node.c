#include "daemon/ctl/cmd_node.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/remote.h"
#include "daemon/ctl/table.h"
#include "proto/base/size.h"

/* "0", "0 (down)", "0 (cordoned)": its faults, the worst alone. */
static const char *device_cell(struct hsp_ctl *ctl, const cJSON *d)
{
    const char *health = hsp_doc_text(d, "health");
    bool unwell = health[0] != '\0' && strcmp(health, "fine") != 0;
    bool up = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d, "up"));
    const char *state = unwell && (up || strcmp(health, "lost") == 0) ? health : up ? "" : "down";
    return hsp_ctl_text(ctl, state[0] != '\0' ? "%.0f (%s)" : "%.0f%s", hsp_doc_number(d, "index"),
                        state);
}

/* "40 s", "12 min", "5 h", "3 days": how long something is over. */
static const char *age_text(struct hsp_ctl *ctl, double seconds)
{
    return seconds < 120      ? hsp_ctl_text(ctl, "%.0f s", seconds)
           : seconds < 7200   ? hsp_ctl_text(ctl, "%.0f min", seconds / 60)
           : seconds < 172800 ? hsp_ctl_text(ctl, "%.0f h", seconds / 3600)
                              : hsp_ctl_text(ctl, "%.0f days", seconds / 86400);
}

/* Why the node is as it is, and since when it is gone. */
static const char *node_reason(struct hsp_ctl *ctl, const cJSON *n)
{
    const char *reason = hsp_doc_text(n, "reason"), *waits = hsp_doc_text(n, "waits");
    if (hsp_doc_has(n, "gone_seconds")) {
        reason =
            hsp_ctl_text(ctl, "gone for %s%s%s", age_text(ctl, hsp_doc_number(n, "gone_seconds")),
                         reason[0] != '\0' ? ": " : "", reason);
    }
    const char *state = hsp_doc_text(n, "state");
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(n, "draining")) &&
        strncmp(state, "drain", 5) != 0) { /* the node is away */
        waits = "drained, until undrain";
    }
    return waits[0] == '\0'    ? reason
           : reason[0] == '\0' ? waits
                               : hsp_ctl_text(ctl, "%s; %s", reason, waits);
}

/* The same, and why the device is as it is. */
static const char *reason_cell(struct hsp_ctl *ctl, const cJSON *n, const cJSON *d)
{
    const char *of_node = node_reason(ctl, n), *own = hsp_doc_text(d, "reason");
    return own[0] == '\0'       ? of_node
           : of_node[0] == '\0' ? own
                                : hsp_ctl_text(ctl, "%s; %s", of_node, own);
}

/* Jobs that are not on record here, of which the node keeps state. */
static const char *kept_text(struct hsp_ctl *ctl, const cJSON *n)
{
    const char *text = "";
    const cJSON *k;
    cJSON_ArrayForEach(k, cJSON_GetObjectItemCaseSensitive(n, "keeps"))
    {
        const char *name = hsp_doc_text(k, "job");
        if (strspn(name, "0123456789") == strlen(name)) { /* also "": commands take it by number */
            name = hsp_ctl_text(ctl, "%.0f", hsp_doc_number(k, "id"));
        }
        bool damaged = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(k, "papers_damaged"));
        text = hsp_ctl_text(ctl, "%s%s%s%s", text, text[0] != '\0' ? "," : "", name,
                            damaged ? " (job record damaged)" : "");
    }
    return text[0] != '\0' ? text : "-";
}

/* "n2" before "n10". */
static int compare_names(const void *a, const void *b)
{
    const cJSON *const *x = a, *const *y = b;
    return strverscmp(hsp_doc_text(*x, "name"), hsp_doc_text(*y, "name"));
}

/* Ends with NULL. NULL without memory, which is a deferred error. */
static const cJSON **by_name(struct hsp_ctl *ctl, const cJSON *nodes)
{
    size_t n = 0;
    const cJSON *x,
        **ret = hsp_arena_array(ctl->arena, (size_t)cJSON_GetArraySize(nodes) + 1, sizeof *ret);
    if (ret == NULL) {
        struct hsp_err err;
        (void)hsp_err_nomem(&err, "the nodes");
        hsp_ctl_defer_error(ctl, &err);
        return NULL;
    }
    cJSON_ArrayForEach(x, nodes)
    {
        ret[n++] = x;
    }
    ret[n] = NULL;
    qsort(ret, n, sizeof *ret, compare_names);
    return ret;
}

static bool print_nodes(struct hsp_ctl *ctl, const cJSON *nodes)
{
    static const struct hsp_column cols[] = {
        {"NODE", false}, {"STATE", false}, {"DEVICE", false}, {"KIND", false},
        {"SPEED", true}, {"MEMORY", true}, {"JOB", false},    {"REASON", HSP_FOLDED}};
    struct hsp_table *t = hsp_table_new(ctl, cols, HSP_ARRAY_LEN(cols));
    const cJSON **order = by_name(ctl, nodes), *d;
    for (int i = 0; order != NULL && order[i] != NULL; i++) {
        const cJSON *n = order[i], *list = cJSON_GetObjectItemCaseSensitive(n, "devices");
        if (cJSON_GetArraySize(list) == 0) {
            bool keeps = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(n, "keepers")) > 0;
            const char *cells[] = {hsp_doc_text(n, "name"),
                                   hsp_doc_text(n, "state"),
                                   "-",
                                   keeps ? "replica-holder" : "-",
                                   "-",
                                   "-",
                                   kept_text(ctl, n),
                                   node_reason(ctl, n)};
            hsp_table_row(t, cells);
        }
        cJSON_ArrayForEach(d, list)
        {
            const char *cells[] = {hsp_doc_text(n, "name"),
                                   hsp_doc_text(n, "state"),
                                   device_cell(ctl, d),
                                   hsp_doc_text(d, "kind"),
                                   hsp_ctl_text(ctl, "%.3g", hsp_doc_number(d, "speed")),
                                   hsp_ctl_bytes(ctl, hsp_doc_number(d, "memory_bytes")),
                                   hsp_doc_text(d, "job")[0] != '\0' ? hsp_doc_text(d, "job") : "-",
                                   reason_cell(ctl, n, d)};
            hsp_table_row(t, cells);
        }
    }
    return hsp_table_print(t);
}

/* Whether it may keep copies, if it would. */
static bool print_holder(struct hsp_ctl *ctl, const cJSON *node)
{
    int n = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(node, "keepers"));
    bool may = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(node, "holder"));
    const char *name = hsp_doc_text(node, "name");
    return n == 0 && !may ? true
           : may          ? fprintf(ctl->out, "copies: allowed, for %d jobs at a time\n", n) > 0
                 : fprintf(ctl->out, "copies: not allowed; hspmdctl node allow %s --holder\n",
                           name) > 0;
}

/* The rates of its link to hspmdd. */
static bool print_uplink(struct hsp_ctl *ctl, const cJSON *node)
{
    const cJSON *u = cJSON_GetObjectItemCaseSensitive(node, "uplink");
    return u == NULL ? fputs("\nuplink: not measured\n", ctl->out) >= 0
                     : fprintf(ctl->out, "\nuplink: %s one way, %s/s\n",
                               hsp_ctl_time(ctl, hsp_doc_number(u, "latency_seconds") * 1e6),
                               hsp_ctl_bytes(ctl, hsp_doc_number(u, "bytes_per_second"))) > 0;
}

/* For state of jobs. */
static bool print_folder(struct hsp_ctl *ctl, const cJSON *node)
{
    return !hsp_doc_has(node, "folder_free_bytes") ||
           fprintf(ctl->out, "state folder: %s free\n",
                   hsp_ctl_bytes(ctl, hsp_doc_number(node, "folder_free_bytes"))) > 0;
}

/* Its network cards, as far as they are known, and the devices that use each. */
static bool print_cards(struct hsp_ctl *ctl, const cJSON *node)
{
    const cJSON *card, *d;
    bool ok = true;
    cJSON_ArrayForEach(card, cJSON_GetObjectItemCaseSensitive(node, "network"))
    {
        double gbit = hsp_doc_number(card, "gbit_per_second");
        ok = fprintf(ctl->out, "network card: %s, %s, devices", hsp_doc_text(card, "name"),
                     gbit > 0 ? hsp_ctl_text(ctl, "%g Gb/s", gbit) : "speed not known") > 0 &&
             ok;
        cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(card, "devices"))
        {
            ok = fprintf(ctl->out, " %.0f", d->valuedouble) > 0 && ok;
        }
        ok = fputs("\n", ctl->out) >= 0 && ok;
    }
    return ok;
}

/* The kinds and states of its GPUs. */
static bool print_gpus(struct hsp_ctl *ctl, const cJSON *node)
{
    static const struct hsp_column cols[] = {{"DEVICE", false},
                                             {"MODEL", false},
                                             {"COMPUTE", false},
                                             {"PROCESSORS", false},
                                             {"UUID", false}};
    const cJSON *d, *devices = cJSON_GetObjectItemCaseSensitive(node, "devices");
    bool any = false;
    cJSON_ArrayForEach(d, devices)
    {
        any = any || hsp_doc_has(d, "model");
    }
    if (!any) {
        return true;
    }
    bool ok = fputs("\n", ctl->out) >= 0;
    struct hsp_table *t = hsp_table_new(ctl, cols, HSP_ARRAY_LEN(cols));
    cJSON_ArrayForEach(d, devices)
    {
        const char *cpus = hsp_doc_text(d, "near_processors");
        const char *cells[] = {hsp_ctl_text(ctl, "%.0f", hsp_doc_number(d, "index")),
                               hsp_doc_text(d, "model"), hsp_doc_text(d, "compute_capability"),
                               cpus[0] != '\0' ? cpus : "-", hsp_doc_text(d, "uuid")};
        if (hsp_doc_has(d, "model")) {
            hsp_table_row(t, cells);
        }
    }
    return hsp_table_print(t) && ok;
}

static const char *const product_shapes[] = {"even", "few", "wide", "long", "attention"};

/* Is any rate known but the one that all products go by? */
static bool knows_products(const cJSON *node)
{
    const cJSON *d, *p;
    cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(node, "devices"))
    {
        cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(d, "products"))
        {
            for (size_t k = 1; k < HSP_ARRAY_LEN(product_shapes); k++) {
                if (hsp_doc_has(p, product_shapes[k])) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* Measured rates of products of each shape, where they are known; a row for each type of
 * factors. */
static bool print_products(struct hsp_ctl *ctl, const cJSON *node)
{
    static const struct hsp_column cols[] = {{"DEVICE", false},  {"GFLOP/S", false}, {"EVEN", true},
                                             {"FEW", true},      {"WIDE", true},     {"LONG", true},
                                             {"ATTENTION", true}};
    if (!knows_products(node)) {
        return true;
    }
    struct hsp_table *t = hsp_table_new(ctl, cols, HSP_ARRAY_LEN(cols));
    const cJSON *d, *p;
    cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(node, "devices"))
    {
        cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(d, "products"))
        {
            const char *cells[HSP_ARRAY_LEN(cols)] = {
                hsp_ctl_text(ctl, "%.0f", hsp_doc_number(d, "index")), p->string};
            for (size_t k = 0; k < HSP_ARRAY_LEN(product_shapes); k++) {
                cells[2 + k] =
                    hsp_doc_has(p, product_shapes[k])
                        ? hsp_ctl_text(ctl, "%.4g", 1e-9 * hsp_doc_number(p, product_shapes[k]))
                        : "-";
            }
            hsp_table_row(t, cells);
        }
    }
    bool ok = fputs("\n", ctl->out) >= 0;
    return hsp_table_print(t) && ok;
}

/* How they reach each other, pairs of one kind together. */
static bool print_paths(struct hsp_ctl *ctl, const cJSON *node)
{
    static const char *const kinds[] = {"nvlink",      "nvswitch", "pci-switch",
                                        "host-bridge", "numa",     "system"};
    const cJSON *p, *paths = cJSON_GetObjectItemCaseSensitive(node, "paths");
    bool ok = true;
    for (size_t k = 0; k < HSP_ARRAY_LEN(kinds); k++) {
        bool any = false;
        cJSON_ArrayForEach(p, paths)
        {
            const cJSON *pair = cJSON_GetObjectItemCaseSensitive(p, "devices");
            if (strcmp(hsp_doc_text(p, "kind"), kinds[k]) != 0 || cJSON_GetArraySize(pair) != 2) {
                continue;
            }
            ok = (any || fprintf(ctl->out, "%s:", kinds[k]) > 0) && ok;
            double rate = hsp_doc_number(p, "bytes_per_second");
            ok = fprintf(ctl->out, " %.0f-%.0f%s", cJSON_GetArrayItem(pair, 0)->valuedouble,
                         cJSON_GetArrayItem(pair, 1)->valuedouble,
                         rate > 0 ? hsp_ctl_text(ctl, " (%s/s)", hsp_ctl_bytes(ctl, rate)) : "") >
                     0 &&
                 ok;
            any = true;
        }
        ok = (!any || fputs("\n", ctl->out) >= 0) && ok;
    }
    return ok;
}

/* Where an agent that is no member calls from: whose it is may not be known otherwise. */
static bool print_caller(struct hsp_ctl *ctl, const cJSON *node)
{
    const char *at = hsp_doc_text(node, "address");
    return !hsp_doc_has(node, "keeps") || at[0] == '\0' ||
           fprintf(ctl->out, "\nnot a member; it connects from %s\n", at) > 0;
}

bool hsp_node_view(struct hsp_ctl *ctl, const cJSON *nodes, bool one)
{
    return print_nodes(ctl, nodes) &&
           (!one || (print_caller(ctl, nodes->child) && print_uplink(ctl, nodes->child) &&
                     print_folder(ctl, nodes->child) && print_holder(ctl, nodes->child) &&
                     print_cards(ctl, nodes->child) && print_paths(ctl, nodes->child) &&
                     print_gpus(ctl, nodes->child) && print_products(ctl, nodes->child)));
}

/* The nodes of the status alone; with a name the one that is called so. */
int hsp_cmd_node(struct hsp_ctl *ctl)
{
    struct hsp_err err = {0};
    const char *text = "", *want = ctl->n_pos > 0 ? ctl->pos[0] : NULL;
    cJSON *doc = NULL, *n, *next;
    struct hsp_msg m = {.type = HSP_MSG_STATUS, .u.query = {.name = "", .what = ""}};
    if (hsp_remote_ask_json(ctl, &m, &text, &doc, &err) != HSP_OK) {
        return hsp_ctl_fail(ctl, &err);
    }
    cJSON *nodes = cJSON_DetachItemFromObjectCaseSensitive(doc, "nodes");
    cJSON_Delete(doc);
    for (n = nodes != NULL ? nodes->child : NULL; want != NULL && n != NULL; n = next) {
        next = n->next;
        if (strcmp(hsp_doc_text(n, "name"), want) != 0) {
            cJSON_Delete(cJSON_DetachItemViaPointer(nodes, n));
        }
    }
    bool ok;
    if (want != NULL && cJSON_GetArraySize(nodes) == 0) {
        cJSON_Delete(nodes);
        (void)hsp_err_set(&err, HSP_ENOENT, 0, "no node %s; hspmdctl node list shows all", want);
        return hsp_ctl_fail(ctl, &err);
    }
    if (ctl->format == HSP_FORMAT_JSON) {
        char *out = cJSON_PrintUnformatted(nodes);
        if (out == NULL) {
            (void)hsp_err_nomem(&err, "the answer");
            hsp_ctl_defer_error(ctl, &err);
        }
        ok = out != NULL &&
             fprintf(ctl->out, "{\"apiVersion\":\"hspmd/v1\",\"nodes\":%s}\n", out) > 0;
        cJSON_free(out);
    } else if (cJSON_GetArraySize(nodes) == 0) {
        ok = fputs("no nodes\n", ctl->out) >= 0;
    } else {
        ok = hsp_node_view(ctl, nodes, want != NULL);
    }
    cJSON_Delete(nodes);
    return ok ? HSP_EXIT_OK : HSP_EXIT_FAILED;
}
