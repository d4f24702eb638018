/* Shares with the files of stories the simulation of one story, its nodes, and waits that fail the
 * test where the story does not go on. */
#ifndef HSP_SIMSTORY_H
#define HSP_SIMSTORY_H
#include "tests/lib/testlib.h"
#include "tests/sim/sim.h"

extern struct sim *ss; /* the simulation; of the test that runs */

int ss_setup(void **state); /* of each test */
int ss_teardown(void **state);

/* A coordinator, and @n nodes with so many devices each, none of which is started. */
void ss_begin(uint32_t n, uint32_t devices);
void ss_start_nodes(void); /* in order, so that node K is nK */
/* @n nodes with a device each, which are started, and a coordinator with an empty store. */
void ss_begin_empty(uint32_t n);

void ss_until(bool (*pred)(struct sim *), uint64_t ms); /* at most @ms */
void ss_go_on(uint64_t ms);
void ss_forget_rows(void); /* the store is empty from now on */
uint32_t ss_holders(void); /* nodes that have a sealed segment of the job */

#endif
