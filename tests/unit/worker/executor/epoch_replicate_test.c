/* Checks that a failure of a replication thread ends all waits for messages that will not come, and
 * checks copies and seals of damaged state. */
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/layout/box.h"
#include "tests/unit/worker/executor/epoch_members.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/executor/epoch_copies.h"
#include "worker/executor/epoch_replicate.h"
#include "worker/executor/epoch_report.h"
#include "worker/executor/epoch_train.h"
#include "worker/executor/replica_check.h"
#include "worker/state/box_hash.h"

/* A vote waits for the copies of its version. If the replication thread fails, the wait must
 * end. */
static void a_vote_does_not_wait_for_a_replica_holder_that_failed(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    (void)state;
    em_make_world(&w, 2);
    for (uint32_t r = 0; r < 2; r++) {
        struct em_member *m = &w.m[r];
        m->copy = (struct hsp_pkg_row){.from = 0, .to = 1, .box = w.gather[0].box};
        m->e.pkg.copies = (struct hsp_pkg_table){.n = 1, .row = &m->copy};
        m->e.no_more_versions = true; /* after this version */
    }
    hsp_segment_unseal(w.m[0].e.seg[EM_STEP % 2]);
    em_start(&w, em_keep);
    assert_int_equal(hsp_epoch_await_confirmed(&w.m[0].e, EM_STEP, &err), HSP_ENOENT);
    assert_string_equal(err.msg, "version 40 of wte.weight is not here as promised");
    em_join(&w);
    em_end_world(&w);
}

static void the_end_of_an_epoch_ends_the_waiting_first(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    (void)state;
    em_make_world(&w, 1);
    (void)hsp_err_set(&w.m[0].e.uncopied, HSP_ENOMEM, 0, "out of memory for copies");
    w.m[0].e.cancelled = true;
    assert_int_equal(hsp_epoch_await_confirmed(&w.m[0].e, EM_STEP, &err), HSP_ECANCELED);
    w.m[0].e.cancelled = false;
    assert_int_equal(hsp_epoch_await_confirmed(&w.m[0].e, EM_STEP, &err), HSP_ENOMEM);
    assert_string_equal(err.msg, "out of memory for copies");
    em_end_world(&w);
}

/* Rank 0 sends copies; rank 1, a replica holder, receives them. */
static void trains_or_keeps(struct em_member *m)
{
    if (m->p.rank == 0) {
        em_keep(m);
    } else {
        m->st = hsp_epoch_keep(&m->e, EM_STEP, &m->err);
    }
}

/* A replica holder learns of the first vote at once, although the next version is due only a
 * thousand steps later. */
static void a_replica_holder_hears_of_the_first_vote_at_once(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    const struct hsp_vote_record all[1] = {{.compute_s = 0.1}};
    const struct hsp_vote v = {.step = EM_STEP, .loss = 2.5};
    bool voted = false;
    (void)state;
    em_make_world(&w, 2);
    for (uint32_t r = 0; r < 2; r++) {
        struct hsp_m_prepare *p = &w.m[r].p;
        p->n_ranks = p->n_keepers = 1;
        p->steps = 10000;
        p->share_notes = true;
        w.m[r].env.state_dir = w.dir;
        w.m[r].e.due.newest = EM_STEP;
        assert_ok(hsp_replica_check_open(&w.m[r].e, &err), &err);
    }
    struct hsp_ex_epoch *first = &w.m[0].e, *replica_holder = &w.m[1].e;
    em_start(&w, trains_or_keeps);
    assert_ok(hsp_epoch_await_confirmed(first, EM_STEP, &err), &err);
    hsp_epoch_report_step(first, &v, all, 1, 0.25, 0);
    (void)pthread_mutex_lock(&first->lock);
    (void)pthread_cond_broadcast(&first->cond); /* as the update does */
    (void)pthread_mutex_unlock(&first->lock);
    while (!voted) {
        (void)usleep(100);
        (void)pthread_mutex_lock(&replica_holder->lock);
        voted = replica_holder->voted;
        (void)pthread_mutex_unlock(&replica_holder->lock);
    }
    (void)pthread_mutex_lock(&first->lock);
    first->no_more_versions = true;
    (void)pthread_cond_broadcast(&first->cond);
    (void)pthread_mutex_unlock(&first->lock);
    replica_holder->mesh[HSP_MESH_STATE]->ops->abort(replica_holder->mesh[HSP_MESH_STATE]);
    em_join(&w);
    em_end_world(&w);
}

