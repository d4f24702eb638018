/* A link between two threads: both ends get figures, of this world; an abort ends both. */
#include "tests/lib/testlib.h"

#include <pthread.h>
#include <unistd.h>

#include "worker/app/linktest.h"
#include "worker/comm/loop/loopcomm.h"

struct end {
    struct hsp_comm *comm;
    struct hsp_link_figures figures;
    enum hsp_status st;
    struct hsp_err err;
};

static void *run(void *arg)
{
    struct end *e = arg;
    e->st = hsp_link_test(e->comm, &e->figures, &e->err);
    return NULL;
}

static void both_ends_get_figures(void **state)
{
    (void)state;
    struct hsp_comm *comm[2];
    struct hsp_err err = {0};
    pthread_t t;
    assert_ok(hsp_loop_open(2, comm, &err), &err);
    struct end e[2] = {{.comm = comm[0]}, {.comm = comm[1]}};
    assert_int_equal(pthread_create(&t, NULL, run, &e[1]), 0);
    (void)run(&e[0]);
    assert_int_equal(pthread_join(t, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_ok(e[i].st, &e[i].err);
        assert_true(e[i].figures.latency_s > 1e-8 && e[i].figures.latency_s < 1);
        assert_true(e[i].figures.bytes_per_s > 1e6 && e[i].figures.bytes_per_s < 1e13);
        comm[i]->ops->close(comm[i]);
    }
}

static void an_abort_ends_it(void **state)
{
    (void)state;
    struct hsp_comm *comm[2];
    struct hsp_err err = {0};
    pthread_t t;
    assert_ok(hsp_loop_open(2, comm, &err), &err);
    struct end e = {.comm = comm[0]}; /* the other end never comes */
    assert_int_equal(pthread_create(&t, NULL, run, &e), 0);
    (void)usleep(20000);
    comm[0]->ops->abort(comm[0]);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_status(e.st, HSP_ECANCELED);
    comm[0]->ops->close(comm[0]);
    comm[1]->ops->close(comm[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_ends_get_figures),
                                       cmocka_unit_test(an_abort_ends_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
