/* Counts the traffic of Hetu v2's C1 -> C2 (tests/lib/greedybsr.h) by the published ways and by
 * ours, as JSON: bsrbench N plans ours N times. Read by tests/claims/transition-traffic. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/lib/greedybsr.h"

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum hsp_status show(const struct hsp_hetu_case *c, const char *name,
                            const struct hsp_state_table *t, struct hsp_err *err)
{
    struct hsp_bsr_traffic m;
    enum hsp_status st =
        hsp_bsr_measure(c->g, c->have, c->want, &c->net, &c->opts, t, c->arena, &m, err);
    if (st == HSP_OK) {
        double far_bytes = (double)m.bytes[HSP_LINK_NIC];
        (void)printf("\"%s\": {\"rows\": %u, \"needed\": %.0f, \"fast\": %.0f, \"network\": %.0f, "
                     "\"busiest\": %.0f, \"floor\": %.0f, \"seconds\": %.6f}, ",
                     name, t->n, (double)m.needed, (double)m.bytes[HSP_LINK_DOMAIN], far_bytes,
                     (double)m.nic_load, (double)m.floor, m.seconds);
    }
    return st;
}

int main(int argc, char **argv)
{
    struct hsp_hetu_case c;
    struct hsp_err err = {0};
    struct hsp_state_table t = {0};
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    enum hsp_status st = hsp_hetu_init(&c, &err);
    (void)printf("{");
    for (int rule = HSP_PLAIN_MIN_RANK; st == HSP_OK && rule <= HSP_PLAIN_GREEDY; rule++) {
        st = hsp_plain_bsr(c.g, c.have, c.want, &c.net, (enum hsp_plain_rule)rule, c.arena, &t,
                           &err);
        st = st == HSP_OK ? show(&c, rule == HSP_PLAIN_GREEDY ? "greedy" : "min_rank", &t, &err)
                          : st;
    }
    double begin = now_s();
    const struct hsp_arena_position mark = hsp_arena_mark(c.arena);
    for (int i = 0; st == HSP_OK && i < rounds; i++) {
        hsp_arena_rewind(c.arena, mark);
        st = hsp_bsr_plan(c.g, c.have, c.want, &c.net, &c.opts, c.arena, &t, &err);
    }
    double took = (now_s() - begin) / (rounds > 0 ? rounds : 1);
    st = st == HSP_OK ? show(&c, "ours", &t, &err) : st;
    (void)printf("\"plan_s\": %.6f}\n", took);
    hsp_hetu_fini(&c);
    if (st != HSP_OK) {
        (void)fprintf(stderr, "bsrbench: %s\n", err.msg);
    }
    return st == HSP_OK ? 0 : 1;
}
