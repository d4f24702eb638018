#include "tests/lib/testlib.h"
#include "worker/agent/gpu_health.h"

static struct hsp_gpu_health h;

static bool sign(enum hsp_gpu_sign_kind kind, uint64_t value, uint64_t now_ms)
{
    return hsp_gpu_health_sign(&h, &(struct hsp_gpu_sign){kind, value}, now_ms);
}

static void xids_have_meanings(void **state)
{
    static const struct {
        uint64_t xid;
        enum hsp_gpu_verdict want;
    } x[] = {{13, HSP_GPU_WARN},   {31, HSP_GPU_WARN},   {94, HSP_GPU_WARN},   {63, HSP_GPU_WARN},
             {48, HSP_GPU_CORDON}, {64, HSP_GPU_CORDON}, {74, HSP_GPU_CORDON}, {95, HSP_GPU_CORDON},
             {79, HSP_GPU_LOST},   {119, HSP_GPU_LOST},  {999, HSP_GPU_WARN}};
    const char *words;
    (void)state;
    for (size_t k = 0; k < sizeof x / sizeof x[0]; k++) {
        assert_int_equal(hsp_gpu_xid(x[k].xid, &words), x[k].want);
        assert_true(words[0] != '\0');
    }
    assert_string_equal(hsp_gpu_verdict_name(HSP_GPU_CORDON), "cordon");
}

static void verdicts_only_get_worse(void **state)
{
    (void)state;
    hsp_gpu_health_init(&h);
    assert_true(sign(HSP_SIGN_XID, 31, 5));
    assert_int_equal(h.verdict, HSP_GPU_WARN);
    assert_string_equal(h.why, "XID 31: page fault of a kernel");
    assert_true(sign(HSP_SIGN_XID, 48, 6));
    assert_int_equal(h.verdict, HSP_GPU_CORDON);
    assert_false(sign(HSP_SIGN_XID, 13, 7));
    assert_false(sign(HSP_SIGN_XID, 74, 7)); /* one reason will do */
    assert_string_equal(h.why, "XID 48: uncorrectable memory error");
    assert_true(sign(HSP_SIGN_GONE, 0, 8));
    assert_int_equal(h.verdict, HSP_GPU_LOST);
    assert_false(hsp_gpu_health_tick(&h, 8 + 2 * HSP_GPU_WARN_MS));
    assert_false(sign(HSP_SIGN_SLOWED, 0, 9 + 2 * HSP_GPU_WARN_MS));
    assert_int_equal(h.verdict, HSP_GPU_LOST);
}

static void a_warning_is_forgotten(void **state)
{
    (void)state;
    hsp_gpu_health_init(&h);
    assert_true(sign(HSP_SIGN_XID, 13, 1000));
    assert_true(sign(HSP_SIGN_XID, 43, 2000)); /* another one */
    assert_string_equal(h.why, "XID 43: a channel was stopped");
    assert_false(hsp_gpu_health_tick(&h, 1999 + HSP_GPU_WARN_MS));
    assert_true(hsp_gpu_health_tick(&h, 2000 + HSP_GPU_WARN_MS));
    assert_int_equal(h.verdict, HSP_GPU_FINE);
    assert_string_equal(h.why, "");
}

static void errors_of_before_do_not_count(void **state)
{
    (void)state;
    hsp_gpu_health_init(&h);
    assert_false(sign(HSP_SIGN_ECC_UNCORRECTED, 3, 0));
    assert_false(sign(HSP_SIGN_ECC_UNCORRECTED, 3, 10));
    assert_false(sign(HSP_SIGN_ECC_UNCORRECTED, 0, 20)); /* the driver was loaded anew */
    assert_true(sign(HSP_SIGN_ECC_UNCORRECTED, 2, 30));
    assert_int_equal(h.verdict, HSP_GPU_CORDON);
    assert_string_equal(h.why, "2 uncorrectable memory errors");
}

static void corrected_errors_count_in_bursts(void **state)
{
    (void)state;
    hsp_gpu_health_init(&h);
    assert_false(sign(HSP_SIGN_ECC_CORRECTED, 50000, 0));
    assert_false(sign(HSP_SIGN_ECC_CORRECTED, 50999, 1000));
    assert_false(sign(HSP_SIGN_ECC_CORRECTED, 51500, HSP_GPU_ECC_MS)); /* another hour */
    assert_false(sign(HSP_SIGN_ECC_CORRECTED, 52000, HSP_GPU_ECC_MS + 1));
    assert_true(sign(HSP_SIGN_ECC_CORRECTED, 52500, HSP_GPU_ECC_MS + 2));
    assert_int_equal(h.verdict, HSP_GPU_WARN);
    assert_string_equal(h.why, "1000 corrected memory errors within an hour");
}

