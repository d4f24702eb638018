#include "tests/sim/simstory.h"

#include "daemon/cluster/cluster_check.h"
#include "proto/base/arena.h"

struct sim *ss;

int ss_setup(void **state)
{
    (void)state;
    ss = calloc(1, sizeof(*ss));
    return ss != NULL ? 0 : -1;
}

int ss_teardown(void **state)
{
    (void)state;
    sim_fini(ss);
    free(ss->heap);
    hsp_arena_free(ss->arena);
    free(ss);
    return 0;
}

void ss_until(bool (*pred)(struct sim *), uint64_t ms)
{
    if (!sim_run(ss, ss->now + ms, pred)) {
        struct hsp_buf b;
        hsp_buf_init(&b, 1u << 20);
        hsp_cluster_dump(ss->d, &b);
        print_error("%s\n%s%s", ss->why, hsp_buf_cstr(&b), hsp_buf_cstr(&ss->trace));
        hsp_buf_fini(&b);
        fail_msg("the story does not go on");
    }
}

void ss_go_on(uint64_t ms)
{
    if (!sim_run(ss, ss->now + ms, NULL)) {
        fail_msg("%s", ss->why);
    }
}

void ss_forget_rows(void)
{
    for (uint32_t i = 0; i < ss->n_rows; i++) {
        free(ss->rows[i].value);
    }
    ss->n_rows = 0;
}

void ss_begin(uint32_t n, uint32_t devices)
{
    sim_init(ss, 5, 0, devices);
    ss->n_nodes = n;
    ss->plan_all = true;
    ss->cfg.measures = ss->d->cfg.measures = 0; /* of no story: sim/random has it */
}

void ss_start_nodes(void)
{
    for (uint32_t i = 0; i < ss->n_nodes; i++) {
        sim_push(ss, 10 * i, (struct sim_ev){.type = SIM_E_A_START, .who = i});
    }
    ss_go_on(500);
}

void ss_begin_empty(uint32_t n)
{
    ss_begin(n, 1);
    ss->cfg.fresh_id = (struct hsp_digest){7, 0};
    ss_forget_rows();
    sim_d_start(ss);
    ss->cfg.measures = ss->d->cfg.measures = 0;
    ss_start_nodes();
}

uint32_t ss_holders(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < ss->n_nodes; i++) {
        n += ss->exec[i * SIM_DEVS].n_seg != 0;
    }
    return n;
}
