#include "worker/agent/agent_papers.h"

#include "worker/agent/agent_actions.h"
#include "worker/agent/keeping.h"

static void keep(struct hsp_agent *a, const struct hsp_msg *m)
{
    if (a->link != HSP_LINK_UP) {
        return; /* no member's */
    }
    const char *no = hsp_ai_keep_papers(a, m);
    if (no != NULL) {
        hsp_ai_log(a, 3, "the papers of job %u are not kept: %s", m->u.papers.job, no);
        return;
    }
    hsp_ai_shell_papers(a, HSP_AACT_KEEP_PAPERS, m);
}

void hsp_ai_papers(struct hsp_agent *a, const struct hsp_msg *m)
{
    switch ((enum hsp_papers_what)m->u.papers.what) {
    case HSP_PAPERS_KEEP: keep(a, m); break;
    case HSP_PAPERS_ASK: hsp_ai_shell_papers(a, HSP_AACT_READ_PAPERS, m); break;
    case HSP_PAPERS_TOLD:
    case HSP_PAPERS_NONE:
    case HSP_PAPERS_DISCARD: hsp_ai_log(a, 3, "papers of no use are passed over"); break;
    }
}

void hsp_ai_papers_dropped(struct hsp_agent *a, uint32_t device, uint32_t job, uint64_t epoch)
{
    if (hsp_ai_may_tidy(a, job, epoch)) {
        struct hsp_agent_action *x = hsp_ai_emit(a, HSP_AACT_DISCARD, device);
        x->job = job;
        x->keep_plan = 1; /* no layout is below it: what is sealed stays, and papers with it */
    }
}
