/* Checks traces of executor processes: all record the same steps, each message is sent before it
 * arrives, and if the epoch ends early, the steps recorded so far are sent. The executors have one
 * clock, so no offset between clocks is subtracted. */
#include "proto/program/program.h"
#include "proto/wire/trace_part.h"
#include "tests/unit/worker/executor/executor_world.h"

enum { N = 3 };

static void want(struct xw_world *w, uint64_t epoch, uint32_t number, uint32_t steps)
{
    struct hsp_err err = {0};
    struct hsp_msg m = {.type = HSP_MSG_TRACE,
                        .epoch = epoch,
                        .u.trace = {.job = 1, .number = number, .steps = steps}};
    assert_ok(hsp_chan_send(&w->ex[0].chan, &m, &err), &err);
}

/* Returns the part of trace @number that device @dev sends, in memory of @arena. */
static struct hsp_trace_part told(struct xw_world *w, int dev, uint32_t number,
                                  struct hsp_arena *arena)
{
    struct hsp_err err = {0};
    struct hsp_trace_part p;
    xw_await(w, dev, HSP_MSG_TRACED);
    assert_int_equal(w->last.u.traced.number, number);
    assert_int_equal(w->last.u.traced.rank, dev);
    assert_ok(hsp_trace_part_decode(w->last.blob, w->last.blob_len, arena, &p, &err), &err);
    return p;
}

static void begin(struct xw_world *w, struct hsp_epoch_plan *plan, int n)
{
    struct xw_epoch first = {
        .epoch = 11, .plan_no = 1, .mode = HSP_MODE_FRESH, .plan = plan, .n_peers = n};
    w->speed = 0.2;
    for (int i = 0; i < n; i++) {
        xw_start_executor(w, i);
    }
    xw_prepare(w, &first);
    for (int i = 0; i < n; i++) {
        xw_send_start(w, i, 11, 0);
    }
}

/* Asserts that the receive of message @m of rank @rank, in span @s, ends after its send has begun
 * (@sent_ns). */
static void check_receive(const struct hsp_trace_part *to, const struct hsp_part_span *s,
                          const struct hsp_part_msg *m, uint32_t rank, uint64_t sent_ns)
{
    uint32_t found = 0;
    for (uint32_t k = 0; k < to->n_spans; k++) {
        const struct hsp_part_span *r = &to->spans[k];
        const struct hsp_part_label *l = &to->labels[r->label];
        for (uint32_t i = 0;
             i < l->n_msgs && r->step == s->step && r->micro == s->micro && r->eval == s->eval;
             i++) {
            bool same =
                !l->msgs[i].out && l->msgs[i].channel == m->channel && l->msgs[i].peer == rank;
            found += same;
            assert_true(!same || (uint64_t)to->base_ns + r->at_ns + r->took_ns >= sent_ns);
        }
    }
    assert_int_equal(found, 1);
}

static uint32_t check_messages(const struct hsp_trace_part part[N])
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < N; r++) {
        for (uint32_t k = 0; k < part[r].n_spans; k++) {
            const struct hsp_part_span *s = &part[r].spans[k];
            const struct hsp_part_label *l = &part[r].labels[s->label];
            for (uint32_t i = 0; i < l->n_msgs; i++) {
                if (l->msgs[i].out) {
                    check_receive(&part[l->msgs[i].peer], s, &l->msgs[i], r,
                                  (uint64_t)part[r].base_ns + s->at_ns);
                    n++;
                }
            }
        }
    }
    return n;
}

/* Returns the time at which a phase of a micro-batch first begins, or last ends (@end), on the
 * device of @p. */
static uint64_t phase_at(const struct hsp_trace_part *p, uint8_t phase, uint32_t step,
                         uint32_t micro, bool end)
{
    uint64_t at = end ? 0 : UINT64_MAX;
    for (uint32_t k = 0; k < p->n_spans; k++) {
        const struct hsp_part_span *s = &p->spans[k];
        if (p->labels[s->label].phase == phase && s->step == step && s->micro == micro) {
            uint64_t t = s->at_ns + (end ? s->took_ns : 0);
            at = (end ? t > at : t < at) ? t : at;
        }
    }
    return at;
}

static void all_record_the_same_steps(void **state)
{
    struct xw_world *w = *state;
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_epoch_plan *pp = xw_make_plan(w, xw_plan_pp);
    struct hsp_trace_part part[N];
    begin(w, pp, N);
    xw_await_step(w, 0, 4);
    want(w, 11, 7, 3);
    for (int i = 0; i < N; i++) {
        part[i] = told(w, i, 7, arena);
        assert_true(part[i].n_steps == 3 && part[i].done == 3 && part[i].lost == 0);
        assert_true(part[i].first_step == part[0].first_step && part[i].first_step > 4);
        for (uint32_t step = 0; step < 3; step++) {
            for (uint32_t m = 0; m < 3; m++) {
                uint64_t f = phase_at(&part[i], HSP_SEG_FORWARD, step, m, true);
                uint64_t b = phase_at(&part[i], HSP_SEG_BACKWARD, step, m, false);
                assert_true(f > 0 && b < UINT64_MAX && f <= b);
            }
        }
        uint32_t seals = 0, flops = 0;
        for (uint32_t k = 0; k < part[i].n_spans; k++) {
            const struct hsp_part_label *l = &part[i].labels[part[i].spans[k].label];
            seals += l->queue == HSP_PART_STATE && strcmp(l->name, "seal") == 0;
            flops += l->cls == HSP_PART_PRODUCT && l->flops[HSP_GEMM_FEW] > 0;
        }
        assert_true(seals >= 2 && flops > 0);
    }
    assert_true(check_messages(part) >= 3 * 3 * 2); /* each micro-batch, both directions */
    want(w, 11, 8, 1);                              /* a second trace */
    for (int i = 0; i < N; i++) {
        assert_int_equal(told(w, i, 8, arena).done, 1);
    }
    hsp_epoch_plan_free(pp);
    hsp_arena_free(arena);
}

static void the_end_cuts_it(void **state)
{
    struct xw_world *w = *state;
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct hsp_epoch_plan *one = xw_make_plan(w, xw_plan_one);
    begin(w, one, 1);
    xw_await_step(w, 0, XW_STEPS - 20);
    want(w, 11, 9, 40);
    struct hsp_trace_part p = told(w, 0, 9, arena);
    assert_true(p.n_steps == 40 && p.done > 0 && p.done < 20);
    assert_int_equal(p.first_step + p.done, XW_STEPS);
    xw_await_end(w, 0);
    hsp_epoch_plan_free(one);
    hsp_arena_free(arena);
}

HSP_TEST_FILE(executor_trace_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_record_the_same_steps, xw_setup, xw_teardown),
        cmocka_unit_test_setup_teardown(the_end_cuts_it, xw_setup, xw_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
