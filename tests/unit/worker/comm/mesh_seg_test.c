/* Tests segments of shared memory. A mapped segment of a peer is checked. On a host without memory
 * for segments the mesh uses sockets. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/worker/comm/mesh_world.h"
#include "worker/comm/mesh/mesh_links.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_seg.h"
#include "worker/comm/mesh/mesh_shm.h"
#include "worker/comm/mesh/mesh_start.h"

static void test_a_lane_is_shared_and_mirrored(void **state)
{
    (void)state;
    struct hsp_err err;
    struct seg s;
    struct seg_head *head = NULL;
    struct lane out, in;
    assert_ok(hsp_seg_new(3, &s, &err), &err);
    assert_ok(hsp_seg_lane(&s, 2, &out, &err), &err);
    assert_ok(hsp_seg_attach(s.fd, 3, 2, &head, &in, &err), &err);
    assert_int_equal(in.bytes, hsp_seg_lane_bytes(3));
    memcpy(out.data + out.bytes - 2, "abcd", 4); /* over the end */
    assert_memory_equal(in.data + in.bytes - 2, "abcd", 4);
    assert_memory_equal(in.data, "cd", 2);
    atomic_store(&out.head->head, 77);
    assert_int_equal(atomic_load(&in.head->head), 77);
    atomic_store(&head->bell, 5);
    assert_int_equal(atomic_load(&s.head->bell), 5);
    hsp_seg_detach(head);
    hsp_lane_unmap(&in);
    hsp_lane_unmap(&out);
    hsp_seg_free(&s);
}

/* A lane that its owner could truncate while it is mapped, or that is too short, is refused. */
static void test_only_sealed_segments_are_taken(void **state)
{
    (void)state;
    struct hsp_err err;
    struct seg s;
    struct seg_head *head = NULL;
    struct lane in;
    assert_ok(hsp_seg_new(2, &s, &err), &err);
    assert_int_equal(ftruncate(s.fd, 4096), -1); /* sealed */
    assert_status(hsp_seg_attach(s.fd, 3, 1, &head, &in, &err), HSP_EPROTO);
    assert_err(&err, HSP_EPROTO, "the received file is not a sealed segment of a mesh of 3");
    off_t size = lseek(s.fd, 0, SEEK_END);
    hsp_seg_free(&s);

    int fd = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, size), 0);
    assert_status(hsp_seg_attach(fd, 2, 1, &head, &in, &err), HSP_EPROTO);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
    assert_status(hsp_seg_attach(fd, 2, 1, &head, &in, &err), HSP_EIO);
    (void)close(fd);

    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_status(hsp_seg_attach(pipes[0], 2, 1, &head, &in, &err), HSP_EPROTO);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

static void test_one_descriptor_comes_with_a_byte(void **state)
{
    (void)state;
    int s[2], fd = -1;
    uint8_t byte = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s), 0);
    assert_int_equal(hsp_seg_recv(s[1], &byte, &fd), 0);
    assert_true(hsp_seg_send(s[0], 7, -1));
    assert_true(hsp_seg_send(s[0], 8, s[0]));
    assert_int_equal(hsp_seg_recv(s[1], &byte, &fd), 1);
    assert_int_equal(byte, 7);
    assert_int_equal(fd, -1);
    assert_int_equal(hsp_seg_recv(s[1], &byte, &fd), 1);
    assert_int_equal(byte, 8);
    assert_true(fd >= 0);
    (void)close(fd);
    (void)close(s[0]);
    assert_int_equal(hsp_seg_recv(s[1], &byte, &fd), -1);
    (void)close(s[1]);
}

