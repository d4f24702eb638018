/* Tests `hspmdctl verify`, with a worker that only prints its arguments. */
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/ctl/command.h"
#include "tests/unit/daemon/ctl/ctl_room.h"

/* A worker that only prints its arguments. */
static void put_worker(struct room *r, int rc)
{
    char text[128], path[512];
    (void)snprintf(text, sizeof text, "#!/bin/sh\necho asked: $1\nexit %d\n", rc);
    ctl_room_put(r, "hspmd-worker", text);
    (void)snprintf(path, sizeof path, "%s/hspmd-worker", r->dir);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(setenv("PATH", r->dir, 1), 0);
}

static void verify_takes_jobs_and_plans(void **state)
{
    struct room *r = *state;
    char path[2048];
    (void)snprintf(path, sizeof path, "%s", getenv("PATH"));
    ctl_room_put(r, "job.yaml", ctl_tiny_job);
    ctl_room_put(r, "two.yaml", ctl_two_ranks);
    put_worker(r, 0);
    RUN(r, "verify", "@job.yaml", "--plan", "@two.yaml");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_string_equal(r->out, "asked: --verify\n");
    RUN(r, "verify", "@two.yaml"); /* alone: a model with heads for its shares */
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_non_null(strstr(r->msg, "the same templates at small extents: hidden "));
    ctl_room_put(
        r, "groups.yaml",
        "{apiVersion: hspmd/v1, kind: plan, ranks: 3, pipelines: [{sequences: 5, micro_batches: 2, "
        "stages: "
        "[{layers: 1, ranks: [0, 1], tensor: [13, 1]}, {layers: 2, ranks: [2]}]}]}");
    RUN(r, "verify", "@groups.yaml");
    assert_int_equal(r->rc, HSP_EXIT_OK);
    assert_non_null(strstr(r->msg, "of 14,"));
    put_worker(r, 1);
    RUN(r, "verify", "@two.yaml");
    assert_int_equal(r->rc, HSP_EXIT_FAILED);
    assert_int_equal(setenv("PATH", path, 1), 0);
}

static void verify_refuses_what_it_cannot_read(void **state)
{
    struct room *r = *state;
    char path[2048];
    (void)snprintf(path, sizeof path, "%s", getenv("PATH"));
    ctl_room_put(r, "two.yaml", ctl_two_ranks);
    RUN(r, "verify", "@two.yaml", "--plan", "@two.yaml");
    assert_int_equal(r->rc, HSP_EXIT_USAGE);
    ctl_room_put(
        r, "named.yaml",
        "{apiVersion: hspmd/v1, kind: plan, ranks: 1, parameters: [{name: wte.weight, home: 0}], "
        "pipelines: [{sequences: 2, micro_batches: 1, stages: [{layers: 1, ranks: [0]}]}]}");
    RUN(r, "verify", "@named.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    assert_non_null(strstr(r->msg, "give its job"));
    ctl_room_put(r, "pool.yaml", "{apiVersion: hspmd/v1, kind: pool, plans: []}");
    RUN(r, "verify", "@pool.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    assert_non_null(strstr(r->msg, "kind: a pool is for documents of a job: give the job, "));
    ctl_room_put(r, "none.yaml", "{apiVersion: hspmd/v1, kind: plan, ranks: 1}");
    RUN(r, "verify", "@none.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    ctl_room_put(
        r, "misfit.yaml",
        "{apiVersion: hspmd/v1, kind: plan, ranks: 2, pipelines: [{sequences: 2, micro_batches: 1, "
        "stages: "
        "[{layers: 1, ranks: [0]}]}]}");
    assert_int_equal(setenv("PATH", r->dir, 1), 0);
    RUN(r, "verify", "@misfit.yaml"); /* without a worker nothing is compiled */
    assert_int_equal(r->rc, HSP_EXIT_NO_OBJECT);
    assert_non_null(strstr(r->msg, "hspmd-worker is not on this machine: install it, or run "
                                   "this on a worker\n"));
    put_worker(r, 0);
    RUN(r, "verify", "@misfit.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    assert_non_null(strstr(r->msg, "rank 1 is in no stage"));
    assert_int_equal(setenv("PATH", path, 1), 0);
    RUN(r, "verify", "@missing.yaml");
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    RUN(r, "verify", "missing.yaml"); /* not the name of a job */
    assert_int_equal(r->rc, HSP_EXIT_CONFIG);
    assert_string_equal(r->msg, "hspmdctl: cannot open missing.yaml: No such file or directory\n");
}

HSP_TEST_FILE(ctl_verify_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(verify_takes_jobs_and_plans, ctl_room_setup,
                                        ctl_room_teardown),
        cmocka_unit_test_setup_teardown(verify_refuses_what_it_cannot_read, ctl_room_setup,
                                        ctl_room_teardown),
    };
    return cmocka_run_group_tests_name("ctl", tests, NULL, NULL);
}
