#include "worker/agent/devices.h"

#include <string.h>

#include "proto/base/str.h"
#include "worker/agent/agent.h"
#include "worker/agent/agent_actions.h"
#include "worker/agent/agent_impl.h"
#include "worker/agent/agent_link.h"

_Static_assert((int)HSP_GPU_WARN == (int)HSP_HEALTH_WARN &&
                   (int)HSP_GPU_CORDON == (int)HSP_HEALTH_CORDON &&
                   (int)HSP_GPU_LOST == (int)HSP_HEALTH_LOST,
               "a verdict is sent as it is");
_Static_assert(HSP_GPU_WHY == HSP_WHY_MAX + 1, "with its reason");

static void copy(char *to, size_t size, const char *from)
{
    hsp_str_printf(to, size, "%s", from != NULL ? from : "");
}

/* Takes @p over; its texts and lists are ours. */
static void set_profile(struct hsp_agent_device *d, const struct hsp_m_device *p)
{
    copy(d->model, sizeof(d->model), p->model);
    copy(d->uuid, sizeof(d->uuid), p->uuid);
    copy(d->cpus, sizeof(d->cpus), p->cpus);
    if (p->n_gemm_parts > 0) {
        memmove(d->gemm_part, p->gemm_parts, p->n_gemm_parts * sizeof(d->gemm_part[0]));
    }
    d->profile = *p;
    d->profile.gemm_parts = d->gemm_part;
    d->profile.kind = d->kind;
    d->profile.address = d->address;
    d->profile.model = d->model;
    d->profile.uuid = d->uuid;
    d->profile.cpus = d->cpus;
}

void hsp_ai_devices_init(struct hsp_agent *a, const struct hsp_agent_config *cfg)
{
    for (uint32_t i = 0; i < cfg->n_devices; i++) {
        copy(a->dev[i].kind, sizeof(a->dev[i].kind), cfg->devices[i].kind);
        set_profile(&a->dev[i], &cfg->devices[i]);
        hsp_gpu_health_init(&a->dev[i].health);
        if (cfg->devices[i].health == HSP_HEALTH_LOST) {
            a->dev[i].health.verdict = HSP_GPU_LOST;
            copy(a->dev[i].health.why, sizeof(a->dev[i].health.why), cfg->devices[i].why);
        }
    }
    if (cfg->n_paths > 0) {
        memcpy(a->path, cfg->paths, cfg->n_paths * sizeof(a->path[0]));
    }
    a->cfg.paths = a->path;
}

struct hsp_m_device hsp_ai_describe(const struct hsp_agent *a, uint32_t i)
{
    const struct hsp_agent_device *d = &a->dev[i];
    struct hsp_m_device m = d->profile;
    m.index = i;
    m.up = d->state == HSP_EXEC_UP && !d->killed;
    m.address = m.up ? d->address : "";
    m.health = (uint32_t)d->health.verdict;
    m.why = d->health.why;
    return m;
}

void hsp_ai_profile(struct hsp_agent *a, const struct hsp_agent_event *ev)
{
    bool changed = false;
    for (uint32_t i = 0; i < ev->n && i < a->cfg.n_devices; i++) {
        const struct hsp_m_device *p = &a->dev[i].profile, *q = &ev->devices[i];
        if (p->speed != q->speed || p->mem_bytes != q->mem_bytes) {
            changed = true;
            set_profile(&a->dev[i], q);
            hsp_ai_kill(a, i, "its device has other figures now");
        }
    }
    if (changed && a->link != HSP_LINK_DOWN) {
        hsp_ai_hang_up(a, "other devices", true);
    }
}

/* ---- health ---- */

/* The verdict is another now: told, and the executor of a lost device is ended. hspmdd decides on
 * the work to move away. */
static void judge(struct hsp_agent *a, uint32_t device)
{
    static const int severity[HSP_N_GPU_VERDICTS] = {5, 4, 3, 3};
    const struct hsp_gpu_health *h = &a->dev[device].health;
    struct hsp_msg m = {
        .type = HSP_MSG_DEVICE_HEALTH,
        .u.health = {.device = device, .health = (uint32_t)h->verdict, .reason = h->why}};
    hsp_ai_log(a, severity[h->verdict], "device %u: %s%s%s", device,
               hsp_gpu_verdict_name(h->verdict), h->why[0] != '\0' ? ": " : "", h->why);
    hsp_ai_tell(a, &m);
    if (h->verdict == HSP_GPU_LOST) {
        hsp_ai_kill(a, device, "its GPU is lost");
    }
}

void hsp_ai_sign(struct hsp_agent *a, uint32_t device, const struct hsp_gpu_sign *s)
{
    if (hsp_gpu_health_sign(&a->dev[device].health, s, a->now_ms)) {
        judge(a, device);
    }
}

void hsp_ai_health_tick(struct hsp_agent *a)
{
    for (uint32_t i = 0; i < a->cfg.n_devices; i++) {
        if (hsp_gpu_health_tick(&a->dev[i].health, a->now_ms)) {
            judge(a, i);
        }
    }
}
