/* Agent mode of hspmd-worker: `hspmd-worker --config FILE`.
 *
 * Purity: shell. */
#ifndef HSP_AGENT_MAIN_H
#define HSP_AGENT_MAIN_H
#include <stddef.h>

#define HSP_AGENT_SETS 64 /* --set of one command line; the configuration has fewer keys */

enum hsp_agent_wish {
    HSP_AGENT_RUN,
    HSP_AGENT_CHECK_CONFIG,
    HSP_AGENT_PRINT_CONFIG,
    HSP_AGENT_PRINT_EXAMPLE
};

struct hsp_agent_request { /* of the command line */
    const char *config;    /* file, NULL: none */
    enum hsp_agent_wish wish;
    size_t n_set;
    const char *set[HSP_AGENT_SETS]; /* "KEY=VALUE", borrowed */
};

/* Reads the configuration, does what is wished, returns the exit status: 0, 1 failed, 6 the
 * configuration is wrong. */
int hsp_agent_main(const struct hsp_agent_request *r);

#endif
