/* Tests the figures of a device: the line through times of products, figures of a device that works
 * late, and the line of JSON they travel in. */
#include "tests/lib/testlib.h"

#include <math.h>

#include "proto/op/bf16.h"
#include "tests/lib/mockdev.h"
#include "tests/unit/worker/probe/operands.h"
#include "worker/backend/call_check.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/probe/gpu_probe_reply.h"
#include "worker/probe/probe_device.h"
#include "worker/probe/probe_fill.h"
#include "worker/probe/probe_gemm.h"

static void times_on_a_line_are_found(void **state)
{
    (void)state;
    const double flops[3] = {2e9, 16e9, 128e9};
    double t[3], rate, fixed;
    for (int k = 0; k < 3; k++) {
        t[k] = 5e-6 + flops[k] / 4e14;
    }
    hsp_probe_fit(flops, t, 3, &rate, &fixed);
    assert_near(rate, 4e14, 1e9);
    assert_near(fixed, 5e-6, 1e-11);
    for (int k = 0; k < 3; k++) {
        t[k] = flops[k] / 4e14;
    }
    hsp_probe_fit(flops, t, 3, &rate, &fixed);
    assert_near(rate, 4e14, 1e9);
    assert_true(fixed >= 0 && fixed < 1e-11);
}

/* Larger products that are slower have no fixed part; those of one time reach the rate of the
 * largest. */
static void times_that_are_on_no_line(void **state)
{
    (void)state;
    const double flops[3] = {1e9, 2e9, 4e9}, slower[3] = {1e-3, 3e-3, 8e-3},
                 same[3] = {1e-3, 1e-3, 0.99e-3};
    double rate, fixed;
    hsp_probe_fit(flops, slower, 3, &rate, &fixed);
    assert_true(fixed <= 0 && rate > 0.5e12 && rate < 1e12);
    hsp_probe_fit(flops, same, 3, &rate, &fixed);
    assert_near(rate, 4e9 / 0.99e-3, 1);
    assert_true(fixed <= 0);
    hsp_probe_fit(flops, slower, 1, &rate, &fixed);
    assert_near(rate, 1e12, 1);
    assert_true(fixed <= 0);
}

static double errors(const double *flops, const double *t, double rate, double fixed)
{
    double e = 0;
    for (int k = 0; k < 4; k++) {
        e += pow((fixed + flops[k] / rate) / t[k] - 1, 2);
    }
    return e;
}

/* Relative errors: brute force over a grid around it finds no better line. */
static void no_line_is_better(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 50; s++) {
        double flops[4], t[4], rate, fixed;
        for (uint64_t k = 0; k < 4; k++) {
            double off = 0.8 + 0.4e-3 * (double)(hsp_test_rand("t", 4 * s + k) % 1000);
            flops[k] =
                1e8 * pow(8, (double)k) * (double)(1 + hsp_test_rand("flops", 4 * s + k) % 3);
            t[k] = (2e-5 + flops[k] / 1e13) * off;
        }
        hsp_probe_fit(flops, t, 4, &rate, &fixed);
        assert_true(rate > 0 && isfinite(rate) && fixed >= 0);
        for (int i = -20; i <= 20; i++) {
            for (int j = 0; j <= 40; j++) {
                double f = fixed > 0 ? fixed * 0.05 * j : 1e-7 * j;
                assert_true(errors(flops, t, rate * pow(1.02, i), f) >=
                            errors(flops, t, rate, fixed) - 1e-9);
            }
        }
    }
}

static void parts_are_of_this_world(const struct hsp_probe *p, bool tf32)
{
    for (int r = 0; r < HSP_N_RATES; r++) {
        for (int c = 0; c < HSP_N_GEMM_CLASSES; c++) {
            double x = p->gemm_part[r][c];
            if (r == HSP_RATE_TF32 && !tf32) {
                assert_true(x <= 0);
            } else {
                assert_true(x >= HSP_GEMM_PART_LEAST && x <= HSP_GEMM_PART_MOST);
            }
        }
        assert_near(p->gemm_part[r][HSP_GEMM_EVEN], r != HSP_RATE_TF32 || tf32, 0);
    }
}

/* Each measured product is of the class it is measured for, on memory that is there, of about
 * the same work. */
