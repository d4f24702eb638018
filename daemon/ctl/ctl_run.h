/* Runs hspmdctl once: finds the command, parses its line, runs it, tells failures.
 *
 * Purity: shell. */
#ifndef HSP_CTL_RUN_H
#define HSP_CTL_RUN_H
#include <stdio.h>

/* argv[0] is the program's name. The answer goes to @out, everything else to @msg. Returns the exit
 * code. */
int hsp_ctl_run(int argc, const char *const *argv, FILE *out, FILE *msg);

#endif
