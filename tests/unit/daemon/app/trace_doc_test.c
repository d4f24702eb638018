/* Tests the document that hspmdd makes of the trace parts of several devices: it is JSON, sorted by
 * time, on one clock, and whole, or it says why it is not. */
#include "tests/lib/testlib.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>

#include "daemon/app/docs/trace_doc.h"
#include "tests/unit/proto/wire/part_sample.h"

enum { N = 2, MAX = 16 << 20 };

struct world {
    struct hsp_arena *arena;
    struct hsp_trace_part part[N];
    struct hsp_buf blob[N], out;
    struct hsp_trace_device device[N];
    struct hsp_err err;
    cJSON *doc;
};

/* Makes two devices; the clock of the second is a second late, and uncertain by 50 us. */
static struct world *world_new(void)
{
    static struct hsp_part_msg to[] = {{7, 1, true}}, from[] = {{7, 0, false}};
    static struct hsp_part_label labels[N][3];
    struct world *w = calloc(1, sizeof(*w));
    w->arena = hsp_arena_new((size_t)64 << 20);
    hsp_buf_init(&w->out, MAX);
    for (int r = 0; r < N; r++) {
        w->part[r] = part_sample();
        memcpy(labels[r], w->part[r].labels, sizeof(labels[r]));
        labels[r][1].n_msgs = 1;
        labels[r][1].msgs = r == 0 ? to : from;
        w->part[r].labels = labels[r];
        hsp_buf_init(&w->blob[r], MAX);
        w->device[r] = (struct hsp_trace_device){.name = r == 0 ? "a/0" : "b \"x\"/1",
                                                 .pipeline = 0,
                                                 .stage = (uint32_t)r,
                                                 .told = true,
                                                 .error_us = r == 0 ? 20 : 50,
                                                 .offset_us = r == 0 ? 100 : 1000000};
    }
    w->part[1].base_ns -= 1000000000; /* the same moment but for 100 us of the first one */
    return w;
}

static enum hsp_status write(struct world *w, const char *note)
{
    for (int r = 0; r < N; r++) {
        hsp_buf_reset(&w->blob[r]);
        assert_ok(hsp_trace_part_encode(&w->part[r], &w->blob[r], &w->err), &w->err);
        w->device[r].blob = w->blob[r].data;
        w->device[r].len = w->device[r].len > 0 ? w->device[r].len : w->blob[r].len;
    }
    hsp_buf_reset(&w->out);
    struct hsp_trace_job t = {.job = "j", .epoch = 9, .n = N, .device = w->device, .note = note};
    enum hsp_status st = hsp_trace_write(&t, w->arena, &w->out, &w->err);
    cJSON_Delete(w->doc);
    w->doc = st == HSP_OK ? cJSON_Parse(hsp_buf_cstr(&w->out)) : NULL;
    assert_true(st != HSP_OK || w->doc != NULL);
    return st;
}

static void world_free(struct world *w)
{
    cJSON_Delete(w->doc);
    for (int r = 0; r < N; r++) {
        hsp_buf_fini(&w->blob[r]);
    }
    hsp_buf_fini(&w->out);
    (void)hsp_arena_free(w->arena);
    free(w);
}

static const cJSON *get(const cJSON *o, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(o, key);
}

static double number(const cJSON *o, const char *key)
{
    assert_true(cJSON_IsNumber(get(o, key)));
    return get(o, key)->valuedouble;
}

static const char *text(const cJSON *o, const char *key)
{
    return cJSON_GetStringValue(get(o, key));
}

