/* Tests parts of a trace: decode(encode(x)) == x, every truncation is refused, and every part that
 * would mislead a reader. */
#include "tests/lib/testlib.h"

#include <math.h>

#include "tests/unit/proto/wire/part_sample.h"

static struct hsp_arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = hsp_arena_new(16 << 20);
    return arena == NULL;
}

static int teardown(void **state)
{
    (void)state;
    arena = hsp_arena_free(arena);
    return 0;
}

static void a_part_reads_back(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b, c;
    struct hsp_trace_part p = part_sample(), q;
    hsp_buf_init(&b, 1 << 20);
    hsp_buf_init(&c, 1 << 20);
    assert_ok(hsp_trace_part_encode(&p, &b, &err), &err);
    assert_ok(hsp_trace_part_decode(b.data, b.len, arena, &q, &err), &err);
    assert_true(q.base_ns == p.base_ns && q.first_step == 41 && q.n_steps == 2 && q.done == 2);
    assert_true(q.lost == 3 && q.error_ns == 4000 && q.n_labels == 3 && q.n_spans == 5);
    assert_string_equal(q.labels[1].name, "send-receive h.0");
    assert_true(q.labels[1].msgs[0].out && !q.labels[1].msgs[1].out);
    assert_int_equal(q.labels[1].msgs[1].peer, 2);
    assert_near(q.labels[0].flops[2], 1e6, 0);
    assert_true(q.spans[2].eval && q.spans[3].took_ns == 7000);
    assert_ok(hsp_trace_part_encode(&q, &c, &err), &err);
    assert_true(b.len == c.len && memcmp(b.data, c.data, b.len) == 0);
    hsp_buf_fini(&b);
    hsp_buf_fini(&c);
}

static void every_truncation_and_extension_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    struct hsp_trace_part p = part_sample(), q;
    hsp_buf_init(&b, 1 << 20);
    assert_ok(hsp_trace_part_encode(&p, &b, &err), &err);
    for (size_t n = 0; n < b.len; n++) {
        assert_status(hsp_trace_part_decode(b.data, n, arena, &q, &err), HSP_EPROTO);
    }
    hsp_buf_u8(&b, 0);
    assert_status(hsp_trace_part_decode(b.data, b.len, arena, &q, &err), HSP_EPROTO);
    hsp_buf_fini(&b);
}

/* The encoder may get a wrong part; a reader does not believe it. */
static void refuse(const struct hsp_trace_part *p, const char *what)
{
    struct hsp_err err = {0};
    struct hsp_buf b;
    struct hsp_trace_part q;
    hsp_buf_init(&b, 1 << 20);
    assert_ok(hsp_trace_part_encode(p, &b, &err), &err);
    (void)hsp_trace_part_decode(b.data, b.len, arena, &q, &err);
    assert_err(&err, HSP_EPROTO, what);
    hsp_buf_fini(&b);
}

static void what_misleads_is_refused(void **state)
{
    (void)state;
    struct hsp_trace_part good = part_sample(), p;
    struct hsp_part_label l[3];
    struct hsp_part_span s[5];
#define FRESH()                            \
    do {                                   \
        memcpy(l, good.labels, sizeof(l)); \
        memcpy(s, good.spans, sizeof(s));  \
        p = good;                          \
        p.labels = l;                      \
        p.spans = s;                       \
    } while (0)
    FRESH();
    l[0].queue = HSP_N_PART_QUEUES;
    refuse(&p, "trace of a device: malformed label");
    FRESH();
    l[0].cls = HSP_N_PART_CLASSES;
    refuse(&p, "trace of a device: malformed label");
    FRESH();
    l[0].phase = HSP_PART_NO_PHASE + 1;
    refuse(&p, "trace of a device: malformed label");
    FRESH();
    l[0].flops[4] = (double)NAN;
    refuse(&p, "trace of a device: malformed label");
    FRESH();
    s[1].label = 3;
    refuse(&p, "trace of a device: malformed span");
    FRESH();
    s[1].step = HSP_PART_STEPS;
    refuse(&p, "trace of a device: malformed span");
    FRESH();
    s[4].took_ns = UINT64_MAX;
    refuse(&p, "trace of a device: malformed span");
    FRESH();
    s[1].at_ns = 999; /* before the first one has ended */
    refuse(&p, "trace of a device: malformed order of spans");
    FRESH();
    p.done = 3;
    refuse(&p, "trace of a device: malformed head");
    FRESH();
    p.base_ns = -1;
    refuse(&p, "trace of a device: malformed head");
#undef FRESH
}

static void what_is_too_much_is_not_sent(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    struct hsp_trace_part p = part_sample();
    hsp_buf_init(&b, 40);
    assert_status(hsp_trace_part_encode(&p, &b, &err), HSP_ELIMIT);
    hsp_buf_fini(&b);
    hsp_buf_init(&b, 1 << 20);
    p.n_spans = HSP_PART_SPANS + 1;
    assert_status(hsp_trace_part_encode(&p, &b, &err), HSP_ELIMIT);
    hsp_buf_fini(&b);
}

HSP_TEST_FILE(trace_part_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_reads_back),
        cmocka_unit_test(every_truncation_and_extension_is_refused),
        cmocka_unit_test(what_misleads_is_refused),
        cmocka_unit_test(what_is_too_much_is_not_sent),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