static uint64_t sealed_next(const struct em_member *m)
{
    return hsp_segment_version(m->e.seg[(EM_STEP + 1) % 2]);
}

/* If one thread could not seal a version, no other thread seals it: the second thread has no state
 * any more with which it could check that version. */
static void what_one_thread_does_not_seal_no_other_seals(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    (void)state;
    em_make_world(&w, 1);
    em_make_next(&w, &w.m[0]);
    w.m[0].sums[0].read.sum ^= 1;
    for (int i = 0; i < 2; i++) {
        em_assert_refused(
            hsp_epoch_seal_written(&w.m[0].e, &err), &err, HSP_EDIGEST,
            "version 40 here is damaged: wte.weight (param) [0:6, 0:4] in main memory");
        assert_int_equal(sealed_next(&w.m[0]), HSP_NO_VERSION);
        assert_int_equal(w.m[0].e.sealed, EM_STEP);
    }
    em_end_world(&w);
}

/* If device memory is damaged after the copy to the segment, the sealed version stays. If it is
 * damaged before the copy, the segment was sealed with the damage, and the version is given up,
 * too. */
static void what_was_sealed_when_it_was_damaged_is_given_up(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    (void)state;
    for (int before = 0; before < 2; before++) {
        em_make_world(&w, 1);
        em_make_next(&w, &w.m[0]);
        struct hsp_word_sums *other = before != 0 ? &w.m[0].before[0].wrote : &w.m[0].sums[0].read;
        other->places += 3;
        em_assert_refused(
            hsp_epoch_seal_written(&w.m[0].e, &err), &err, HSP_EDIGEST,
            "version 40 here is damaged: wte.weight (param) [0:6, 0:4] in main memory");
        assert_int_equal(sealed_next(&w.m[0]), HSP_NO_VERSION);
        assert_int_equal(hsp_segment_version(w.m[0].e.seg[EM_STEP % 2]),
                         before != 0 ? HSP_NO_VERSION : EM_STEP);
        em_end_world(&w);
    }
}

/* Returns the versions that @m has given up: bit k stands for version EM_STEP + k. */
static unsigned given_up(struct em_member *m)
{
    struct hsp_chan c;
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_frame f;
    struct hsp_msg msg;
    unsigned bits = 0;
    hsp_chan_init(&c, dup(m->agent));
    (void)shutdown(m->chan.fd, SHUT_WR);
    while (hsp_chan_recv(&c, arena, &f, &msg, NULL) == HSP_OK) {
        bool is = msg.type == HSP_MSG_STATE_DAMAGED && msg.u.damaged.given_up_in != 0;
        bits |= is ? 1u << (msg.u.damaged.version - EM_STEP) : 0;
        hsp_frame_fini(&f);
    }
    hsp_chan_fini(&c);
    (void)hsp_arena_free(arena);
    return bits;
}

/* The update that reads a due version finds its damage before the seal of this version is made. */
static void what_is_being_sealed_damaged_is_given_up(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    (void)state;
    for (int before = 0; before < 2; before++) {
        em_make_world(&w, 1);
        struct em_member *m = &w.m[0];
        em_make_next(&w, m);
        m->before[0] = m->sums[0];
        m->sums[0].read = m->sums[0].wrote;
        struct hsp_word_sums *other = before != 0 ? &m->before[0].wrote : &m->sums[0].read;
        other->places += 3;
        atomic_store(&m->e.slots.taken, (EM_STEP + 1) * 2 + (EM_STEP + 1) % 2);
        m->e.number = 7;
        m->e.saved = EM_STEP + 1;
        m->e.dev.newest.version = EM_STEP + 2;
        em_assert_refused(
            hsp_epoch_check_update(&m->e, EM_STEP + 1, &err), &err, HSP_EDIGEST,
            "version 41 here is damaged: wte.weight (param) [0:6, 0:4] in main memory");
        assert_int_equal(given_up(m), before != 0 ? 2 | 4 : 4);
        em_end_world(&w);
    }
}

/* A version that is sealed only because of a loss was written without hashes, so it is compared
 * with the sums of its update. */
