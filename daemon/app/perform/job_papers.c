#include "daemon/app/perform/job_papers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "proto/wire/papers.h"

/* Rows of the core, and ours of the same job. */
static bool encode_papers(const struct hsp_app_job *j, const struct hsp_papers *source,
                          struct hsp_buf *out)
{
    size_t n = j->n_plans + 1, n_rows = source->n;
    struct hsp_buf *text = calloc(n, sizeof *text);
    char(*key)[64] = calloc(n, sizeof *key);
    struct hsp_papers_row *row = calloc(source->n + n, sizeof *row);
    bool ok = text != NULL && key != NULL && row != NULL;
    for (size_t i = 0; ok && i < n_rows; i++) {
        row[i] = source->row[i];
    }
    for (size_t i = 0; ok && i < n; i++) {
        hsp_buf_init(&text[i], HSP_CLUSTER_ROW_MAX);
        if (i == 0) {
            (void)snprintf(key[i], sizeof key[i], "app/job/%" PRIu32, j->id);
            hsp_job_rec_encode(j->rec, &text[i]);
        } else {
            (void)snprintf(key[i], sizeof key[i], "app/plan/%" PRIu32 "/%" PRIu64, j->id,
                           j->plans[i - 1].no);
            hsp_plan_rec_encode(j->plans[i - 1].rec, &text[i]);
        }
        row[n_rows++] = (struct hsp_papers_row){key[i], text[i].data, (uint32_t)text[i].len};
        out->failed = out->failed || text[i].failed;
        out->nomem = out->nomem || text[i].nomem;
    }
    if (ok && !out->failed) {
        struct hsp_papers all = *source;
        all.n = (uint32_t)n_rows;
        all.row = row;
        hsp_papers_write(&all, out);
    }
    for (size_t i = 0; ok && i < n; i++) {
        hsp_buf_fini(&text[i]);
    }
    free(row);
    free(key);
    free(text);
    return ok && !out->nomem;
}

const struct papers_made *hsp_app_papers(struct hsp_app *a, struct hsp_batch *b,
                                         const struct hsp_action *act)
{
    struct papers_made *p = b->papers;
    while (p != NULL && p->source != act->u.papers) {
        p = p->next;
    }
    const struct hsp_app_job *j = hsp_app_job_find(a, act->job);
    if (p != NULL || j == NULL) {
        return p;
    }
    struct hsp_buf out;
    hsp_buf_init(&out, HSP_PAPERS_MAX);
    p = encode_papers(j, act->u.papers, &out) ? hsp_arena_alloc(b->arena, sizeof *p) : NULL;
    if (p != NULL) {
        *p = (struct papers_made){.next = b->papers, .source = act->u.papers};
        b->papers = p;
    }
    if (p != NULL && out.failed) {
        hsp_log(a->log, HSP_LOG_WARN, "app",
                "job %s is too large for a job record: its agents cannot hand it to another "
                "hspmdd, so keep a backup",
                act->u.papers->name);
    } else if (p != NULL) {
        p->data = hsp_arena_memdup(b->arena, out.data, out.len);
        p->len = (uint32_t)out.len;
        p = p->data != NULL ? p : NULL;
    }
    hsp_buf_fini(&out);
    return p;
}
