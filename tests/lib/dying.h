/* Runs a program whose assertion fails, in a process of its own. */
#ifndef HSP_DYING_H
#define HSP_DYING_H

/* Runs @program(@arg) in a thread of a child process, waits until its stderr has @line, and fails
 * an assertion beside it. The test fails unless the child is aborted and says so, and then, behind
 * the head of the last lines, @line again. */
void hsp_test_dying(void *(*program)(void *), void *arg, const char *line);

#endif
