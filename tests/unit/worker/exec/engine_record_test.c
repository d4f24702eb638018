/* Tests recordings of the steps of an engine (worker/exec/record.h). */
#include "tests/unit/worker/exec/engine_world.h"

static struct hsp_recording *record(uint32_t n_ranks, uint32_t steps, uint32_t n, uint32_t cap)
{
    struct tiny_spec s = ew_spec;
    s.n_ranks = n_ranks;
    struct ew_world *w = ew_new(&s, steps);
    w->d[0].record = n;
    w->d[0].cap = cap;
    ew_start(w);
    ew_join(w);
    assert_ok(w->d[0].status, &w->d[0].err);
    struct hsp_recording *r = w->d[0].recording;
    assert_non_null(r);
    ew_free(w);
    return r;
}

static void check_order(const struct hsp_recording *r)
{
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        const struct hsp_recorded_queue *of = &r->queue[q];
        for (uint32_t k = 0; k < of->n; k++) {
            assert_true(of->span[k].to_ns >= of->span[k].from_ns);
            assert_true(k == 0 || of->span[k].from_ns >= of->span[k - 1].to_ns);
            assert_true(k == 0 || of->span[k].step >= of->span[k - 1].step);
        }
    }
}

/* A recording has every instruction of every step once, in the order of the schedule. An
 * instruction begins after all instructions for which it waits. */
static void a_recording_has_every_instruction(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new((size_t)64 << 20);
    struct tiny_spec s = ew_spec;
    s.n_ranks = 2;
    const struct hsp_program *p = tiny_programs(&s, arena);
    /* more spans than may wait for their times */
    struct hsp_recording *r = record(2, 18, 14, 8192);
    assert_true(r->first_step == 1 && r->n_steps == 14 && r->done == 14);
    check_order(r);
    int64_t voted = 0;
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        const struct hsp_recorded_queue *of = &r->queue[q];
        uint32_t k = 0;
        assert_true(of->lost == 0 && !of->entries);
        for (uint16_t t = 0; t < 14; t++) {
            const struct hsp_sched *plan[2] = {&p->bind.eval, &p->bind.train};
            for (int i = hsp_step_has_eval(&p->bind, t + 1U) ? 0 : 1; i < 2; i++) {
                for (uint32_t j = 0; j < plan[i]->n[q]; j++) {
                    const struct hsp_piece *x = &p->tpl.pieces[plan[i]->e[q][j].piece];
                    for (uint32_t at = x->first; at < x->first + x->n; at += of->span[k - 1].n) {
                        const struct hsp_span *got = &of->span[k++];
                        assert_true(k <= of->n && got->first == at && got->n > 0);
                        assert_true(got->step == t && got->eval == (i == 0));
                        assert_int_equal(got->micro, plan[i]->e[q][j].micro);
                        assert_true(ew_on_device || got->n == 1);
                    }
                }
            }
        }
        assert_int_equal(k, of->n);
    }
    /* an update begins after its vote */
    for (uint32_t k = 0, c = 0; k < r->queue[HSP_QUEUE_COMM].n; k++) {
        const struct hsp_span *v = &r->queue[HSP_QUEUE_COMM].span[k];
        if (p->tpl.instrs[v->first].kind != HSP_I_VOTE) {
            continue;
        }
        voted = v->to_ns;
        const struct hsp_recorded_queue *of = &r->queue[HSP_QUEUE_COMPUTE];
        while (c < of->n && (of->span[c].step < v->step ||
                             p->tpl.instrs[of->span[c].first].op != HSP_OP_ADAMW)) {
            c++;
        }
        assert_true(c < of->n && of->span[c].step == v->step);
        assert_true(of->span[c].from_ns >= voted - 2 * r->error_ns);
    }
    assert_true(voted > 0);
    hsp_recording_free(r);
    hsp_arena_free(arena);
}

static void a_long_recording_is_of_entries(void **state)
{
    (void)state;
    struct hsp_recording *r = record(1, 6, 3, 60);
    assert_true(r->done == 3 && r->queue[HSP_QUEUE_COMPUTE].entries);
    assert_true(r->queue[HSP_QUEUE_COMPUTE].n > 0 && r->queue[HSP_QUEUE_COMPUTE].lost == 0);
    check_order(r);
    hsp_recording_free(r);
    r = record(1, 6, 3, 2);
    assert_true(r->queue[HSP_QUEUE_COMPUTE].n == 2 && r->queue[HSP_QUEUE_COMPUTE].lost > 0);
    hsp_recording_free(r);
}

/* The job ends before all steps of the recording are done. */
static void a_recording_can_be_taken_early(void **state)
{
    (void)state;
    struct hsp_recording *r = record(1, 4, 9, 4096);
    assert_true(r->n_steps == 9 && r->done == 3 && r->queue[HSP_QUEUE_COMPUTE].n > 0);
    check_order(r);
    hsp_recording_free(r);
}

HSP_TEST_FILE(engine_record_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_has_every_instruction),
        cmocka_unit_test(a_long_recording_is_of_entries),
        cmocka_unit_test(a_recording_can_be_taken_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Runs these tests on mock devices instead of CPUs. */
HSP_TEST_FILE(device_record_test)
{
    ew_on_device = true;
    return hsp_test_run("engine_record_test");
}