static void all_is_on_one_clock_and_in_order(void **state)
{
    (void)state;
    struct world *w = world_new();
    assert_ok(write(w, ""), &w->err);
    const cJSON *o = get(w->doc, "otherData"), *e;
    double last = -1, end[N][3] = {{0}};
    uint32_t spans = 0, names = 0;
    cJSON_ArrayForEach(e, get(w->doc, "traceEvents"))
    {
        const char *ph = text(e, "ph");
        if (strcmp(ph, "M") == 0) {
            assert_true(spans == 0);
            names++;
            continue;
        }
        assert_true(number(e, "ts") >= last);
        last = number(e, "ts");
        if (strcmp(ph, "X") == 0) {
            double *to = &end[(int)number(e, "pid")][(int)number(e, "tid")];
            assert_true(number(e, "ts") >= *to);
            *to = number(e, "ts") + number(e, "dur");
            spans++;
        }
    }
    assert_true(spans == 10 && names == N * 5);
    assert_string_equal(text(o, "note"), "");
    assert_string_equal(text(o, "epoch"), "9");
    assert_near(number(o, "clock_error_us"), 54, 1e-9); /* its agent's 50 and its device's 4 */
    assert_near(number(o, "origin_us"), 5000000, 0);    /* of the second device, which is first */
    world_free(w);
}

static const cJSON *span(const struct world *w, int pid, int n)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, get(w->doc, "traceEvents"))
    {
        if (strcmp(text(e, "ph"), "X") == 0 && (int)number(e, "pid") == pid && n-- == 0) {
            return e;
        }
    }
    fail();
    return NULL;
}

static void a_span_says_what_it_is(void **state)
{
    (void)state;
    struct world *w = world_new();
    assert_ok(write(w, ""), &w->err);
    const cJSON *a = span(w, 0, 0), *b = span(w, 1, 0);
    assert_near(number(a, "ts"), 100, 1e-9);
    assert_near(number(b, "ts"), 0, 1e-9);
    assert_near(number(b, "dur"), 1, 1e-9);
    assert_string_equal(text(a, "name"), "linear h.0.q");
    assert_string_equal(text(a, "cat"), "forward");
    assert_near(number(get(b, "args"), "stage"), 1, 0);
    assert_near(number(get(b, "args"), "step"), 41, 0);
    assert_near(number(get(b, "args"), "flops"), 1e6, 0);
    const cJSON *move = span(w, 1, 3), *eval = span(w, 1, 4);
    assert_string_equal(text(move, "name"), "send-receive h.0");
    assert_near(number(move, "tid"), 1, 0);
    assert_near(cJSON_GetArrayItem(get(get(move, "args"), "from"), 0)->valuedouble, 0, 0);
    assert_int_equal(cJSON_GetArraySize(get(get(move, "args"), "to")), 0);
    assert_string_equal(text(eval, "cat"), "eval");
    assert_near(number(get(eval, "args"), "step"), 42, 0);
    world_free(w);
}

/* An arrow begins at the time and place where its message is sent, and ends where the message has
 * arrived; both ends have the same id.
 */
static void messages_are_arrows(void **state)
{
    (void)state;
    struct world *w = world_new();
    assert_ok(write(w, ""), &w->err);
    const cJSON *e;
    char id[2][64] = {"", ""};
    double at[2] = {0, 0};
    cJSON_ArrayForEach(e, get(w->doc, "traceEvents"))
    {
        int to = strcmp(text(e, "ph"), "f") == 0;
        if (to || strcmp(text(e, "ph"), "s") == 0) {
            assert_string_equal(id[to], "");
            (void)snprintf(id[to], sizeof(id[to]), "%s", text(e, "id"));
            at[to] = number(e, "ts");
            assert_near(number(e, "pid"), to, 0);
        }
    }
    assert_string_equal(id[0], id[1]);
    assert_true(id[0][0] != '\0');
    assert_near(at[0], 101.5, 1e-9);
    assert_near(at[1], 8.5, 1e-9); /* told as it was, though it arrives before it leaves */
    world_free(w);
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    struct world *w = world_new();
    w->device[1].told = false;
    assert_ok(write(w, "1 of 2 devices were not heard"), &w->err);
    const cJSON *o = get(w->doc, "otherData");
    const cJSON *d = cJSON_GetArrayItem(get(o, "devices"), 1);
    assert_string_equal(text(o, "note"), "1 of 2 devices were not heard");
    assert_true(cJSON_IsFalse(get(d, "told")));
    assert_string_equal(text(d, "device"), "b \"x\"/1");
    w->device[1].told = true;
    w->device[1].len = 7; /* cut */
    assert_ok(write(w, ""), &w->err);
    o = get(w->doc, "otherData");
    assert_string_equal(text(o, "note"), "the records of 1 of the devices cannot be read");
    assert_string_equal(text(cJSON_GetArrayItem(get(o, "devices"), 1), "fault"),
                        "trace of a device: malformed head");
    world_free(w);
    w = world_new();
    w->part[1].done = 1;
    assert_ok(write(w, ""), &w->err);
    assert_string_equal(text(get(w->doc, "otherData"), "note"), "1 of 2 steps: the epoch ended");
    world_free(w);
}