static void shapes_are_of_their_class(void **state)
{
    (void)state;
    uint8_t *mem = aligned_alloc(64, 3 * ((size_t)64 << 20)); /* never touched */
    assert_non_null(mem);
    static const enum hsp_dtype type[] = {HSP_F32, HSP_F64, HSP_BF16};
    for (int i = 0; i < 3 * 7 * HSP_N_GEMM_CLASSES * 7; i++) {
        enum hsp_gemm_class cls = (enum hsp_gemm_class)(i % HSP_N_GEMM_CLASSES);
        int64_t n = INT64_C(64) << i / HSP_N_GEMM_CLASSES % 7;
        size_t bytes = (size_t)1 << (20 + i / HSP_N_GEMM_CLASSES / 7 % 7);
        enum hsp_dtype t = type[i / HSP_N_GEMM_CLASSES / 49];
        uint8_t *const piece[3] = {mem, mem + bytes, mem + 2 * bytes};
        struct hsp_shape x;
        hsp_shape_make(cls, t, false, n, piece, bytes, &x);
        assert_int_equal(x.n, cls == HSP_GEMM_ATTENTION ? 2 : 1);
        double work = 2.0 * (double)n * (double)n * (double)n;
        assert_true(x.flops > 0 && x.flops <= 16 * fmax(work, 64 * 64 * 64));
        for (uint32_t k = 0; k < x.n; k++) {
            const struct hsp_call *c = &x.call[k].c;
            int64_t in[HSP_MAX_IN][HSP_MAX_RANK] = {{0}}, axis[HSP_MAX_AXES];
            enum hsp_dtype real = HSP_I32;
            struct hsp_axes ax;
            struct hsp_err err = {0};
            assert_ok(hsp_call_check(c, &real, &err), &err);
            assert_int_equal(real, t);
            for (uint8_t m = 0; m < c->n_in + c->n_out; m++) {
                const struct hsp_array *a = m < c->n_in ? &c->in[m] : &c->out[m - c->n_in];
                size_t size = hsp_dtype_size(a->dtype), at = 0;
                for (uint8_t d = 0; d < a->rank; d++) {
                    size *= (size_t)a->ext[d];
                    in[m < c->n_in ? m : 0][d] = m < c->n_in ? a->ext[d] : in[0][d];
                }
                at = (size_t)((uint8_t *)a->data - mem) % bytes;
                assert_true(at + size <= bytes && at % 64 == 0);
            }
            assert_ok(hsp_op_axes(c->op, c->at, 3, &ax, &err), &err);
            assert_ok(hsp_op_extents(c->op, c->at, &ax, in, axis, &err), &err);
            assert_int_equal(hsp_op_gemm_class(c->op, &ax, axis), cls);
        }
    }
    free(mem);
}

/* Of 1e9 operations in 3 ms, two calls of which 0.5 ms are always there: 5e11 a second, half of
 * 1e12. */
static void parts_are_without_the_fixed_part(void **state)
{
    (void)state;
    struct hsp_shape x = {.n = 2, .flops = 1e9};
    assert_near(hsp_shape_part(&x, 3e-3, 0.5e-3, 1e12), 0.5, 1e-12);
    assert_near(hsp_shape_part(&x, 3e-3, 5e-3, 1e12), 1e9 / 1.5e-3 / 1e12, 1e-12);
    assert_near(hsp_shape_part(&x, 1e-9, 0, 1e12), HSP_GEMM_PART_MOST, 0);
}

static void a_device_is_measured_by_its_own_clock(void **state)
{
    (void)state;
    struct hsp_mockdev_opts o = {.seed = 3, .max_delay_us = 20};
    struct hsp_backend *b = NULL;
    struct hsp_err err = {0};
    struct hsp_probe p;
    assert_ok(hsp_mockdev_open(&o, &b, &err), &err);
    assert_ok(hsp_probe_backend(b, (size_t)1 << 20, &p, &err), &err);
    assert_true(p.gemm_fp32_flops > 1e6 && p.gemm_fp32_flops < 1e14);
    assert_true(p.gemm_fp64_flops > 1e6 && p.gemm_bf16_flops > 1e6);
    assert_true(b->tf32 || p.gemm_tf32_flops <= 0);
    parts_are_of_this_world(&p, b->tf32);
    assert_true(p.mem_bytes_per_s > 1e6 && p.host_bytes_per_s > 1e6);
    assert_true(p.op_us > 1e-3 && p.gemm_us >= 0 && p.share >= 1);
    b->seconds = NULL;
    assert_status(hsp_probe_backend(b, (size_t)1 << 20, &p, &err), HSP_EUNSUPPORTED);
    b->close(b);
}

/* Products, shapes and memory, each of numbers of the type it reads. */
static void operands_are_numbers_of_their_type(void **state)
{
    (void)state;
    struct hsp_backend *cpu = NULL;
    struct hsp_err err = {0};
    struct hsp_probe p;
    assert_ok(hsp_backend_cpu_open(1, &cpu, &err), &err);
    struct operands *o = operands_open(cpu);
    o->base.tf32 = true;
    assert_ok(hsp_probe_backend(&o->base, (size_t)1 << 20, &p, &err), &err);
    assert_true(o->calls[HSP_F32] > 0 && o->calls[HSP_F64] > 0 && o->calls[HSP_BF16] > 0);
    if (o->wrong > 0) {
        fail_msg("%u calls: %s", o->wrong, o->what);
    }
    o->base.close(&o->base);
    free(o);
}