static void what_was_not_written_so_is_not_sealed(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    (void)state;
    em_make_world(&w, 1);
    em_make_next(&w, &w.m[0]);
    ((uint8_t *)w.m[0].e.dev.state)[5] ^= 8;
    em_assert_refused(hsp_epoch_seal_written(&w.m[0].e, &err), &err, HSP_EDIGEST,
                      "version 41 here is damaged: wte.weight (param) [0:6, 0:4]");
    assert_int_equal(sealed_next(&w.m[0]), HSP_NO_VERSION);
    assert_int_equal(hsp_segment_version(w.m[0].e.seg[EM_STEP % 2]), EM_STEP);
    em_end_world(&w);
}

/* A no-op step hashes the state that is in memory. If a bit has flipped since the last update, or
 * since the state was loaded, the hash is made of the damaged state. So a further comparison has to
 * find the damage. */
static void what_no_step_has_written_is_not_sealed_damaged(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    (void)state;
    for (int k = 0; k < 4; k++) {
        const bool loaded = k / 2 == 0, harm = k % 2 != 0;
        uint64_t hash[1], wrote[1];
        em_make_world(&w, 1);
        struct em_member *m = &w.m[0];
        em_make_next(&w, m);
        uint8_t *x = m->e.dev.state;
        const struct hsp_segment_row *r = hsp_segment_row_at(m->e.seg[EM_STEP % 2], 0);
        const struct hsp_box_id id = {r->tensor, r->kind, r->dtype, r->full};
        memcpy(x, hsp_segment_area(m->e.seg[EM_STEP % 2]), (size_t)hsp_box_count(&r->box) * 8);
        x[5] ^= harm ? 8 : 0;
        hash[0] = hsp_box_hash(&id, &r->box, &r->box, x);
        m->sums[0] = m->before[0];
        m->e.dev.wrote = wrote;
        m->e.prog.bind.n_state = 1;
        m->e.first = loaded ? EM_STEP : EM_STEP - 7;
        m->e.dev.newest = (struct hsp_written){.version = EM_STEP + 1,
                                               .noop = true,
                                               .loaded = loaded,
                                               .sums = loaded ? NULL : m->sums,
                                               .hash = hash};
        enum hsp_status st = hsp_epoch_seal_written(&m->e, &err);
        if (harm) {
            em_assert_refused(st, &err, HSP_EDIGEST,
                              "version 41 here is damaged: wte.weight (param) [0:6, 0:4]");
        } else {
            assert_ok(st, &err);
        }
        assert_int_equal(sealed_next(m), harm ? HSP_NO_VERSION : EM_STEP + 1);
        em_end_world(&w);
    }
}

static void what_is_made_of_a_version_that_is_gone_is_not_sealed(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        em_make_world(&w, 1);
        em_make_next(&w, &w.m[0]);
        if (gone) {
            hsp_segment_unseal(w.m[0].e.seg[EM_STEP % 2]); /* as if damage was found */
            em_assert_refused(hsp_epoch_seal_written(&w.m[0].e, &err), &err, HSP_EDIGEST,
                              "version 40 here is damaged");
        } else {
            assert_ok(hsp_epoch_seal_written(&w.m[0].e, &err), &err);
        }
        assert_int_equal(sealed_next(&w.m[0]), gone ? HSP_NO_VERSION : EM_STEP + 1);
        em_end_world(&w);
    }
}

static struct hsp_state_segment *at_copying; /* damaged while it is written; NULL: none */

void __wrap_hsp_region_copy(size_t elem, const struct hsp_box *region,
                            const struct hsp_box *src_box, const void *src,
                            const struct hsp_box *dst_box, void *dst);
void __real_hsp_region_copy(size_t elem, const struct hsp_box *region,
                            const struct hsp_box *src_box, const void *src,
                            const struct hsp_box *dst_box, void *dst);

void __wrap_hsp_region_copy(size_t elem, const struct hsp_box *region,
                            const struct hsp_box *src_box, const void *src,
                            const struct hsp_box *dst_box, void *dst)
{
    __real_hsp_region_copy(elem, region, src_box, src, dst_box, dst);
    if (at_copying != NULL && dst == hsp_segment_area(at_copying)) {
        ((uint8_t *)dst)[5] ^= 8;
    }
}

static void copy_version(struct em_member *m)
{
    m->st = hsp_epoch_copy_version(&m->e, EM_STEP, &m->err);
}

/* A copy is sealed with the hashes of the data as they arrived, so each reader finds a bit that
 * flips on the way into the segment. */
