#include "daemon/cluster/health.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/node_fault.h"
#include "daemon/cluster/node_loss.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/str.h"

/* Lines of a device that its agent may cause in that time. */
#define TOLD    8u
#define TOLD_MS 60000u

const char *hsp_device_why(const struct hsp_node_device *d)
{
    return d->note != NULL ? d->note->why : "";
}

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

/* Tells the health of the device, unless @told is false, and draws the consequences for its
 * work. */
static void judge(struct hsp_cluster *c, struct hsp_cluster_node *n, uint32_t device,
                  enum hsp_health h, const char *why, bool told)
{
    static const char *const types[] = {"device.fine", "device.warn", "device.cordon",
                                        "device.lost"};
    struct hsp_node_device *d = &n->dev[device];
    hsp_device_id id = HSP_DEVICE(hsp_ci_index_of(c, n), device);
    bool lost = h == HSP_HEALTH_LOST && d->health != HSP_HEALTH_LOST;
    bool news = h != d->health;
    const char *name = hsp_ci_device_name(c, id);
    d->health = h;
    d->drained_told = d->drained_told && hsp_ci_device_unhealthy(d);
    if (h != HSP_HEALTH_FINE && note_of(c, d) != NULL) {
        copy(d->note->why, sizeof(d->note->why), why);
        d->note->since_ms = news ? c->now_ms : d->note->since_ms;
    } else if (d->note != NULL) {
        d->note->why[0] = '\0';
    }
    hsp_ci_node_dirty(c, n);
    hsp_ci_jobs_dirty(c);
    if (news && hsp_ci_device_unhealthy(d)) {
        hsp_ci_all_switches_anew(c);
    }
    if (told) {
        hsp_ci_fact(c, types[h], h == HSP_HEALTH_FINE ? HSP_SEV_NOTICE : HSP_SEV_WARN,
                    hsp_ci_job(c, d->job), n, "%s%s%s", name, why[0] != '\0' ? ": " : "", why);
    }
    if (lost) {
        hsp_ci_device_lost(c, id, hsp_ci_printf(c, "device %s: %s", name, why));
    }
}

/* Not more than TOLD lines of a device in TOLD_MS, but for its loss. */
static bool may_tell(const struct hsp_cluster *c, struct hsp_node_device *d, enum hsp_health h)
{
    struct hsp_device_note *k = d->note;
    if (k == NULL || (h == HSP_HEALTH_LOST && d->health != HSP_HEALTH_LOST)) {
        return true;
    }
    if (k->n_told == 0 || c->now_ms - k->told_ms >= TOLD_MS) {
        k->told_ms = c->now_ms;
        k->n_told = 0;
    }
    k->n_told += k->n_told <= TOLD;
    return k->n_told <= TOLD;
}

/* Takes in the word of an agent about a device: the same again is no news. */
static void hear(struct hsp_cluster *c, struct hsp_cluster_node *n, uint32_t device,
                 enum hsp_health h, const char *why)
{
    struct hsp_node_device *d = &n->dev[device];
    char cut[sizeof(d->note->why)]; /* as it is noted */
    copy(cut, sizeof(cut), why);
    if (d->health != h || (h != HSP_HEALTH_FINE && strcmp(hsp_device_why(d), cut) != 0)) {
        judge(c, n, device, h, why, may_tell(c, d, h));
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
    hear(c, n, p->index, (enum hsp_health)p->health, p->why != NULL ? p->why : "");
}

void hsp_ci_health(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_health *m)
{
    if (n->dev[m->device].present) {
        hear(c, n, m->device, (enum hsp_health)m->health, m->reason != NULL ? m->reason : "");
    }
}

/* ---- texts and facts for people ---- */

const char *hsp_ci_leave_cause(struct hsp_cluster *c, hsp_device_id d)
{
    const struct hsp_cluster_node *n = hsp_ci_node(c, d);
    const char *what = hsp_ci_to_leave(c, d), *name = hsp_ci_device_name(c, d);
    const char *why = n->draining || n->leaving ? ""
                      : n->fault.until_ms != 0  ? n->fault.why
                                                : hsp_device_why(hsp_ci_device(c, d));
    return hsp_ci_printf(c, "%s %s%s%s", what, name, why[0] != '\0' ? ": " : "", why);
}

const char *hsp_ci_unhealthy(struct hsp_cluster *c)
{
    const char *first = "";
    uint32_t more = 0;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct hsp_cluster_node *n = &c->nodes[i];
        for (uint32_t d = 0; n->conn != 0 && d < HSP_NODE_DEVICES; d++) {
            if (!n->dev[d].present || !hsp_ci_device_unhealthy(&n->dev[d])) {
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
    first = more > 0 ? hsp_ci_printf(c, "%s; and %u more", first, more) : first;
    return hsp_ci_printf(c, "%s%s", first, hsp_ci_node_faults_why(c));
}

void hsp_ci_tell_drained(struct hsp_cluster *c, struct hsp_cluster_node *n)
{
    for (uint32_t i = 0; n->conn != 0 && i < HSP_NODE_DEVICES; i++) {
        struct hsp_node_device *d = &n->dev[i];
        if (d->present && hsp_ci_device_unhealthy(d) && d->job == 0 && !d->drained_told) {
            d->drained_told = true;
            hsp_ci_fact(c, "device.drained", HSP_SEV_NOTICE, NULL, n, "%s/%u: %s", n->name, i,
                        hsp_device_why(d));
        }
    }
}
