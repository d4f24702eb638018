/* Judges choices by the true history (ckpt_model.h). */
#include "tests/unit/daemon/app/ckpt_model.h"

bool cm_has(uint32_t set, int k)
{
    return (set >> k & 1) != 0;
}

uint32_t cm_history(const struct cm_world *x, int head)
{
    uint32_t set = 0;
    for (int k = head; k >= 0; k = x->all[k].before) {
        set |= 1u << k;
    }
    return set;
}

int cm_newest(const struct cm_world *x, uint32_t set)
{
    int best = -1;
    for (int k = 0; k < x->n; k++) {
        bool newer = best < 0 || x->all[k].step > x->all[best].step;
        best = cm_has(set, k) && newer ? k : best;
    }
    return best;
}

bool cm_looks(const struct cm_world *x, int node)
{
    return !x->away[node] && !x->off[node];
}

int cm_folder(const struct cm_world *x, int node)
{
    return x->shared ? CM_A : node;
}

uint32_t cm_on_disk(const struct cm_world *x, bool seen)
{
    uint32_t set = 0;
    for (int i = 0; i < CM_NODES; i++) {
        set |= !seen || cm_looks(x, i) ? x->disk[cm_folder(x, i)] : 0;
    }
    return set;
}

/* @k was given up, and the disk shows it: a checkpoint of a later epoch of the history is seen. */
static bool shows(const struct cm_world *x, int k)
{
    const uint32_t set = cm_history(x, x->head) & cm_on_disk(x, true);
    bool later = false;
    for (int i = 0; i < x->n; i++) {
        later = later || (cm_has(set, i) && x->all[i].epoch > x->all[k].epoch);
    }
    return later;
}

static bool mark_seen(const struct cm_world *x)
{
    return (cm_looks(x, CM_A) && x->mark[cm_folder(x, CM_A)]) ||
           (cm_looks(x, CM_B) && x->mark[cm_folder(x, CM_B)]);
}

static uint32_t on_away(const struct cm_world *x)
{
    uint32_t set = 0;
    for (int i = 0; i < CM_NODES; i++) {
        set |= x->away[i] ? x->disk[cm_folder(x, i)] : 0;
    }
    return set;
}

const char *cm_wrong_choice(const struct cm_world *x, int k, hsp_msec ms)
{
    const uint32_t history = cm_history(x, x->head), seen = cm_on_disk(x, true);
    const int best = cm_newest(x, history & seen);
    const uint32_t may = x->known.told | (x->known.all ? 0 : on_away(x));
    const int hidden = cm_newest(x, history & may & cm_on_disk(x, false) & ~seen);
    if (k < 0) {
        bool knows = x->known.begun || mark_seen(x) || x->away[CM_A] || x->away[CM_B];
        return (history & cm_on_disk(x, false)) != 0 && knows ? "there is a checkpoint" : NULL;
    }
    if (!cm_has(history, k)) {
        return cm_has(x->known.given_up, k) ? "that was given up, as the store knows"
               : shows(x, k)                ? "that was given up, as the disk shows"
                                            : NULL;
    }
    bool waits = hidden >= 0 && x->all[hidden].step > x->all[k].step;
    return k != best                     ? "there is a newer one of the history"
           : waits && ms < CM_STATE_WAIT ? "a newer one may be there, and was not waited for"
                                         : NULL;
}

const char *cm_wrong_stay(const struct cm_world *x, bool ends)
{
    const bool a = cm_looks(x, CM_A), b = cm_looks(x, CM_B);
    if (x->away[CM_A] && x->away[CM_B]) {
        return ends ? "nobody was there" : NULL;
    }
    if ((cm_history(x, x->head) & cm_on_disk(x, true)) != 0) {
        return "a checkpoint of the history is there";
    }
    bool all = x->shared ? a || b : a && b;
    bool word = x->lie.step != 0; /* the refused one may be all that there is */
    return !ends && all && !word ? "all that may have one have looked" : NULL;
}

bool cm_keeps_too_few(const struct cm_world *x, uint32_t was, uint32_t left)
{
    const uint32_t history = cm_history(x, x->head);
    bool few = false;
    for (int k = 0; k < x->n; k++) {
        int newer = 0;
        for (int i = 0; i < x->n; i++) {
            bool counts = cm_has(left, i) && (cm_has(history, i) || !cm_has(x->known.given_up, i));
            newer += counts && x->all[i].step > x->all[k].step;
        }
        few = few || (cm_has(history & was & ~left, k) && newer < CM_KEEP);
    }
    return few;
}