static void a_copy_damaged_as_it_is_written_does_not_verify(void **state)
{
    (void)state;
    for (int harm = 0; harm < 2; harm++) {
        struct em_world w;
        struct hsp_err err = {0};
        em_make_world(&w, 2);
        struct hsp_segment_key key = {.job = "t", .device = "n1/0", .owner = "n0/0", .epoch = 1};
        struct hsp_segment_row row = {.dtype = HSP_F64, .box = w.gather[0].box};
        uint64_t hash[1];
        struct hsp_epoch_copy copy = {.owner = 0, .hash = hash};
        memcpy(row.full, em_params[0].ext, sizeof row.full);
        assert_ok(hsp_segment_create(w.dir, &key, &(struct hsp_whose){0}, &row, 1, 256, NULL,
                                     &copy.seg[EM_STEP % 2], &err),
                  &err);
        w.m[1].e.copies = &copy;
        w.m[1].e.n_copies = 1;
        at_copying = harm == 1 ? copy.seg[EM_STEP % 2] : NULL;
        for (uint32_t r = 0; r < 2; r++) {
            w.m[r].copy = (struct hsp_pkg_row){.from = 0, .to = 1, .box = w.gather[0].box};
            w.m[r].e.pkg.copies = (struct hsp_pkg_table){.n = 1, .row = &w.m[r].copy};
        }
        em_start(&w, copy_version);
        em_join(&w);
        for (uint32_t r = 0; r < 2; r++) {
            assert_ok(w.m[r].st, &w.m[r].err);
        }
        at_copying = NULL;
        assert_true(hsp_segment_version(copy.seg[EM_STEP % 2]) == EM_STEP);
        assert_int_equal(hsp_segment_verify(copy.seg[EM_STEP % 2], &err),
                         harm == 1 ? HSP_EDIGEST : HSP_OK);
        (void)hsp_segment_close(copy.seg[EM_STEP % 2]);
        em_end_world(&w);
    }
}

static void settle(struct em_member *m)
{
    m->st = hsp_replica_check_settle(&m->e, EM_STEP + 1, &m->err);
}

/* Of two replicas that differ, the wrong one is that of the rank whose previous version is not
 * sealed any more. */
static void a_replica_made_of_a_version_that_is_gone_is_the_wrong_one(void **state)
{
    struct em_world w;
    struct hsp_pkg_row ring[1] = {{.from = 0, .to = 1, .box = hsp_box_whole(2, em_params[0].ext)}};
    struct hsp_comm *data[2];
    struct hsp_err err = {0};
    (void)state;
    em_make_equal(&w, 2);
    assert_ok(hsp_loop_open(2, data, &err), &err);
    for (uint32_t r = 0; r < 2; r++) {
        w.m[r].e.pkg.replicas = (struct hsp_pkg_table){1, ring};
        w.m[r].e.first = EM_STEP - 1;
        w.m[r].e.mesh[HSP_MESH_DATA] = data[r];
        em_make_next(&w, &w.m[r]);
    }
    em_damage(&w.m[0], EM_STEP + 1); /* as if computed wrongly */
    ((uint8_t *)w.m[0].e.dev.state)[3] ^= 1;
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(hsp_replica_check_seal(&w.m[r].e, EM_STEP + 1, NULL, &err), &err);
    }
    assert_true(hsp_replica_check_sum(&w.m[0].e, EM_STEP + 1) +
                    hsp_replica_check_sum(&w.m[1].e, EM_STEP + 1) !=
                0);
    hsp_segment_unseal(w.m[0].e.seg[EM_STEP % 2]);
    em_start(&w, settle);
    em_join(&w);
    for (uint32_t r = 0; r < 2; r++) {
        em_assert_refused(w.m[r].st, &w.m[r].err, HSP_EDIGEST,
                          "equal copies of version 41 differ: wrong at n0/0");
        assert_int_equal(sealed_next(&w.m[r]), HSP_NO_VERSION);
        data[r]->ops->close(data[r]);
    }
    em_end_world(&w);
}

static __typeof__(((struct hsp_backend *)NULL)->hash) hash_of_cpu;
static uint32_t rows_hashed;

static enum hsp_status count_rows(struct hsp_backend *b, enum hsp_devq q,
                                  const struct hsp_hash_call *c, uint32_t n, uint64_t *ret,
                                  struct hsp_err *err)
{
    rows_hashed += q == HSP_DEVQ_STATE ? n : 0;
    return hash_of_cpu(b, q, c, n, ret, err);
}

