/* @@SENTENCE@@ devices: purpose to be written. */
#ifndef HSP_DEVICES_H
#define HSP_DEVICES_H
#include "worker/agent/agent_impl.h"

void hsp_ai_devices_init(struct hsp_agent *a, const struct hsp_agent_config *cfg);
/* Device @i as HELLO says it. */
struct hsp_m_device hsp_ai_describe(const struct hsp_agent *a, uint32_t i);
void hsp_ai_profile(struct hsp_agent *a, const struct hsp_agent_event *ev);
void hsp_ai_sign(struct hsp_agent *a, uint32_t device, const struct hsp_gpu_sign *s);
void hsp_ai_health_tick(struct hsp_agent *a);

#endif
