/* Devices that are not well, as their agents say, and what is known of them beyond their figures.
 *
 *   WARN      a line for people
 *   CORDON    gets no work any more, and what it has moves away in order, as from a node that drains
 *   LOST      what it did is lost; its executor comes back without it and serves what it had sealed
 *
 * Nothing of it is stored: each HELLO says it again, and an agent that begins anew looks anew. */
#include "daemon/cluster/health.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/jobs.h"
#include "daemon/cluster/membership.h"
#include "proto/base/str.h"

static const char *const health_words[] = {"fine", "warned", "cordoned", "lost"};
static const char *const path_words[] = {"nvlink",      "nvswitch", "pci-switch",
                                         "host-bridge", "numa",     "system"};

const char *hsp_health_name(enum hsp_health h)
{
    return health_words[h];
}

const char *hsp_path_kind_name(enum hsp_path_kind k)
{
    return path_words[k];
}

const char *hsp_device_why(const struct hsp_node_device *d)
{
    return d->note != NULL ? d->note->why : "";
}

static bool unwell(const struct hsp_node_device *d)
{
    return d->health >= HSP_HEALTH_CORDON;
}

bool hsp_cluster_offers(const struct hsp_cluster_node *n, uint32_t device)
{
    const struct hsp_node_device *d = &n->dev[device];
    return n->conn != 0 && !n->draining && !n->leaving && d->present && !unwell(d);
}

/* ---- notes ---- */

static void copy(char *to, size_t size, const char *from)
{
    hsp_str_printf(to, size, "%s", from != NULL ? from : "");
}

static struct hsp_device_note *note_of(struct hsp_cluster *c, struct hsp_node_device *d)
{
    d->note = d->note != NULL ? d->note : calloc(1, sizeof(*d->note));
    c->failed = c->failed || d->note == NULL;
    return d->note;
}

void hsp_ci_notes_free(struct hsp_cluster_node *n)
{
    for (uint32_t i = 0; i < HSP_NODE_DEVICES; i++) {
        free(n->dev[i].note);
        n->dev[i].note = NULL;
    }
    free(n->paths);
    n->paths = NULL;
    n->n_paths = 0;
}

/* A fact of it, and what follows for its work. */
static void judge(struct hsp_cluster *c, struct hsp_cluster_node *n, uint32_t device,
                  enum hsp_health h, const char *why)
{
    static const char *const types[] = {"device.fine", "device.warn", "device.cordon",
                                        "device.lost"};
    struct hsp_node_device *d = &n->dev[device];
    hsp_device_id id = HSP_DEVICE(hsp_ci_index_of(c, n), device);
    bool lost = h == HSP_HEALTH_LOST && d->health != HSP_HEALTH_LOST;
    const char *name = hsp_ci_device_name(c, id);
    d->health = h;
    d->drained_told = d->drained_told && unwell(d);
    if (h != HSP_HEALTH_FINE && note_of(c, d) != NULL) {
        copy(d->note->why, sizeof(d->note->why), why);
    } else if (d->note != NULL) {
        d->note->why[0] = '\0';
    }
    hsp_ci_look_node(c, n);
    hsp_ci_look_jobs(c);
    hsp_ci_fact(c, types[h], h == HSP_HEALTH_FINE ? HSP_SEV_NOTICE : HSP_SEV_WARN,
                hsp_ci_job(c, d->job), n, "%s%s%s", name, why[0] != '\0' ? ": " : "", why);
    if (lost) {
        hsp_ci_device_lost(c, id, hsp_ci_printf(c, "device %s: %s", name, why));
    }
}

