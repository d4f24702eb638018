/* A folder of files in which command lines of hspmdctl are run, and the output of the last one. */
#ifndef HSP_CTL_ROOM_H
#define HSP_CTL_ROOM_H
#include "tests/lib/testlib.h"

struct room {
    char *dir;
    char *out, *msg; /* of the last run */
    size_t n_out, n_msg;
    int rc;
};

/* *state is the room. */
int ctl_room_setup(void **state);
int ctl_room_teardown(void **state);
/* Runs the words @words, NULL behind the last; "@x" stands for the file x of the room. */
void ctl_room_run(struct room *r, const char *const *words);
#define RUN(r, ...) ctl_room_run((r), (const char *const[]){__VA_ARGS__, NULL})
void ctl_room_put(struct room *r, const char *name, const char *text);

extern const char ctl_tiny_job[];  /* a job of two layers */
extern const char ctl_two_ranks[]; /* a plan of it: a pipeline */

#endif
