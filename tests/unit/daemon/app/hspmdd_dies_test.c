/* Tests that hspmdd shows its log when an assertion fails. Its main is called from here. */
#define main hspmdd_main
int main(int argc, char **argv);
#include "daemon/app/hspmdd.c"
#undef main

#include "tests/lib/dying.h"
#include "tests/lib/testlib.h"

static void *program(void *arg)
{
    char name[] = "hspmdd", init[] = "--init", option[] = "--config";
    char *argv[] = {name, init, option, arg, NULL};
    (void)hspmdd_main(4, argv);
    return NULL;
}

static void a_failed_assertion_shows_the_log(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), path[512];
    (void)snprintf(path, sizeof path, "%s/d.yaml", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fprintf(f,
                  "{listen: \"127.0.0.1:0\", socket: %s/d.sock, metrics_listen: \"\", state_dir: "
                  "%s/state}\n",
                  dir, dir);
    assert_int_equal(fclose(f), 0);
    hsp_test_dying(program, path, " is ready, agents reach it at unix:");
    hsp_test_rmdir(dir);
    free(dir);
}

HSP_TEST_FILE(hspmdd_dies_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_assertion_shows_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
