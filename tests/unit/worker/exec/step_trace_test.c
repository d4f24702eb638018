/* Tests that a recording becomes spans with names, phases, work and messages. */
#include "tests/lib/testlib.h"

#include "tests/unit/worker/exec/tiny_program.h"
#include "worker/exec/step_trace.h"

static const struct tiny_spec SPEC = {.n_ranks = 2,
                                      .global_batch = 8,
                                      .n_micro = 2,
                                      .vocab = 24,
                                      .hidden = 8,
                                      .sequence = 16,
                                      .steps = 4,
                                      .dtype = HSP_F32};

struct world {
    struct hsp_arena *arena;
    struct hsp_program *program;
    struct hsp_span span[HSP_N_QUEUES][64];
    struct hsp_recording rec;
};

/* Makes a recording with one span for each instruction. The spans of a queue follow each other from
 * 1000 ns on, each of 10 ns. */
static struct world *world_new(void)
{
    struct world *w = calloc(1, sizeof(*w));
    w->arena = hsp_arena_new((size_t)64 << 20);
    w->program = tiny_programs(&SPEC, w->arena);
    w->rec = (struct hsp_recording){.first_step = 5, .n_steps = 2, .done = 1, .error_ns = 3};
    for (uint32_t k = 0; k < w->program->tpl.n_instrs; k++) {
        uint8_t q = w->program->tpl.instrs[k].queue;
        struct hsp_recorded_queue *to = &w->rec.queue[q];
        to->span = w->span[q];
        to->span[to->n] = (struct hsp_span){
            .from_ns = 1000 + 10 * to->n, .to_ns = 1010 + 10 * to->n, .first = k, .n = 1};
        to->n++;
    }
    w->rec.queue[0].lost = 2;
    return w;
}

static void world_free(struct world *w)
{
    hsp_arena_free(w->arena);
    free(w);
}

static struct hsp_trace_part make(struct world *w, const struct hsp_state_span *state, uint32_t n)
{
    struct hsp_err err = {0};
    struct hsp_trace_part p;
    const struct hsp_program *programs[2] = {w->program, w->program};
    assert_ok(hsp_step_trace(&w->rec, programs, 2, state, n, w->arena, &p, &err), &err);
    return p;
}

static const struct hsp_part_label *named(const struct hsp_trace_part *p, const char *name)
{
    for (uint32_t k = 0; k < p->n_labels; k++) {
        if (strcmp(p->labels[k].name, name) == 0) {
            return &p->labels[k];
        }
    }
    fail_msg("no %s", name);
    return NULL;
}

static void instructions_have_names_phases_and_work(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct hsp_trace_part p = make(w, NULL, 0);
    assert_true(p.base_ns == 1000 && p.first_step == 5 && p.n_steps == 2 && p.done == 1);
    assert_true(p.lost == 2 && p.error_ns == 3);
    assert_int_equal(p.n_spans, w->program->tpl.n_instrs);
    const struct hsp_part_label *l = named(&p, "linear y");
    /* 2 sequences of 16 tokens, 8 hidden, 24 words */
    assert_true(l->cls == HSP_PART_PRODUCT && l->phase == HSP_SEG_FORWARD);
    assert_near(l->flops[HSP_GEMM_FEW], 2.0 * 2 * 16 * 8 * 24, 0);
    l = named(&p, "linear_dw gw");
    assert_true(l->cls == HSP_PART_PRODUCT && l->phase == HSP_SEG_BACKWARD);
    l = named(&p, "acc head.weight#acc");
    assert_true(l->cls == HSP_PART_ELEMENTS && l->flops[HSP_GEMM_FEW] <= 0);
    /* an accumulation reads two tensors and writes one */
    assert_near(l->bytes, 3.0 * 24 * 8 * 4, 0);
    l = named(&p, "all-reduce head.weight#grad");
    assert_true(l->cls == HSP_PART_MOVE && l->queue == HSP_PART_COMM && l->phase == HSP_SEG_POST);
    assert_int_equal(named(&p, "vote")->cls, HSP_PART_OTHER);
    assert_int_equal(named(&p, "adamw head.weight")->phase, HSP_SEG_POST);
    world_free(w);
}

/* Spans of the same instructions share a label. Spans with other instructions, of another number of
 * instructions, or of another program have other labels. */
