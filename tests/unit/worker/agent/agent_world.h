/* Makes an agent under test with two devices: its clock, the actions of the last step; small steps
 * of a story. */
#ifndef HSP_AGENT_WORLD_H
#define HSP_AGENT_WORLD_H
#include "tests/lib/testlib.h"

#include "worker/agent/agent.h"

struct aw_world {
    struct hsp_agent *a;
    uint64_t now;
    struct hsp_agent_actions acts; /* of the last step */
    uint64_t scan;                 /* the last SCAN asked for */
    bool kept_more;                /* the next scan finds more jobs than it lists (keeping_test) */
};

void aw_step(struct aw_world *w, struct hsp_agent_event ev);
const struct hsp_agent_action *aw_find(const struct aw_world *w, enum hsp_agent_action_type type);
uint32_t aw_count(const struct aw_world *w, enum hsp_agent_action_type type);
const struct hsp_msg *aw_sent(const struct aw_world *w, enum hsp_agent_action_type to,
                              uint16_t type);
void aw_tick(struct aw_world *w);
void aw_from_daemon(struct aw_world *w, struct hsp_msg m);
void aw_from_exec(struct aw_world *w, uint32_t device, struct hsp_msg m);
void aw_exit_of(struct aw_world *w, uint32_t device);
void aw_scanned(struct aw_world *w, const struct hsp_m_holding *h, uint32_t n);
void aw_beats(struct aw_world *w);
void aw_link_up(struct aw_world *w, uint64_t term, uint64_t incarnation);
void aw_begin(struct aw_world *w);
void aw_prepare(struct aw_world *w, uint32_t device, uint32_t job, uint64_t epoch);
void aw_run_job(struct aw_world *w, uint32_t device, uint32_t job, uint64_t epoch);

#endif
