#include "daemon/planner/search.h"

#include <math.h>

#include "daemon/planner/lines.h"
#include "daemon/planner/rings.h"
#include "daemon/planner/replicas.h"
#include "daemon/planner/tp_groups.h"

#define MAX_LINK_CLASSES 4 /* the search is done for each */

static enum hsp_status make_ranges(struct hsp_search *s)
{
    uint32_t nb = s->n_blocks;
    s->ranges = hsp_arena_array(s->arena, (size_t)nb * nb, sizeof(*s->ranges));
    if (s->ranges == NULL) {
        return hsp_search_no_memory(s);
    }
    hsp_range_make(s->in.work, 0, s->in.work->n_layers, &s->all);
    for (uint32_t first = 0; first < nb; first++) {
        for (uint32_t end = first + 1; end <= nb; end++) {
            hsp_range_of_blocks(s->in.work, first, end, &s->ranges[(size_t)first * nb + end - 1]);
        }
    }
    return HSP_OK;
}

static enum hsp_status try_groups(struct hsp_search *s, const struct hsp_tp_group *x, uint32_t n,
                                  uint32_t degree)
{
    enum hsp_status st = hsp_try_replicas(s, x, n, degree);
    if (st == HSP_OK && degree == 1) {
        st = hsp_try_rings(s, x, n);
    }
    return st == HSP_OK ? hsp_try_lines(s, x, n, degree) : st;
}

/* Classes of links out of nodes, slowest first, each bound faster than the one before by more than
 * the tolerance, which doubles until there are few. */
static uint32_t link_classes(const struct hsp_tp_group *x, uint32_t n,
                             double bound[MAX_LINK_CLASSES])
{
    for (double tol = HSP_ALIKE;; tol *= 2) {
        uint32_t count = 0;
        double at = (double)INFINITY, next;
        do {
            next = -1;
            for (uint32_t i = 0; i < n; i++) {
                double us = x[i].out.us_per_byte;
                next = us * (1 + tol) < at ? fmax(next, us) : next;
            }
            if (next >= 0 && count < MAX_LINK_CLASSES) {
                bound[count] = next;
            }
            count += next >= 0 ? 1 : 0;
            at = next;
        } while (next >= 0);
        if (count <= MAX_LINK_CLASSES) {
            return count;
        }
    }
}

/* All groups, then without those behind the slowest links: one of them makes the gradients of all
 * late, however fast it computes. */
static enum hsp_status try_by_links(struct hsp_search *s, struct hsp_tp_group *x, uint32_t n,
                                    uint32_t degree)
{
    double bound[MAX_LINK_CLASSES];
    uint32_t classes = link_classes(x, n, bound);
    enum hsp_status st = HSP_OK;
    s->n_groups = n;
    for (uint32_t k = 0; k < classes && st == HSP_OK; k++) {
        uint32_t near = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (x[i].out.us_per_byte <= bound[k]) {
                x[near++] = x[i];
            }
        }
        n = near;
        st = try_groups(s, x, n, degree);
    }
    return st;
}

enum hsp_status hsp_search_run(struct hsp_search *s)
{
    enum hsp_status ranges = make_ranges(s);
    if (ranges != HSP_OK) {
        return ranges;
    }
    int64_t units = s->in.work->tp_units;
    for (uint32_t degree = 1; degree == 1 || (int64_t)degree <= units; degree *= 2) {
        struct hsp_tp_group *x = NULL;
        uint32_t n = 0;
        if (degree > s->in.cluster->n) {
            break;
        }
        enum hsp_status st = hsp_tp_groups_make(s, degree, &x, &n);
        if (st == HSP_OK && n > 0) {
            st = try_by_links(s, x, n, degree);
        }
        if (st != HSP_OK) {
            return st;
        }
    }
    return HSP_OK;
}
