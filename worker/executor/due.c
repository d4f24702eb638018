#include "worker/executor/due.h"

void hsp_due_begin(struct hsp_due *d, uint64_t first)
{
    d->first = d->newest = d->before = first;
    d->pending = true;
    d->asked = HSP_DUE_NONE;
}

static bool on_calendar(const struct hsp_due *d, uint64_t version)
{
    return d->ckpt_every > 0 && version > 0 && version % d->ckpt_every == 0;
}

/* Returns true if vote @step makes the next version due without a wish of rank 0. */
static bool forces(const struct hsp_due *d, uint64_t step)
{
    uint64_t next = step + 1, every = d->all ? 1 : d->every;
    return next == d->steps || on_calendar(d, next) || (every > 0 && next - d->newest >= every);
}

bool hsp_due_waits(const struct hsp_due *d, uint64_t step)
{
    return d->pending && (step == d->first || forces(d, step));
}

uint32_t hsp_due_record(const struct hsp_due *d, uint64_t confirmed, uint64_t *armed)
{
    bool here = confirmed == d->newest;
    *armed = here ? *armed : 0;
    return here && !d->all ? HSP_VOTE_CONFIRMED : 0;
}

bool hsp_due_confirmed(const struct hsp_due *d, const uint32_t *flags, uint32_t n)
{
    bool all = true;
    for (uint32_t i = 0; i < n && !d->all; i++) {
        all = all && (flags[i] & HSP_VOTE_CONFIRMED) != 0;
    }
    return all;
}

struct hsp_due_news hsp_due_passed(struct hsp_due *d, uint64_t step, const uint32_t *flags,
                                   uint32_t n, bool leaves)
{
    struct hsp_due_news news = {.checkpoint = HSP_DUE_NONE};
    const bool wanted = (flags[0] & HSP_VOTE_CHECKPOINT) != 0;
    if (d->pending && hsp_due_confirmed(d, flags, n)) {
        d->pending = false;
        news.stable = true;
        news.asked = d->asked == d->newest || (wanted && d->newest == step);
        news.checkpoint = news.asked || on_calendar(d, d->newest) ? d->newest : HSP_DUE_NONE;
    }
    if (d->pending) {
        news.refused = wanted;
        return news;
    }
    bool ask = wanted && !(news.stable && d->newest == step);
    if (forces(d, step) || leaves || ask || (flags[0] & HSP_VOTE_WISH) != 0) {
        d->before = d->newest;
        d->newest = step + 1;
        d->pending = true;
        d->asked = ask ? step + 1 : HSP_DUE_NONE;
    }
    return news;
}
