/* Tests the checkpoint from which a job goes on: all sequences of a few events, the shortest first
 * (ckpt_model.h). A sequence that ends wrong is printed, with its checkpoints. */
#include <stdio.h>

#include "tests/unit/daemon/app/ckpt_model.h"

#define EVENTS 3 /* of a sequence */

/* Plays @n events. Then the job goes on, and once more when all nodes are there again. Returns how
 * many events could happen. */
static int play(struct cm_world *x, const struct cm_world *base, const uint32_t *event, int n)
{
    int done = 0;
    cm_begin_at(x, base);
    while (done < n && x->wrong[0] == '\0' && cm_happens(x, event[done])) {
        done++;
    }
    if (done == n && x->wrong[0] == '\0') {
        cm_go_on(x);
    }
    if (done == n && x->wrong[0] == '\0') {
        cm_mend(x);
        cm_go_on(x);
    }
    cm_end(x);
    return done;
}

static void print(const struct cm_world *x, const uint32_t *event, int n)
{
    (void)fprintf(stderr, "%s: 40 and 77 are written",
                  x->shared ? "a shared folder" : "a folder on each node");
    for (int i = 0; i < n; i++) {
        (void)fprintf(stderr, "; %s", cm_words[event[i]]);
    }
    (void)fprintf(stderr, "; %s\n", x->wrong);
    for (int k = 0; k < x->n; k++) {
        const struct cm_saved *s = &x->all[k];
        (void)fprintf(stderr, "  %d of epoch %llu, behind %d%s%s\n", (int)s->step,
                      (unsigned long long)s->epoch, s->before < 0 ? 0 : (int)x->all[s->before].step,
                      cm_has(x->disk[CM_A], k) ? ", on a" : "",
                      cm_has(x->disk[cm_folder(x, CM_B)], k) ? ", on b" : "");
    }
}

/* The next sequence of @n events whose first @done events differ from these. False: there is
 * none. */
static bool next(uint32_t *event, int done, int n)
{
    int at = done < n ? done : n - 1;
    for (int i = at + 1; i < n; i++) {
        event[i] = 0;
    }
    while (at >= 0 && cm_words[++event[at]] == NULL) {
        event[at--] = 0;
    }
    return at >= 0;
}

static uint32_t all_of(const struct cm_world *base, int n)
{
    static struct cm_world x;
    uint32_t event[EVENTS + 1] = {0}, played = 0;
    for (bool more = true; more; played++) {
        const int done = play(&x, base, event, n);
        if (x.wrong[0] != '\0') {
            print(&x, event, done);
            fail();
        }
        more = next(event, done, n);
    }
    return played;
}

static void any_sequence(void **state)
{
    (void)state;
    static struct cm_world base;
    const int most = hsp_test_rounds(100) < 100 ? EVENTS - 1 : EVENTS; /* fewer where it is slow */
    uint32_t played = 0;
    for (int n = 0; n <= most; n++) {
        for (int shared = 0; shared < 2; shared++) {
            cm_base(&base, shared != 0);
            played += all_of(&base, n);
            cm_base_end(&base);
        }
    }
    (void)fprintf(stderr, "%u sequences\n", played);
}

HSP_TEST_FILE(ckpt_model_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_sequence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