/* Its spans begin with the first of the others; nothing is claimed of how well. */
static void a_clock_that_is_not_known(void **state)
{
    (void)state;
    struct world *w = world_new();
    w->device[1].error_us = (double)INFINITY;
    w->part[1].base_ns = 77;
    assert_ok(write(w, ""), &w->err);
    const cJSON *o = get(w->doc, "otherData");
    assert_true(cJSON_IsNull(get(o, "clock_error_us")));
    assert_true(cJSON_IsNull(get(cJSON_GetArrayItem(get(o, "devices"), 1), "clock_error_us")));
    assert_near(number(span(w, 0, 0), "ts"), 0, 0);
    assert_near(number(span(w, 1, 0), "ts"), 0, 0);
    world_free(w);
}

/* Products and element-wise instructions, those of validation left out. */
static void kinds_are_summed(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct hsp_measured m;
    w->part[0].labels[1].queue = HSP_PART_COMPUTE;
    w->part[0].labels[1].cls = HSP_PART_ELEMENTS;
    w->part[0].labels[1].bytes = 500;
    w->part[0].spans[2].at_ns = 1500; /* now of the queue of the one behind it */
    assert_ok(write(w, ""), &w->err);
    assert_ok(hsp_trace_sums(w->blob[0].data, w->blob[0].len, w->arena, &m, &w->err), &w->err);
    assert_near(m.flops[2], 2e6, 0);
    assert_near(m.product.n, 2, 0);
    assert_near(m.product.seconds, 1.5e-6, 1e-15);
    assert_near(m.bytes, 500, 0);
    assert_near(m.elements.n, 2, 0);
    assert_near(m.elements.seconds, 7e-6, 1e-15);
    assert_status(hsp_trace_sums(w->blob[0].data, 9, w->arena, &m, &w->err), HSP_EPROTO);
    w->part[0].spans[2].at_ns = 9000;
    world_free(w);
}

static void too_much_is_refused(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct hsp_buf small;
    assert_ok(write(w, ""), &w->err);
    hsp_buf_init(&small, 2000);
    struct hsp_trace_job t = {.job = "j", .n = N, .device = w->device, .note = ""};
    assert_status(hsp_trace_write(&t, w->arena, &small, &w->err), HSP_ELIMIT);
    hsp_buf_fini(&small);
    struct hsp_part_msg *many = calloc(HSP_PART_MSGS, sizeof(*many));
    struct hsp_part_span *spans = calloc(300, sizeof(*spans));
    for (uint32_t k = 0; k < 300; k++) {
        spans[k].label = 1;
    }
    w->part[0].labels[1].msgs = many;
    w->part[0].labels[1].n_msgs = HSP_PART_MSGS;
    w->part[0].spans = spans;
    w->part[0].n_spans = 300;
    w->device[0].len = 0;
    assert_int_equal(write(w, ""), HSP_ELIMIT);
    assert_non_null(strstr(w->err.msg, "ask for fewer steps"));
    free(many);
    free(spans);
    world_free(w);
}

HSP_TEST_FILE(trace_doc_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_on_one_clock_and_in_order),
        cmocka_unit_test(a_span_says_what_it_is),
        cmocka_unit_test(messages_are_arrows),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(a_clock_that_is_not_known),
        cmocka_unit_test(kinds_are_summed),
        cmocka_unit_test(too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
