#include "daemon/cluster/paths.h"

#include <math.h>
#include <stdlib.h>

/* Figures beyond these are no path's; figures that planning derives from those within are
 * finite. */
#define LEAST_BYTES_PER_S 1.0
#define MOST_BYTES_PER_S  1e15
#define MOST_LATENCY_US   1e9

static const char *const path_words[] = {"nvlink",      "nvswitch", "pci-switch",
                                         "host-bridge", "numa",     "system"};

const char *hsp_path_kind_name(enum hsp_path_kind k)
{
    return path_words[k];
}

static bool sensible(const struct hsp_cluster_node *n, const struct hsp_m_path *p)
{
    bool rate = p->bytes_per_s >= 0 && p->bytes_per_s <= MOST_BYTES_PER_S &&
                (p->bytes_per_s <= 0 || p->bytes_per_s >= LEAST_BYTES_PER_S);
    return p->a < p->b && n->dev[p->a].present && n->dev[p->b].present && rate &&
           p->latency_us >= 0 && p->latency_us <= MOST_LATENCY_US; /* not a number: neither */
}

void hsp_ci_take_paths(struct hsp_cluster *c, struct hsp_cluster_node *n,
                       const struct hsp_m_hello *m)
{
    free(n->paths);
    n->n_paths = 0;
    n->paths = m->n_paths > 0 ? calloc(m->n_paths, sizeof(*n->paths)) : NULL;
    c->failed = c->failed || (m->n_paths > 0 && n->paths == NULL);
    for (uint32_t i = 0; n->paths != NULL && i < m->n_paths; i++) {
        if (sensible(n, &m->paths[i])) {
            n->paths[n->n_paths++] = m->paths[i];
        }
    }
}

static bool is_nvlink(const struct hsp_m_path *p)
{
    return p->kind == HSP_PATH_NVLINK || p->kind == HSP_PATH_NVSWITCH;
}

/* The fast path between @a and @b: over NVLink, or, where neither has NVLink, one that was
 * measured. NULL: none. @linked has a bit for each device with any NVLink. */
static const struct hsp_m_path *fast_path(const struct hsp_cluster_node *n, uint32_t linked,
                                          uint32_t a, uint32_t b)
{
    bool without = ((linked >> a | linked >> b) & 1) == 0;
    for (uint32_t i = 0; i < n->n_paths; i++) {
        const struct hsp_m_path *p = &n->paths[i];
        bool fast = is_nvlink(p) || (without && p->bytes_per_s > 0);
        if (fast && ((p->a == a && p->b == b) || (p->a == b && p->b == a))) {
            return p;
        }
    }
    return NULL;
}

static uint32_t linked_devices(const struct hsp_cluster_node *n)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < n->n_paths; i++) {
        mask |= is_nvlink(&n->paths[i]) ? 1u << n->paths[i].a | 1u << n->paths[i].b : 0;
    }
    return mask;
}

/* True when @d reaches all devices of @domain below it; *rate sinks to that of the slowest path,
 * *latency_us rises to the greatest. */
static bool belongs(const struct hsp_cluster_node *n, const uint32_t *of, uint32_t domain,
                    uint32_t d, double *rate, double *latency_us)
{
    uint32_t linked = linked_devices(n);
    bool any = false;
    for (uint32_t k = 0; k < d; k++) {
        const struct hsp_m_path *p = of[k] == domain ? fast_path(n, linked, k, d) : NULL;
        if (of[k] == domain && p == NULL) {
            return false;
        }
        if (p != NULL) {
            any = true;
            *rate = fmin(*rate, p->bytes_per_s);
            *latency_us = fmax(*latency_us, p->latency_us);
        }
    }
    return any;
}

/* Each device joins the first domain of which it reaches all devices, or begins a new one. So all
 * devices behind one NVSwitch make one domain, and a cube mesh is cut into its quads. */
void hsp_node_domains(const struct hsp_cluster_node *n, uint32_t ret_domain[HSP_NODE_DEVICES],
                      double ret_rate[HSP_NODE_DEVICES], double ret_latency_us[HSP_NODE_DEVICES])
{
    uint32_t n_domains = 0, size[HSP_NODE_DEVICES + 1] = {0};
    double least[HSP_NODE_DEVICES + 1], most_us[HSP_NODE_DEVICES + 1];
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        uint32_t at = 1;
        double rate = 0, us = 0;
        for (; at <= n_domains; at++) {
            rate = least[at];
            us = most_us[at];
            if (belongs(n, ret_domain, at, d, &rate, &us)) {
                break;
            }
        }
        if (at > n_domains) {
            n_domains++;
            rate = (double)INFINITY;
            us = 0;
        }
        ret_domain[d] = at;
        least[at] = rate;
        most_us[at] = us;
        size[at]++;
    }
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        uint32_t at = ret_domain[d];
        ret_domain[d] = size[at] > 1 ? at : 0;
        ret_rate[d] = size[at] > 1 ? least[at] : 0;
        ret_latency_us[d] = size[at] > 1 ? most_us[at] : 0;
    }
}