void hsp_ci_take_note(struct hsp_cluster *c, struct hsp_cluster_node *n,
                      const struct hsp_m_device *p)
{
    struct hsp_node_device *d = &n->dev[p->index];
    bool known = (p->model != NULL && p->model[0] != '\0') ||
                 (p->uuid != NULL && p->uuid[0] != '\0') ||
                 (p->cpus != NULL && p->cpus[0] != '\0') || p->sm != 0;
    if ((known || d->note != NULL) && note_of(c, d) != NULL) {
        copy(d->note->model, sizeof(d->note->model), p->model);
        copy(d->note->uuid, sizeof(d->note->uuid), p->uuid);
        copy(d->note->cpus, sizeof(d->note->cpus), p->cpus);
        d->note->sm = p->sm;
    }
    const char *why = p->why != NULL ? p->why : "";
    if (d->health != (enum hsp_health)p->health ||
        (p->health != HSP_HEALTH_FINE && strcmp(hsp_device_why(d), why) != 0)) {
        judge(c, n, p->index, (enum hsp_health)p->health, why);
    }
}

void hsp_ci_health(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_health *m)
{
    if (n->dev[m->device].present) {
        judge(c, n, m->device, (enum hsp_health)m->health, m->reason != NULL ? m->reason : "");
    }
}

/* ---- what follows ---- */

const char *hsp_ci_to_leave(const struct hsp_cluster *c, hsp_device_id d)
{
    const struct hsp_cluster_node *n = hsp_ci_node(c, d);
    return n->draining                   ? "drain of"
           : n->leaving                  ? "planned leave of"
           : unwell(hsp_ci_device(c, d)) ? "cordon of"
                                         : NULL;
}

const char *hsp_ci_leave_cause(struct hsp_cluster *c, hsp_device_id d)
{
    const struct hsp_cluster_node *n = hsp_ci_node(c, d);
    const char *what = hsp_ci_to_leave(c, d), *name = hsp_ci_device_name(c, d);
    return n->draining || n->leaving
               ? hsp_ci_printf(c, "%s %s", what, name)
               : hsp_ci_printf(c, "%s %s: %s", what, name, hsp_device_why(hsp_ci_device(c, d)));
}

const char *hsp_ci_unwell(struct hsp_cluster *c)
{
    const char *first = "";
    uint32_t more = 0;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct hsp_cluster_node *n = &c->nodes[i];
        for (uint32_t d = 0; n->conn != 0 && d < HSP_NODE_DEVICES; d++) {
            if (!n->dev[d].present || !unwell(&n->dev[d])) {
                continue;
            }
            if (first[0] != '\0') {
                more++;
                continue;
            }
            first = hsp_ci_printf(c, "; %s/%u is %s: %s", n->name, d,
                                  hsp_health_name(n->dev[d].health), hsp_device_why(&n->dev[d]));
        }
    }
    return more > 0 ? hsp_ci_printf(c, "%s; and %u more", first, more) : first;
}

void hsp_ci_tell_drained(struct hsp_cluster *c, struct hsp_cluster_node *n)
{
    for (uint32_t i = 0; n->conn != 0 && i < HSP_NODE_DEVICES; i++) {
        struct hsp_node_device *d = &n->dev[i];
        if (d->present && unwell(d) && d->job == 0 && !d->drained_told) {
            d->drained_told = true;
            hsp_ci_fact(c, "device.drained", HSP_SEV_NOTICE, NULL, n, "%s/%u: %s", n->name, i,
                        hsp_device_why(d));
        }
    }
}

/* ---- paths ---- */

/* Beyond these no path is; what planning makes of those within is finite. */
#define LEAST_BYTES_PER_S 1.0
#define MOST_BYTES_PER_S  1e15
#define MOST_LATENCY_US   1e9

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

/* The way between @a and @b over NVLink, or one that was measured; NULL: there is none. @linked: devices with any NVLink, a
 * bit each; for these the others are no fast ones. */
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

/* Whether @d reaches all of @domain among the devices below it; *rate sinks to that of the slowest, *latency_us rises. */
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

/* Each device joins the first domain all of which it reaches, and begins one of its own where there is none:
 * cliques where everybody reaches everybody over switches, and the quads of a cube mesh. */
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