/* A device that reaches 1e12 a second for 0.4 s of each type of numbers, and then in every fifth
 * batch; else 0.8e12. The device computes nothing. */
struct hot {
    struct hsp_backend base; /* first */
    double clock_s, busy_s[HSP_N_DTYPES], mark_s[HSP_MAX_MARKS];
    uint64_t n_marks;
};

static enum hsp_status hot_run(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                               struct hsp_err *err)
{
    struct hot *h = (struct hot *)b;
    const struct hsp_array *x = &c->in[0], *w = &c->in[1];
    double s = 1e-6;
    (void)q;
    (void)err;
    if (c->op == HSP_OP_LINEAR) {
        double *busy = &h->busy_s[x->dtype];
        bool quick = *busy < 0.4 || h->n_marks / 2 % 5 == 0;
        s = 2.0 * (double)(x->ext[1] * x->ext[2] * w->ext[0]) / (quick ? 1e12 : 0.8e12);
        *busy += s;
    }
    h->clock_s += s;
    return HSP_OK;
}

static enum hsp_status hot_mark(struct hsp_backend *b, enum hsp_devq q, uint64_t *ret,
                                struct hsp_err *err)
{
    struct hot *h = (struct hot *)b;
    (void)q;
    (void)err;
    h->mark_s[++h->n_marks % HSP_MAX_MARKS] = h->clock_s;
    *ret = h->n_marks;
    return HSP_OK;
}

static enum hsp_status hot_seconds(struct hsp_backend *b, enum hsp_devq q, uint64_t from,
                                   uint64_t to, double *ret, struct hsp_err *err)
{
    const struct hot *h = (struct hot *)b;
    (void)q;
    (void)err;
    *ret = h->mark_s[to % HSP_MAX_MARKS] - h->mark_s[from % HSP_MAX_MARKS];
    return HSP_OK;
}

static void what_a_device_keeps_up_counts(void **state)
{
    (void)state;
    struct hsp_backend *cpu = NULL;
    struct hsp_err err = {0};
    struct hsp_probe p;
    struct hot *h = calloc(1, sizeof *h);
    assert_non_null(h);
    assert_ok(hsp_backend_cpu_open(1, &cpu, &err), &err);
    h->base = *cpu;
    h->base.run = hot_run;
    h->base.mark = hot_mark;
    h->base.seconds = hot_seconds;
    assert_ok(hsp_probe_backend(&h->base, (size_t)1 << 20, &p, &err), &err);
    assert_near(p.gemm_fp32_flops, 0.8e12, 1e9);
    assert_near(p.gemm_fp64_flops, 0.8e12, 1e9);
    assert_near(p.gemm_bf16_flops, 0.8e12, 1e9);
    cpu->close(cpu);
    free(h);
}

static double number(enum hsp_dtype t, const uint8_t *at, size_t i)
{
    double d;
    float f;
    uint16_t b;
    switch (t) {
    case HSP_F64: memcpy(&d, at + 8 * i, 8); return d;
    case HSP_BF16: memcpy(&b, at + 2 * i, 2); return (double)hsp_bf16_float(b);
    case HSP_F32:
    case HSP_I32: break;
    }
    memcpy(&f, at + 4 * i, 4);
    return (double)f;
}

/* Uniform: mean, variance, range; the same in any length; after a period again; others for another
 * array. */
static void numbers_are_uniform(void **state)
{
    (void)state;
    static const enum hsp_dtype type[] = {HSP_F32, HSP_F64, HSP_BF16};
    for (int i = 0; i < 3; i++) {
        size_t elem = hsp_dtype_size(type[i]), period = HSP_PROBE_PERIOD * elem;
        size_t bytes = 2 * period + 4096, up = 0;
        uint8_t *x = malloc(bytes), *y = malloc(bytes);
        double sum = 0, squares = 0, least = 2, most = -2;
        assert_non_null(x);
        assert_non_null(y);
        hsp_probe_numbers(type[i], 0, x, bytes);
        for (size_t k = 0; k < HSP_PROBE_PERIOD; k++) {
            double v = number(type[i], x, k);
            assert_true(isfinite(v) && (!(v < 0 || v > 0) || fabs(v) >= 1e-7));
            sum += v;
            squares += v * v;
            up += k > 0 && v > number(type[i], x, k - 1);
            least = fmin(least, v);
            most = fmax(most, v);
        }
        double n = (double)HSP_PROBE_PERIOD;
        assert_true(fabs(sum / n) < 0.003 && fabs(squares / n - 1.0 / 3) < 0.002);
        assert_true(least >= -1 && least < -0.999 && most <= 1 && most > 0.99);
        assert_true(fabs((double)up / n - 0.5) < 0.01);
        assert_memory_equal(x, x + period, period);
        assert_memory_equal(x, x + 2 * period, 4096);
        hsp_probe_numbers(type[i], 0, y, 8 * 1001);
        assert_memory_equal(x, y, 8 * 1001);
        hsp_probe_numbers(type[i], 1, y, period);
        assert_int_not_equal(memcmp(x, y, 64), 0);
        free(x);
        free(y);
    }
}

