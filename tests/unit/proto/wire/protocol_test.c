/* Tests ranges of versions: the common ones of two programs, and which program is the older. */
#include "proto/wire/protocol.h"

#include "proto/base/size.h"
#include "tests/lib/testlib.h"

static void the_newest_that_both_speak(void **state)
{
    (void)state;
    static const struct {
        uint32_t oldest, newest;
        uint32_t common; /* 0: none */
        const char *refused;
    } c[] = {
        {14, 14, 14, NULL},
        {14, 15, 15, NULL},
        {14, 18, 18, NULL},
        {18, 19, 18, NULL},
        {1, 255, 18, NULL},
        {12, 14, 14, NULL},
        {13, 13, 0, "node a speaks protocol 13, hspmdd protocol 14 to 18: upgrade node a"},
        {11, 13, 0, "node a speaks protocol 11 to 13, hspmdd protocol 14 to 18: upgrade node a"},
        {0, 0, 0, "node a speaks protocol 0, hspmdd protocol 14 to 18: upgrade node a"},
        {19, 19, 0, "node a speaks protocol 19, hspmdd protocol 14 to 18: upgrade hspmdd"},
        {19, 20, 0, "node a speaks protocol 19 to 20, hspmdd protocol 14 to 18: upgrade hspmdd"},
        {UINT32_MAX, UINT32_MAX, 0,
         "node a speaks protocol 4294967295, hspmdd protocol 14 to 18: upgrade hspmdd"},
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(c); i++) {
        struct hsp_err err = {0};
        uint32_t common = 0;
        enum hsp_status st =
            hsp_protocol_agree(c[i].oldest, c[i].newest, "node a", "hspmdd", &common, &err);
        if (c[i].refused == NULL) {
            assert_ok(st, &err);
        } else {
            assert_err(&err, HSP_EVERSION, c[i].refused);
        }
        assert_int_equal(common, c[i].common);
    }
}

HSP_TEST_FILE(protocol_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_newest_that_both_speak)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
