#include "daemon/app/places.h"

#include "tests/lib/testlib.h"

static void fit(uint32_t max_nodes, uint32_t have, const uint32_t want[HSP_NET_POOLS])
{
    uint32_t p[HSP_NET_POOLS];
    (void)hsp_places_wanted(max_nodes, p);
    hsp_places_fit(have, max_nodes, p);
    for (uint32_t i = 0; i < HSP_NET_POOLS; i++) {
        assert_int_equal(p[i], want[i]);
    }
}

static void descriptors_are_shared(void **state)
{
    (void)state;
    uint32_t p[HSP_NET_POOLS];
    assert_int_equal(hsp_places_wanted(256, p), 2304);
    assert_int_equal(hsp_places_wanted(16384, p), HSP_NET_MAX_PLACES);
    assert_true(p[HSP_POOL_AGENTS] > 16384);
    /* own, strangers, visitors, agents, admins, local */
    fit(256, 2304, (const uint32_t[]){0, 1024, 512, 576, 64, 128});
    fit(256, 1304, (const uint32_t[]){0, 256, 512, 344, 64, 128}); /* each node once, first */
    fit(256, 1050, (const uint32_t[]){0, 26, 512, 320, 64, 128});
    fit(256, 520, (const uint32_t[]){0, 16, 252, 157, 31, 63});
    fit(16384, 856, (const uint32_t[]){0, 16, 25, 805, 3, 6});
    fit(256, 96, (const uint32_t[]){0, 1, 47, 29, 5, 11});
    fit(1, 10, (const uint32_t[]){0, 1, 6, 1, 1, 1});
    assert_int_equal(hsp_places_wanted(256, p), 2304);
    assert_int_equal(hsp_places_parked(256, p),
                     288); /* a place for each of 256, at any number of parked agents */
    /* the limits of the claim of ten thousand agents */
    (void)hsp_places_wanted(10100, p);
    hsp_places_fit(11500 - 144, 10100, p);
    assert_true(p[HSP_POOL_AGENTS] > 10000 && p[HSP_POOL_STRANGERS] >= 256);
    assert_int_equal(hsp_places_parked(10100, p), p[HSP_POOL_AGENTS] - 10100);
    (void)hsp_places_wanted(16384, p); /* as many as there can be */
    hsp_places_fit(17000, 16384, p);
    assert_true(p[HSP_POOL_AGENTS] >= 16384 - 400 && hsp_places_parked(16384, p) > 0);
}

HSP_TEST_FILE(places_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(descriptors_are_shared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
