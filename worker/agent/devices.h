/* Keeps the figures and the health of the node's devices, and tells hspmdd of changes.
 *
 * Purity:  pure.
 */
#ifndef HSP_DEVICES_H
#define HSP_DEVICES_H
#include "worker/agent/agent_impl.h"

/* Takes the profiles over at the start. */
void hsp_ai_devices_init(struct hsp_agent *a, const struct hsp_agent_config *cfg);
/* Device @i as HELLO says it. */
struct hsp_m_device hsp_ai_describe(const struct hsp_agent *a, uint32_t i);
/* Other figures of devices: said in a new HELLO. An executor whose device changed begins anew with
 * them; its job goes on from the state in memory. */
void hsp_ai_profile(struct hsp_agent *a, const struct hsp_agent_event *ev);
/* A sign of a GPU's health, and the passage of time: a new verdict is told, a lost GPU ends its
 * executor. */
void hsp_ai_sign(struct hsp_agent *a, uint32_t device, const struct hsp_gpu_sign *s);
void hsp_ai_health_tick(struct hsp_agent *a);

#endif