static void rows_of_memory(void **state)
{
    (void)state;
    hsp_gpu_health_init(&h);
    assert_false(sign(HSP_SIGN_REMAP_PENDING, 0, 0));
    assert_true(sign(HSP_SIGN_REMAP_PENDING, 1, 0));
    assert_false(sign(HSP_SIGN_REMAP_PENDING, 1, 10)); /* said once */
    assert_int_equal(h.verdict, HSP_GPU_WARN);
    assert_true(sign(HSP_SIGN_REMAP_FAILED, 1, 20));
    assert_int_equal(h.verdict, HSP_GPU_CORDON);
}

static void heat_comes_and_goes(void **state)
{
    (void)state;
    hsp_gpu_health_init(&h);
    assert_false(sign(HSP_SIGN_SLOWED, 1, 1000));
    assert_false(sign(HSP_SIGN_SLOWED, 0, 5000));
    assert_false(sign(HSP_SIGN_SLOWED, 1, 6000));
    assert_false(hsp_gpu_health_tick(&h, 5999 + HSP_GPU_SLOW_MS));
    assert_true(sign(HSP_SIGN_SLOWED, 1, 6000 + HSP_GPU_SLOW_MS));
    assert_int_equal(h.verdict, HSP_GPU_WARN);
    assert_false(sign(HSP_SIGN_SLOWED, 1, 7000 + HSP_GPU_WARN_MS)); /* as long as it lasts */
    assert_true(sign(HSP_SIGN_SLOWED, 0, 8000 + HSP_GPU_WARN_MS));
    assert_int_equal(h.verdict, HSP_GPU_FINE);
    /* another warning is not taken away with the heat */
    assert_false(sign(HSP_SIGN_SLOWED, 1, UINT64_C(1) << 40));
    assert_true(hsp_gpu_health_tick(&h, (UINT64_C(1) << 40) + HSP_GPU_SLOW_MS));
    assert_true(sign(HSP_SIGN_XID, 13, (UINT64_C(1) << 40) + HSP_GPU_SLOW_MS));
    assert_false(sign(HSP_SIGN_SLOWED, 0, (UINT64_C(1) << 40) + HSP_GPU_SLOW_MS));
    assert_int_equal(h.verdict, HSP_GPU_WARN);
}

/* Not even after a day: memory that does it again is no accident. The GPU is tried again a day
 * later. */
static void state_that_went_bad_counts(void **state)
{
    (void)state;
    hsp_gpu_health_init(&h);
    assert_true(sign(HSP_SIGN_DAMAGE, 1, 0));
    assert_int_equal(h.verdict, HSP_GPU_WARN);
    assert_true(hsp_gpu_health_tick(&h, HSP_GPU_WARN_MS));
    assert_int_equal(h.verdict, HSP_GPU_FINE);
    assert_true(sign(HSP_SIGN_DAMAGE, 1, 2 * HSP_GPU_WARN_MS));
    assert_int_equal(h.verdict, HSP_GPU_CORDON);
    assert_string_equal(h.why,
                        "state went bad while a job ran, again; it is tried again after a day");
    assert_false(sign(HSP_SIGN_DAMAGE, 1, 3 * HSP_GPU_WARN_MS - 1));
    assert_false(hsp_gpu_health_tick(&h, 3 * HSP_GPU_WARN_MS - 1));
    assert_true(hsp_gpu_health_tick(&h, 3 * HSP_GPU_WARN_MS));
    assert_int_equal(h.verdict, HSP_GPU_FINE);
    assert_true(sign(HSP_SIGN_DAMAGE, 1, 3 * HSP_GPU_WARN_MS + 1));
    assert_int_equal(h.verdict, HSP_GPU_CORDON);
    /* later words of its driver stay */
    assert_true(sign(HSP_SIGN_XID, 48, 3 * HSP_GPU_WARN_MS + 2));
    assert_string_equal(h.why, "XID 48: uncorrectable memory error");
    assert_false(hsp_gpu_health_tick(&h, 5 * HSP_GPU_WARN_MS));
    assert_false(sign(HSP_SIGN_DAMAGE, 1, 5 * HSP_GPU_WARN_MS));
    assert_int_equal(h.verdict, HSP_GPU_CORDON);
}

HSP_TEST_FILE(gpu_health_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xids_have_meanings),
        cmocka_unit_test(verdicts_only_get_worse),
        cmocka_unit_test(a_warning_is_forgotten),
        cmocka_unit_test(errors_of_before_do_not_count),
        cmocka_unit_test(corrected_errors_count_in_bursts),
        cmocka_unit_test(rows_of_memory),
        cmocka_unit_test(heat_comes_and_goes),
        cmocka_unit_test(state_that_went_bad_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