/* On a CPU the backend hashes for the seal, because its threads are idle while a vote waits for the
 * seal. */
static void a_seal_on_a_cpu_is_made_by_its_backend(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    (void)state;
    em_make_world(&w, 1);
    struct em_member *m = &w.m[0];
    em_make_next(&w, m);
    hash_of_cpu = m->cpu->hash;
    m->cpu->hash = count_rows;
    rows_hashed = 0;
    assert_ok(hsp_epoch_seal_written(&m->e, &err), &err);
    assert_int_equal(sealed_next(m), EM_STEP + 1);
    assert_ok(hsp_segment_verify(m->e.seg[(EM_STEP + 1) % 2], &err), &err);
    assert_int_equal(rows_hashed, hsp_segment_n(m->e.seg[(EM_STEP + 1) % 2]));
    em_end_world(&w);
}

static unsigned n_yields, n_lifts;
static const struct hsp_comm *yields_to;
static uint64_t yields_ns;

static void note_yield(struct hsp_comm *c, const struct hsp_comm *to, uint64_t ns)
{
    assert_ptr_not_equal(c, to);
    n_yields += to != NULL;
    n_lifts += to == NULL;
    yields_to = to;
    yields_ns = ns;
}

static void copy_again(struct hsp_ex_epoch *e)
{
    struct hsp_err err = {0};
    n_yields = n_lifts = 0;
    assert_ok(hsp_epoch_copy_version(e, EM_STEP, &err), &err);
}

/* If not every version is due, copies yield to steps for half of the time since the last copies,
 * unless a vote waits for the copies. */
static void copies_give_way_to_steps(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    (void)state;
    em_make_world(&w, 1);
    struct hsp_ex_epoch *e = &w.m[0].e;
    struct hsp_comm data = {0};
    struct hsp_comm_ops ops = *e->mesh[HSP_MESH_STATE]->ops;
    ops.yield = note_yield;
    e->mesh[HSP_MESH_STATE]->ops = &ops;
    e->mesh[HSP_MESH_DATA] = &data;
    copy_again(e); /* first copy: a vote waits for it */
    assert_int_equal(n_yields, 0);
    e->copied_ns -= 6000000000;
    copy_again(e);
    assert_true(n_yields == 1 && yields_to == &data);
    assert_true(yields_ns >= 3000000000 && yields_ns < 15000000000);
    e->copied_ns -= 600000000000;
    copy_again(e);
    assert_true(n_yields == 1 && yields_ns == 15000000000);
    e->confirmed = EM_STEP;
    assert_ok(hsp_epoch_await_saved(e, 0, &err), &err);
    assert_int_equal(n_lifts, 0);
    assert_ok(hsp_epoch_await_confirmed(e, EM_STEP, &err), &err);
    assert_int_equal(n_lifts, 1);
    for (int k = 0; k < 3; k++) {
        e->due.all = k == 0;
        e->armed = k == 1 ? 9 : 0;
        e->at.hurries = k == 2;
        copy_again(e);
        assert_int_equal(n_yields, 0);
    }
    em_end_world(&w);
}

HSP_TEST_FILE(epoch_replicate_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_give_way_to_steps),
        cmocka_unit_test(a_vote_does_not_wait_for_a_replica_holder_that_failed),
        cmocka_unit_test(a_replica_holder_hears_of_the_first_vote_at_once),
        cmocka_unit_test(the_end_of_an_epoch_ends_the_waiting_first),
        cmocka_unit_test(what_one_thread_does_not_seal_no_other_seals),
        cmocka_unit_test(what_no_step_has_written_is_not_sealed_damaged),
        cmocka_unit_test(what_is_being_sealed_damaged_is_given_up),
        cmocka_unit_test(what_is_made_of_a_version_that_is_gone_is_not_sealed),
        cmocka_unit_test(what_was_sealed_when_it_was_damaged_is_given_up),
        cmocka_unit_test(what_was_not_written_so_is_not_sealed),
        cmocka_unit_test(a_copy_damaged_as_it_is_written_does_not_verify),
        cmocka_unit_test(a_replica_made_of_a_version_that_is_gone_is_the_wrong_one),
        cmocka_unit_test(a_seal_on_a_cpu_is_made_by_its_backend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
