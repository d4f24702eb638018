/* Agent mode of hspmd-worker: `hspmd-worker --config FILE`.
 *
 * Purity: shell. */
#ifndef HSP_AGENTMAIN_H
#define HSP_AGENTMAIN_H
#include <stdbool.h>

enum hsp_agent_wish { HSP_AGENT_RUN, HSP_AGENT_CHECK_CONFIG, HSP_AGENT_PRINT_CONFIG };

/* Reads the file (NULL: all defaults), does what is wished, returns the exit status: 0, 1 failed, 6
 * the configuration is wrong. */
int hsp_agent_main(const char *config, enum hsp_agent_wish wish);

#endif
