/* Tests that a rank that waits awake yields its processor only where the ranks of the host are more
 * than its processors. All kinds of links count: the ranks of these meshes are on one host. */
#include <sched.h>

#include "tests/unit/worker/comm/mesh_world.h"
#include "worker/comm/mesh/mesh_impl.h"

/* All ranks of a mesh of @n on this thread's processors say the same. */
static bool crowded(enum world_kind kind, uint32_t n)
{
    struct mesh_world w;
    struct hsp_comm *c[WORLD_MAX] = {NULL};
    uint32_t yes = 0;
    world_open(&w, n, kind);
    world_connect(&w, 1, c);
    for (uint32_t i = 0; i < n; i++) {
        yes += ((const struct hsp_mesh *)c[i])->crowded;
    }
    for (uint32_t i = 0; i < n; i++) {
        c[i]->ops->close(c[i]);
    }
    world_close(&w);
    assert_true(yes == 0 || yes == n);
    return yes > 0;
}

static void one_processor_for_two(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    for (enum world_kind k = WORLD_SHM; k <= WORLD_MIXED; k++) {
        assert_true(crowded(k, 2));
    }
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void a_processor_each(void **state)
{
    (void)state;
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    uint32_t n = (uint32_t)CPU_COUNT(&all);
    for (enum world_kind k = WORLD_SHM; k <= WORLD_MIXED; k++) {
        assert_false(n >= 2 && crowded(k, 2));
        assert_false(n < WORLD_MAX && !crowded(k, n + 1));
    }
}

HSP_TEST_FILE(mesh_crowd_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_processor_for_two),
        cmocka_unit_test(a_processor_each),
    };
    return cmocka_run_group_tests_name("meshcrowd", tests, NULL, NULL);
}
