#include "worker/agent/agent_papers.h"

#include "worker/agent/agent_actions.h"
#include "worker/agent/agent_link.h"
#include "worker/agent/keeping.h"
#include "worker/agent/obey.h"

static void keep(struct hsp_agent *a, const struct hsp_msg *m)
{
    if (a->link != HSP_LINK_UP) {
        return; /* no member's */
    }
    const char *no = hsp_ai_keep_papers(a, m);
    if (no != NULL) {
        hsp_ai_log(a, 3, "the record of job %u is not stored: %s", m->u.papers.job, no);
        return;
    }
    hsp_ai_shell_papers(a, HSP_AACT_KEEP_PAPERS, m);
}

/* By an administrator's word: also state of another cluster. */
static void discard(struct hsp_agent *a, const struct hsp_msg *m)
{
    const char *no = hsp_ai_is_kept(a, m->u.papers.job, m->u.papers.cluster);
    if (no != NULL) {
        hsp_ai_log(a, 3, "job %u is not discarded: %s", m->u.papers.job, no);
        return;
    }
    hsp_ai_log(a, 4, "an administrator has all state of job %u deleted", m->u.papers.job);
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        hsp_ai_give_up(a, i, m->u.papers.job);
    }
    a->discarding = true;
}

void hsp_ai_papers_tick(struct hsp_agent *a)
{
    bool busy = false;
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        busy = busy || a->stop[i].job != 0;
    }
    if (a->discarding && !busy) {
        a->discarding = false;
        hsp_ai_hang_up(a, "its state is gone: it connects again", false);
    }
}

void hsp_ai_papers(struct hsp_agent *a, const struct hsp_msg *m)
{
    switch ((enum hsp_papers_what)m->u.papers.what) {
    case HSP_PAPERS_KEEP: keep(a, m); break;
    case HSP_PAPERS_ASK: hsp_ai_shell_papers(a, HSP_AACT_READ_PAPERS, m); break;
    case HSP_PAPERS_DISCARD: discard(a, m); break;
    case HSP_PAPERS_TOLD:
    case HSP_PAPERS_NONE: hsp_ai_log(a, 3, "an unusable job record is ignored"); break;
    }
}
