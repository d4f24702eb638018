/* Tests that long messages of a mesh wait while another mesh of the process has bytes under way. */
#include <linux/sockios.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/unit/worker/comm/mesh_world.h"
#include "worker/comm/mesh/mesh_impl.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_stand.h"

#define MIB   ((size_t)1 << 20)
#define STUCK (40 * MIB) /* of two a peer takes one that it has not asked for (HSP_MESH_BUFFER) */
#define S     UINT64_C(1000000000)
#define HOUR  (3600 * S)

struct two {
    struct mesh_world w;
    struct hsp_comm *data[2], *state[2];
    uint8_t *stuck, *came;
    struct hsp_comm_req req[2];
};

static void open_two(struct two *t, enum world_kind kind)
{
    memset(t, 0, sizeof *t);
    world_open(&t->w, 2, kind);
    world_connect(&t->w, 1, t->data);
    world_connect(&t->w, 2, t->state);
    t->stuck = calloc(1, STUCK);
    t->came = calloc(1, STUCK);
    assert_true(t->stuck != NULL && t->came != NULL);
}

static void close_two(struct two *t)
{
    for (int r = 0; r < 2; r++) {
        t->state[r]->ops->close(t->state[r]);
        t->data[r]->ops->close(t->data[r]);
    }
    world_close(&t->w);
    free(t->stuck);
    free(t->came);
}

/* Sends gradients from rank 0 to rank 1, which has posted no receive. They stay under way until
 * end_gradients. */
static void begin_gradients(struct two *t)
{
    struct hsp_err err = {0};
    for (int k = 0; k < 2; k++) {
        assert_ok(
            t->data[0]->ops->isend(t->data[0], 1, 3, hsp_run(t->stuck, STUCK), &t->req[k], &err),
            &err);
    }
    const struct hsp_mesh *m = (const struct hsp_mesh *)t->data[0];
    (void)alarm(60);
    while (hsp_mesh_arrived(t->data[1]) < STUCK) {
        sched_yield();
    }
    for (int there = 0; there < (int)MIB;) {
        assert_int_equal(ioctl(m->link[1].fd, SIOCOUTQ, &there), 0);
    }
    (void)alarm(0);
}

static void end_gradients(struct two *t)
{
    struct hsp_err err = {0};
    for (int k = 0; k < 2; k++) {
        assert_ok(t->data[1]->ops->recv(t->data[1], 0, 3, t->came, STUCK, &err), &err);
        assert_ok(t->data[0]->ops->wait(t->data[0], &t->req[k], &err), &err);
    }
}

/* Sends @bytes of state to rank 1 and returns the seconds until they have arrived. @lift: ends the
 * waiting of long messages (yield with NULL) after the bytes were sent. */
static double copy(struct two *t, size_t bytes, bool lift)
{
    struct hsp_err err = {0};
    uint8_t *from = malloc(bytes), *to = calloc(1, bytes);
    assert_true(from != NULL && to != NULL);
    memset(from, 7, bytes);
    uint64_t begin = hsp_mesh_now_ns();
    assert_ok(t->state[0]->ops->send(t->state[0], 1, 5, from, bytes, &err), &err);
    if (lift) {
        t->state[0]->ops->yield(t->state[0], NULL, 0);
    }
    assert_ok(t->state[1]->ops->recv(t->state[1], 0, 5, to, bytes, &err), &err);
    double s = 1e-9 * (double)(hsp_mesh_now_ns() - begin);
    assert_memory_equal(from, to, bytes);
    free(from);
    free(to);
    return s;
}

/* A copy waits for the gradients of the other mesh, but not for ever. A copy of 4 MiB that is held
 * back for each of its pieces takes 16 s. */
static void copies_wait_for_gradients(void **state)
{
    (void)state;
    for (int kind = WORLD_TCP; kind <= WORLD_TLS; kind++) {
        struct two t;
        open_two(&t, (enum world_kind)kind);
        struct hsp_comm *c = t.state[0];
        c->ops->yield(c, t.data[0], HOUR);
        assert_true(copy(&t, 4 * MIB, false) < 8); /* the links are idle */
        begin_gradients(&t);
        c->ops->yield(c, t.data[0], S / 2);
        double s = copy(&t, 4 * MIB, false);
        assert_true(s > 0.4 && s < 8);
        c->ops->yield(c, t.data[0], HOUR);
        assert_true(copy(&t, 1000, false) < 8); /* short ones do not wait */
        assert_true(copy(&t, 4 * MIB, true) < 8);
        end_gradients(&t);
        c->ops->yield(c, t.data[0], HOUR);
        assert_true(copy(&t, 4 * MIB, false) < 8);
        c->ops->yield(c, NULL, 0);
        close_two(&t);
    }
}

HSP_TEST_FILE(mesh_yield_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_wait_for_gradients)};
    return cmocka_run_group_tests_name("meshyield", tests, NULL, NULL);
}