/* Opens a mesh of two ranks on a host that gives no memory to memfds. */
static void connect_without_memory(enum hsp_mesh_transport t, struct hsp_err *err,
                                   struct hsp_comm **ret)
{
    struct rlimit old, none;
    struct mesh_world w;
    struct hsp_mesh_params p[2];
    struct hsp_err e;
    world_open(&w, 2, t == HSP_MESH_SHM ? WORLD_SHM : WORLD_UNIX);
    for (uint32_t i = 0; i < 2; i++) {
        hsp_mesh_listener_close(w.listener[i]);
        assert_ok(hsp_mesh_listener_open("127.0.0.1", NULL, t, &w.listener[i], &e), &e);
        w.peer[i].address = hsp_mesh_listener_address(w.listener[i]);
        p[i] = world_params(&w, i, 1);
    }
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    none = old;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    world_try(&w, p, ret, err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    world_close(&w);
}

static void test_without_memory_auto_goes_on(void **state)
{
    (void)state;
    struct hsp_comm *c[2];
    struct hsp_err err[2];
    int v = 5, got = 0;
    connect_without_memory(HSP_MESH_AUTO, err, c);
    assert_ok(err[0].code, &err[0]);
    assert_ok(err[1].code, &err[1]);
    struct hsp_mesh_links n = hsp_mesh_count_links(c[0]);
    assert_int_equal(n.local, 1);
    assert_int_equal(n.shm, 0);
    assert_ok(c[0]->ops->send(c[0], 1, 1, &v, sizeof v, err), err);
    assert_ok(c[1]->ops->recv(c[1], 0, 1, &got, sizeof got, err), err);
    assert_int_equal(got, 5);
    c[0]->ops->close(c[0]);
    c[1]->ops->close(c[1]);
}

static void test_without_memory_shm_says_so(void **state)
{
    (void)state;
    struct hsp_comm *c[2];
    struct hsp_err err[2];
    connect_without_memory(HSP_MESH_SHM, err, c);
    assert_int_equal(err[0].code, HSP_EIO);
    assert_non_null(strstr(err[0].msg, "cannot make shared memory for a mesh of 2"));
}

/* One of two ranks requires shared memory, the other rank has none to share. */
static void test_shm_is_not_replaced(void **state)
{
    (void)state;
    struct mesh_world w;
    struct hsp_comm *c[2];
    struct hsp_err err[2], e;
    struct hsp_mesh_params p[2];
    world_open(&w, 2, WORLD_UNIX);
    hsp_mesh_listener_close(w.listener[1]);
    assert_ok(hsp_mesh_listener_open("127.0.0.1", NULL, HSP_MESH_SHM, &w.listener[1], &e), &e);
    w.peer[1].address = hsp_mesh_listener_address(w.listener[1]);
    for (uint32_t i = 0; i < 2; i++) {
        p[i] = world_params(&w, i, 1);
    }
    world_try(&w, p, c, err);
    assert_int_equal(err[1].code, HSP_EPEER);
    assert_non_null(strstr(err[1].msg, "rank 0 (a/0) is on this host and shares no memory"));
    if (c[0] != NULL) {
        c[0]->ops->close(c[0]);
    }
    world_close(&w);
}

enum { MANY = 3, SOME = 300000 }; /* a lane holds them all */

struct receiver {
    struct hsp_comm *c;
    struct hsp_comm_req *last;
    atomic_bool done;
};

static void *receives(void *p)
{
    struct receiver *r = p;
    struct hsp_err err;
    enum hsp_status st = r->c->ops->wait(r->c, r->last, &err);
    atomic_store(&r->done, true);
    return st == HSP_OK ? NULL : p;
}

static bool waits(struct hsp_mesh *m)
{
    pthread_mutex_lock(&m->lock);
    bool yes = m->waits.waits;
    pthread_mutex_unlock(&m->lock);
    return yes;
}

/* A transfer of 30 GiB takes many seconds. The thread that moves the data gives the lock to other
 * callers between pieces: meanwhile the executor's control thread inspects the mesh and sends
 * heartbeats. */
static void test_who_moves_data_gives_way(void **state)
{
    (void)state;
    static uint8_t from[MANY][SOME], to[MANY][SOME];
    struct mesh_world w;
    struct hsp_comm *c[2];
    struct hsp_comm_req got[MANY], sent[MANY];
    struct hsp_err err;
    pthread_t receiver;
    void *failed = NULL;
    world_open(&w, 2, WORLD_SHM);
    world_connect(&w, 1, c);
    struct hsp_mesh *m = (struct hsp_mesh *)c[0];
    c[0]->ops->attend(c[0], true); /* its I/O thread takes nothing */
    c[1]->ops->attend(c[1], true);
    for (uint32_t i = 0; i < MANY; i++) {
        memset(from[i], (int)i + 1, SOME);
        assert_ok(c[0]->ops->irecv(c[0], 1, i, hsp_run(to[i], SOME), &got[i], &err), &err);
        assert_ok(c[1]->ops->isend(c[1], 0, i, hsp_run(from[i], SOME), &sent[i], &err), &err);
    }
    struct receiver r = {.c = c[0], .last = &got[MANY - 1]};
    atomic_store(&m->callers, 1); /* as in hsp_mesh_lock_soon */
    assert_int_equal(pthread_create(&receiver, NULL, receives, &r), 0);
    while (!waits(m) && !atomic_load(&r.done)) {
        (void)sched_yield();
    }
    pthread_mutex_lock(&m->lock);
    assert_false(atomic_load(&r.done));
    assert_true(m->link[1].dst != NULL && m->link[1].dst_have == 0); /* a header, then the caller */
    hsp_shm_await(m, 1); /* one piece, though more lies there */
    assert_true(m->link[1].dst_have > 0 && m->link[1].dst_have < SOME);
    pthread_mutex_unlock(&m->lock);
    atomic_store(&m->callers, 0);
    assert_int_equal(pthread_join(receiver, &failed), 0);
    assert_null(failed);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ok(c[1]->ops->wait(c[1], &sent[i], &err), &err);
        assert_ok(i < MANY - 1 ? c[0]->ops->wait(c[0], &got[i], &err) : HSP_OK, &err);
        assert_memory_equal(from[i], to[i], SOME);
    }
    for (uint32_t i = 0; i < 2; i++) {
        c[i]->ops->close(c[i]);
    }
    world_close(&w);
}

HSP_TEST_FILE(mesh_seg_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lane_is_shared_and_mirrored),
        cmocka_unit_test(test_only_sealed_segments_are_taken),
        cmocka_unit_test(test_one_descriptor_comes_with_a_byte),
        cmocka_unit_test(test_without_memory_auto_goes_on),
        cmocka_unit_test(test_without_memory_shm_says_so),
        cmocka_unit_test(test_shm_is_not_replaced),
        cmocka_unit_test(test_who_moves_data_gives_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