static const struct hsp_device_info INFO = {
    .name = "NVIDIA \"H\" 1",
    .pci = "0000:3b:00.0",
    .uuid = {0x12, 0xab, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255},
    .sm = 90,
    .n_sms = 132,
    .memory_bytes = 85899345920,
    .free_bytes = 80000000000,
    .bf16 = true};
static const struct hsp_probe CAN = {.gemm_fp32_flops = 5e13,
                                     .gemm_fp64_flops = 3e13,
                                     .gemm_tf32_flops = 4e14,
                                     .gemm_bf16_flops = 8e14,
                                     .gemm_part = {{1, 0.5}, {0}, {0}, {1, 0, 0, 0, 0.25}},
                                     .mem_bytes_per_s = 2.5e12,
                                     .op_us = 3.5,
                                     .gemm_us = 2.25,
                                     .host_bytes_per_s = 5e10,
                                     .share = 1};

static void an_answer_reads_back(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    struct hsp_device_info d;
    struct hsp_probe p;
    hsp_buf_init(&b, HSP_GPU_ANSWER_MAX);
    hsp_gpu_answer_print(&INFO, &CAN, &b);
    assert_non_null(
        strstr(hsp_buf_cstr(&b), "\"uuid\":\"GPU-12ab0304-0506-0708-090a-0b0c0d0e0fff\""));
    assert_ok(hsp_gpu_answer_parse((const char *)b.data, b.len, &d, &p, &err), &err);
    assert_string_equal(d.name, "NVIDIA ?H? 1");
    assert_string_equal(d.pci, INFO.pci);
    assert_memory_equal(d.uuid, INFO.uuid, 16);
    assert_true(d.sm == 90 && d.n_sms == 132 && d.bf16 && d.memory_bytes == INFO.memory_bytes);
    assert_true(d.free_bytes == INFO.free_bytes);
    assert_near(p.gemm_tf32_flops, 4e14, 1);
    assert_near(p.host_bytes_per_s, 5e10, 1);
    assert_near(p.gemm_us, 2.25, 1e-9);
    assert_memory_equal(p.gemm_part, CAN.gemm_part, sizeof p.gemm_part);
    for (size_t n = 0; n + 2 < b.len; n++) { /* cut anywhere */
        assert_status(hsp_gpu_answer_parse((const char *)b.data, n, &d, &p, &err), HSP_EPROTO);
    }
    hsp_buf_fini(&b);
}

static void figures_that_no_device_has(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    struct hsp_device_info d;
    struct hsp_probe p = CAN;
    hsp_buf_init(&b, HSP_GPU_ANSWER_MAX);
    p.mem_bytes_per_s = (double)NAN;
    hsp_gpu_answer_print(&INFO, &p, &b);
    assert_status(hsp_gpu_answer_parse((const char *)b.data, b.len, &d, &p, &err), HSP_EPROTO);
    hsp_buf_reset(&b);
    p = CAN;
    p.gemm_fp32_flops = 0;
    hsp_gpu_answer_print(&INFO, &p, &b);
    (void)hsp_gpu_answer_parse((const char *)b.data, b.len, &d, &p, &err);
    assert_err(&err, HSP_EPROTO, "no answer of a GPU: gemm_fp32_flops");
    static const double bad[] = {-1, 4.1, 1e300};
    for (int k = 0; k < 3; k++) {
        hsp_buf_reset(&b);
        p = CAN;
        p.gemm_part[3][4] = bad[k];
        hsp_gpu_answer_print(&INFO, &p, &b);
        (void)hsp_gpu_answer_parse((const char *)b.data, b.len, &d, &p, &err);
        assert_err(&err, HSP_EPROTO, "no answer of a GPU: gemm_parts");
    }
    hsp_buf_fini(&b);
}

HSP_TEST_FILE(probe_device_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_on_a_line_are_found),
        cmocka_unit_test(times_that_are_on_no_line),
        cmocka_unit_test(no_line_is_better),
        cmocka_unit_test(shapes_are_of_their_class),
        cmocka_unit_test(parts_are_without_the_fixed_part),
        cmocka_unit_test(a_device_is_measured_by_its_own_clock),
        cmocka_unit_test(operands_are_numbers_of_their_type),
        cmocka_unit_test(what_a_device_keeps_up_counts),
        cmocka_unit_test(numbers_are_uniform),
        cmocka_unit_test(an_answer_reads_back),
        cmocka_unit_test(figures_that_no_device_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
