/* Runs the conformance suite of transports: every implementation of comm.h passes the same
 * tests. */
#ifndef HSP_COMM_SUITE_H
#define HSP_COMM_SUITE_H
#include "tests/lib/testlib.h"
#include "worker/comm/comm.h"

/* Promises of comm.h by host transports alone. */
#define SUITE_LACKS_TAGS \
    1u /* messages of one sender match in order, on any channel and of any size */
#define SUITE_LACKS_TOLD    2u /* an abort stays on its rank */
#define SUITE_LACKS_PARTING 4u /* a close waits for the receivers */

struct suite_transport {
    const char *name;
    unsigned lacks;
    /* Opens @n connected ranks of this process into @ret; fails the test on error. */
    void (*open)(uint32_t n, struct hsp_comm **ret);
    /* After all ranks are closed. */
    void (*done)(void);
};

/* Runs all tests; returns the number of failures. */
int suite_run(const struct suite_transport *t);

#endif