static void runs_have_a_label_each(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct hsp_recorded_queue *q = &w->rec.queue[HSP_QUEUE_COMPUTE];
    uint32_t first = 0;
    while (w->program->tpl.instrs[first].kind != HSP_I_OP ||
           w->program->tpl.instrs[first].op != HSP_OP_LINEAR) {
        first++;
    }
    w->rec.queue[HSP_QUEUE_COMM].n = 0;
    for (q->n = 0; q->n < 6; q->n++) {
        q->span[q->n] = (struct hsp_span){.from_ns = 1000 + 10 * q->n,
                                          .to_ns = 1010 + 10 * q->n,
                                          .first = first,
                                          .n = q->n % 3 == 0 ? 1 : 3,
                                          .micro = q->n + 1,
                                          .step = (uint16_t)(q->n / 2),
                                          .eval = q->n == 4,
                                          .program = q->n % 3 == 2};
    }
    struct hsp_trace_part p = make(w, NULL, 0);
    for (uint32_t k = 0; k < 6; k++) {
        const struct hsp_part_span *s = &p.spans[k];
        assert_true(s->micro == k + 1 && s->step == k / 2 && s->eval == (k == 4));
        assert_true(s->at_ns == 10 * k && s->took_ns == 10);
    }
    assert_int_equal(p.n_labels, 3);
    assert_true(p.spans[0].label == p.spans[3].label && p.spans[1].label == p.spans[4].label);
    assert_true(p.spans[1].label != p.spans[2].label);
    const struct hsp_part_label *l = &p.labels[p.spans[1].label];
    assert_string_equal(l->name, "linear y and 2 more");
    assert_true(l->n_instrs == 3 && l->cls == HSP_PART_OTHER && l->flops[HSP_GEMM_FEW] > 0 &&
                l->bytes > 0);
    world_free(w);
}

/* There are more labels than the first allocation has room for, and each is found again. */
static void many_runs_keep_their_labels(void **state)
{
    enum { N = 600 };
    static struct hsp_span span[2 * N];
    struct world *w = world_new();
    struct hsp_recorded_queue *q = &w->rec.queue[HSP_QUEUE_COMPUTE];
    uint32_t all = w->program->tpl.n_instrs, n = 0;
    (void)state;
    for (uint8_t program = 0; program < 2; program++) {
        for (uint32_t first = 0; first < all; first++) {
            for (uint32_t k = 1; k <= all - first && n < N; k++) {
                span[n++] = (struct hsp_span){
                    .from_ns = 1, .to_ns = 2, .first = first, .n = k, .program = program};
            }
        }
    }
    assert_true(n > 256);
    memcpy(span + n, span, n * sizeof(*span));
    w->rec.queue[HSP_QUEUE_COMM].n = 0;
    q->span = span;
    q->n = 2 * n;
    struct hsp_trace_part p = make(w, NULL, 0);
    assert_int_equal(p.n_labels, n);
    for (uint32_t k = 0; k < n; k++) {
        assert_int_equal(p.spans[k].label, k);
        assert_int_equal(p.spans[n + k].label, k);
        assert_int_equal(p.labels[k].n_instrs, span[k].n);
    }
    world_free(w);
}

static void messages_name_their_peers(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct hsp_reshard_bind *r = &w->program->bind.reshard[0];
    struct hsp_cell cells[3] = {r->moves[0].cells[0], r->moves[0].cells[0], r->moves[0].cells[0]};
    /* two cells from rank 0 to rank 1 are one message, the third goes from 1 to 0 */
    r->moves[0].kind = HSP_MOVE_P2P;
    r->moves[0].cells = cells;
    r->moves[0].n_cells = 3;
    for (int k = 0; k < 3; k++) {
        cells[k].root = k == 2;
        cells[k].peer = k != 2;
    }
    struct hsp_trace_part p = make(w, NULL, 0);
    const struct hsp_part_label *l = named(&p, "send-receive embed.weight#grad");
    assert_int_equal(l->n_msgs, 2);
    assert_true(l->msgs[0].out && l->msgs[0].peer == 1 && !l->msgs[1].out && l->msgs[1].peer == 1);
    assert_int_equal(l->msgs[0].channel, r->moves[0].channel);
    world_free(w);
}

static void the_state_has_a_queue_of_its_own(void **state)
{
    (void)state;
    struct world *w = world_new();
    const struct hsp_state_span s[3] = {
        {"seal", 500, 600}, {"copies", 600, 900}, {"seal", 950, 951}};
    struct hsp_trace_part p = make(w, s, 3);
    assert_int_equal(p.base_ns, 500);
    assert_int_equal(p.n_spans, w->program->tpl.n_instrs + 3);
    const struct hsp_part_span *last = &p.spans[p.n_spans - 3];
    assert_true(last[0].at_ns == 0 && last[1].at_ns == 100 && last[2].took_ns == 1);
    assert_true(last[0].label == last[2].label && last[0].label != last[1].label);
    assert_int_equal(p.labels[last[1].label].queue, HSP_PART_STATE);
    struct hsp_recording nothing = {0};
    w->rec = nothing;
    const struct hsp_state_span within[2] = {{"seal", 700, 800}, {"copies", 600, 900}};
    p = make(w, within, 2); /* the span that ends first may have begun last */
    assert_int_equal(p.base_ns, 600);
    assert_true(p.spans[0].at_ns == 100 && p.spans[1].at_ns == 0 && p.spans[1].took_ns == 300);
    p = make(w, NULL, 0);
    assert_true(p.n_spans == 0 && p.base_ns == 0);
    world_free(w);
}

HSP_TEST_FILE(step_trace_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_have_names_phases_and_work),
        cmocka_unit_test(runs_have_a_label_each),
        cmocka_unit_test(many_runs_keep_their_labels),
        cmocka_unit_test(messages_name_their_peers),
        cmocka_unit_test(the_state_has_a_queue_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
