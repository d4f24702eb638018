/* Runs the agent of a node, or shows and checks its configuration (`hspmd-worker --config FILE`).
 *
 * Purity: shell. */
#ifndef HSP_AGENT_MAIN_H
#define HSP_AGENT_MAIN_H
#include "worker/app/agent_setup.h"

/* Reads the configuration, runs the agent, returns the exit status: 0, 1 failed, 6 the
 * configuration is wrong. */
int hsp_agent_main(const struct hsp_agent_request *r);

#endif
