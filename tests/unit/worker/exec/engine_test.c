#include <math.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/layout/box.h"
#include "tests/unit/worker/exec/engine_world.h"
#include "worker/exec/lone_update.h"
#include "worker/exec/state_init.h"
#include "worker/state/box_hash.h"

static void one_rank_learns(void **state)
{
    (void)state;
    struct ew_world *w = ew_run(&ew_spec, 20);
    const struct hsp_step_result *r = w->d[0].result;
    assert_near(r[0].vote.tokens, 12.0 * 16.0, 0.0);
    /* an untrained model of 24 words has the loss log(24) */
    assert_near(r[0].vote.loss, log(24.0), 0.1);
    assert_true(r[19].vote.loss < r[0].vote.loss - 0.05);
    assert_true(r[0].vote.eval_tokens > 0.0 && r[1].vote.eval_tokens <= 0.0);
    assert_true(r[19].vote.eval_tokens > 0.0); /* the last step validates */
    assert_near(r[19].vote.eval_loss, r[19].vote.loss, 0.3);
    assert_int_equal(w->d[0].sealed, 20);
    assert_int_equal(w->d[0].stable, 19);
    assert_true(r[5].seconds > 0.0 && r[5].compute_s > 0.0);
    /* on a device compute_s covers the time from vote to vote */
    assert_true(ew_on_device || r[5].compute_s <= r[5].seconds);
    ew_free(w);
}

static void ranks_agree_with_one(const struct tiny_spec *s)
{
    struct ew_world *one = ew_run(&ew_spec, 20), *many = ew_run(s, 20);
    for (uint32_t t = 0; t < 20; t++) {
        for (uint32_t k = 0; k < many->n; k++) {
            const struct hsp_vote *a = &one->d[0].result[t].vote, *b = &many->d[k].result[t].vote;
            assert_near(b->loss, a->loss, 1e-12);
            assert_near(b->norm, a->norm, 1e-12);
            assert_near(b->tokens, a->tokens, 0.0);
            /* not only near: the same bits on all ranks */
            assert_memory_equal(b, &many->d[0].result[t].vote, sizeof(*b));
        }
    }
    for (uint32_t k = 0; k < many->n; k++) {
        assert_true(ew_state_difference(&many->d[k], &one->d[0]) < 1e-12);
        assert_true(ew_state_difference(&many->d[k], &many->d[0]) <= 0.0);
        assert_true(many->d[k].result[3].comm_bytes > 0);
    }
    ew_free(one);
    ew_free(many);
}

static void two_ranks_all_reduce(void **state)
{
    (void)state;
    struct tiny_spec s = ew_spec;
    s.n_ranks = 2;
    s.n_micro = 2;
    s.seqs[0] = 7;
    s.seqs[1] = 5; /* micro-batches of 4 and 3 on rank 0, 3 and 2 on rank 1 */
    ranks_agree_with_one(&s);
}

static void three_ranks_scatter_and_gather(void **state)
{
    (void)state;
    struct tiny_spec s = ew_spec;
    s.n_ranks = 3; /* 8 columns are cut into 2, 3 and 3, so cells are strided and uneven */
    s.n_micro = 4;
    s.scatter = true;
    ranks_agree_with_one(&s);
}

static void single_precision_is_near(void **state)
{
    (void)state;
    struct tiny_spec s = ew_spec;
    s.dtype = HSP_F32;
    struct ew_world *a = ew_run(&ew_spec, 20), *b = ew_run(&s, 20);
    for (uint32_t t = 0; t < 20; t++) {
        assert_near(b->d[0].result[t].vote.loss, a->d[0].result[t].vote.loss, 1e-4);
    }
    ew_free(a);
    ew_free(b);
}

/* A step is a function of the version that it starts from: a step that is run again from the same
 * version gives the same bits. */
static void a_step_can_be_repeated(void **state)
{
    (void)state;
    struct ew_world *w = ew_run(&ew_spec, 6), *before = ew_run(&ew_spec, 5);
    struct hsp_step_result again;
    struct ew_device *d = &w->d[0];
    memcpy(d->state, before->d[0].state, (size_t)d->program->bind.state_bytes);
    ew_free(before);
    ew_copy_state(d, true);
    d->sealed = 5;
    assert_ok(hsp_engine_step(d->engine, 5, &again, &d->err), &d->err);
    /* Compares all fields before `noop`, seven doubles and the step, bit for bit; after `noop`
     * there is padding. */
    const struct hsp_vote *first = &d->result[5].vote;
    assert_memory_equal(&again.vote, first, offsetof(struct hsp_vote, noop));
    assert_int_equal(again.vote.noop, first->noop);
    assert_true(again.vote.armed == first->armed);
    ew_free(w);
}

static void armed_by_all_is_seen_by_all(void **state)
{
    (void)state;
    struct tiny_spec s = ew_spec;
    s.n_ranks = 2;
    struct ew_world *w = ew_new(&s, 12);
    w->d[0].arm_at = 3;
    w->d[1].arm_at = 7;
    ew_start(w);
    ew_join(w);
    assert_int_equal(w->d[0].switch_at, 7);
    assert_int_equal(w->d[1].switch_at, 7);
    ew_free(w);
}

/* A no-op step writes no byte of the state: on a CPU the state is mapped read-only. */
static void not_finite_steps_write_nothing(void **state)
{
    (void)state;
    struct tiny_spec s = ew_spec;
    s.n_ranks = 2;
    struct ew_world *w = ew_new(&s, 12);
    size_t bytes = (size_t)w->d[0].program->bind.state_bytes;
    void *first = malloc(bytes);
    assert_non_null(first);
    for (uint32_t k = 0; k < 2; k++) {
        struct hsp_cell_view v = hsp_state_view(w->d[k].program, 3, w->d[k].state);
        ((double *)v.data)[0] = (double)NAN; /* head.weight */
        ew_copy_state(&w->d[k], true);
        assert_true(ew_on_device || mprotect(w->d[k].place, bytes, PROT_READ) == 0);
    }
    memcpy(first, w->d[0].state, bytes);
    ew_go(w);
    ew_join(w);
    for (uint32_t k = 0; k < 2; k++) {
        struct ew_device *d = &w->d[k];
        assert_int_equal(d->status, HSP_ESTATE); /* the tenth in a row */
        assert_int_equal(d->done, HSP_MAX_NOOP_STEPS - 1);
        assert_non_null(strstr(d->err.msg, "training diverged"));
        assert_int_equal(d->result[8].n_noop, 9);
        assert_true(d->result[8].vote.noop);
        assert_int_equal(d->sealed, HSP_MAX_NOOP_STEPS - 1); /* a no-op step is sealed, too */
        assert_memory_equal(d->state, first, bytes);
    }
    free(first);
    ew_free(w);
}

/* Copies the state from the backend's memory, and computes the hash of each of its tensors. */
static void hash_state(struct ew_device *d, uint64_t *ret)
{
    const struct hsp_program *p = d->program;
    ew_copy_state(d, false);
    for (uint32_t k = 0; k < p->bind.n_state; k++) {
        const struct hsp_state_bind *s = &p->bind.state[k];
        struct hsp_cell_view v = hsp_state_view(p, k, d->state);
        const struct hsp_box_id id = {s->tensor_id, p->tpl.tensors[s->tensor].state_kind, v.dtype,
                                      s->full.hi};
        ret[k] = hsp_box_hash(&id, &v.box, &v.box, v.data);
    }
}

/* Computes the sums of each state tensor in the copy d->state. */
static void sum_state(const struct ew_device *d, struct hsp_word_sums *ret)
{
    const struct hsp_program *p = d->program;
    for (uint32_t k = 0; k < p->bind.n_state; k++) {
        struct hsp_cell_view v = hsp_state_view(p, k, d->state);
        ret[k] = (struct hsp_word_sums){0, 0};
        hsp_word_sums_add(&ret[k], v.data,
                          hsp_box_count(&v.box) * (int64_t)hsp_dtype_size(v.dtype) / 4, 0);
    }
}

/* Flips a bit of a state tensor in the backend's memory. */
static void flip(struct ew_device *d, uint32_t tensor)
{
    const struct hsp_program *p = d->program;
    uint8_t *at = (uint8_t *)d->place + p->bind.tensor[p->bind.state[tensor].tensor].offset;
    at = ew_on_device ? hsp_mockdev_byte(d->backend, at) : at;
    at[3] ^= 4;
}

/* An update reports the sums of the state that it has read and of the state that it has written.
 * After a bit of a tensor was flipped between two updates, the sums that the second update reads of
 * this tensor differ from those that the first has written. A no-op step reads nothing and reports
 * the sums of the last update. The first update hashes the version that was loaded. An update that
 * is asked to hash its result does so. */
static void what_an_update_reads_and_writes_is_summed(void **state)
{
    (void)state;
    enum { STEPS = 10, NOOP_1 = 0, NONE = 3, NOOP_2 = 6, HARM = 8, HASHED = 7 };
    struct ew_world *w = ew_new(&ew_spec, 0);
    struct ew_device *d = &w->d[0];
    static struct ew_seen seen[STEPS + 1];
    struct hsp_word_sums read[EW_STATES], wrote[EW_STATES];
    uint64_t hash[EW_STATES], first[EW_STATES];
    const uint32_t n = d->program->bind.n_state;
    d->seen = seen;
    d->skip = 1u << NOOP_1 | 1u << NOOP_2;
    d->unwatched = 1u << NONE;
    d->hashed = 1u << HASHED;
    ew_copy_state(d, true);
    hash_state(d, first);
    for (uint64_t t = 0; t < STEPS; t++) {
        struct hsp_step_result r;
        const struct ew_seen *x = &seen[t + 1];
        if (t == HARM) {
            flip(d, 1);
            ew_copy_state(d, false);
        }
        sum_state(d, read);
        assert_ok(hsp_engine_step(d->engine, t, &r, &d->err), &d->err);
        assert_int_equal(r.vote.noop, t == NOOP_1 || t == NOOP_2);
        assert_ok(hsp_engine_finish(d->engine, &d->err), &d->err);
        hash_state(d, hash);
        sum_state(d, wrote);
        assert_int_equal(x->noop, t == NOOP_1 || t == NOOP_2);
        assert_int_equal(x->loaded, t == NOOP_1);
        assert_int_equal(x->summed, t != NOOP_1 && t != NONE);
        assert_int_equal(x->compared, t > 1 && t != NONE && t != NONE + 1 && t != NOOP_2);
        assert_int_equal(x->first, t == 1);
        assert_int_equal(x->hashed, t == HASHED);
        for (uint32_t k = 0; k < n; k++) {
            assert_true(!x->summed || hsp_word_sums_equal(&x->sums[k].wrote, &wrote[k]));
            assert_true(!x->compared || hsp_word_sums_equal(&x->sums[k].read, &read[k]));
            bool same = hsp_word_sums_equal(&x->sums[k].read, &x->before[k].wrote);
            assert_true(!x->compared || same == !(t == HARM && k == 1));
            assert_true(!x->hashed || x->hash[k] == hash[k]);
            assert_true(!x->first || x->of_first[k] == first[k]);
        }
    }
    ew_free(w);
}

/* After an abort from another thread, at many different moments, the step returns on every rank. */
static void abort_ends_every_rank(void **state)
{
    (void)state;
    struct tiny_spec s = ew_spec;
    s.n_ranks = 3;
    s.n_micro = 4;
    for (uint64_t trial = 0; trial < 25; trial++) {
        struct ew_world *w = ew_new(&s, EW_STEPS);
        ew_start(w);
        usleep((useconds_t)(hsp_test_rand("abort", trial) % 5000));
        hsp_engine_abort(w->d[trial % 3].engine);
        for (uint32_t k = 0; k < 3; k++) {
            assert_int_equal(pthread_join(w->d[k].thread, NULL), 0);
            struct ew_device *d = &w->d[k];
            assert_true(!ew_on_device || d->status == HSP_OK ||
                        hsp_mockdev_tally(d->backend).pending == 0);
        }
        for (uint32_t k = 0; k < 3; k++) {
            struct ew_device *d = &w->d[k];
            if (d->status == HSP_OK) {
                assert_int_equal(d->done, EW_STEPS);
                continue;
            }
            if (d->status != HSP_EPEER && d->status != HSP_ECANCELED) {
                fail_msg("rank %u: %s", k, d->err.msg);
            }
            struct hsp_step_result r;
            assert_int_not_equal(hsp_engine_step(d->engine, d->done, &r, NULL), HSP_OK);
            assert_true(d->sealed == d->done || d->sealed == (uint64_t)d->done + 1);
            assert_int_equal(d->sealed, d->passed);
        }
        ew_free(w);
    }
}

/* One rank is aborted when its vote passes. Each rank whose vote has passed finishes the update,
 * and then has the state of an undisturbed run. */
static void a_passed_vote_is_kept(void **state)
{
    (void)state;
    struct tiny_spec s = ew_spec;
    s.n_ranks = 3;
    for (uint32_t k = 0; k < 3; k++) {
        struct ew_world *w = ew_new(&s, EW_STEPS), *whole = ew_run(&s, 5);
        w->d[k].abort_behind = 5;
        ew_start(w);
        ew_join(w);
        assert_int_equal(w->d[k].status, HSP_ECANCELED);
        assert_int_equal(w->d[k].passed, 5);
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(hsp_engine_is_lone(w->d[i].engine));
            assert_int_equal(w->d[i].sealed, w->d[i].passed);
        }
        assert_true(ew_state_difference(&w->d[k], &whole->d[k]) == 0.0);
        ew_free(w);
        ew_free(whole);
    }
}

/* the rank that is aborted in its vote; the vote does not wait for the norm */
static struct ew_device *votes;
static atomic_bool in_norm, aborted;
static atomic_int n_aborts;
static const struct hsp_comm_ops *loop_ops;
static enum hsp_status (*run_now)(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                  struct hsp_err *err);
static enum hsp_status (*copy_now)(struct hsp_backend *b, enum hsp_devq q, void *dst,
                                   const void *src, size_t bytes, struct hsp_err *err);

static void count_abort(struct hsp_comm *c)
{
    loop_ops->abort(c);
    atomic_fetch_add(&n_aborts, 1);
}

static enum hsp_status norm_beside_the_vote(struct hsp_backend *b, enum hsp_devq q,
                                            const struct hsp_call *c, struct hsp_err *err)
{
    atomic_store(&in_norm, c->op == HSP_OP_SQSUM);
    while (c->op == HSP_OP_SQSUM && !atomic_load(&aborted)) {
        (void)sched_yield();
    }
    return run_now(b, q, c, err);
}

/* Runs a copy. The copy of the numbers of the update is the last work of the vote: before it,
 * aborts the engine while the compute queue makes the norm, and waits until the norm is done or its
 * queue has failed. */
static enum hsp_status copy_behind_the_vote(struct hsp_backend *b, enum hsp_devq q, void *dst,
                                            const void *src, size_t bytes, struct hsp_err *err)
{
    struct hsp_engine_place first, now;
    if (q == HSP_DEVQ_COMM && votes->passed == 1 && !atomic_load(&aborted)) {
        while (!atomic_load(&in_norm)) {
            (void)sched_yield();
        }
        hsp_engine_abort(votes->engine);
        hsp_engine_where(votes->engine, &first);
        now = first;
        atomic_store(&aborted, true);
        while (now.given == first.given && atomic_load(&n_aborts) < 2) {
            (void)sched_yield();
            hsp_engine_where(votes->engine, &now);
        }
    }
    return copy_now(b, q, dst, src, bytes, err);
}

/* An abort comes during the vote, while the compute queue still makes the norm. The norm is
 * computed to its end, since the vote may still pass, and a lone engine finishes a step whose vote
 * has passed. */
static void an_abort_in_a_vote_ends_no_work_beside_it(void **state)
{
    (void)state;
    struct ew_world *w = ew_new(&ew_spec, EW_STEPS);
    struct ew_device *d = votes = &w->d[0];
    struct hsp_comm_ops ops = *d->comm->ops;
    struct hsp_sched_entry *vote = &d->program->bind.train.e[HSP_QUEUE_COMM][1];
    assert_int_equal(d->program->bind.train.n[HSP_QUEUE_COMM], 2);
    vote->wait--;
    loop_ops = d->comm->ops;
    ops.abort = count_abort;
    d->comm->ops = &ops;
    run_now = d->backend->run;
    d->backend->run = norm_beside_the_vote;
    copy_now = d->backend->copy;
    ew_copy_state(d, true);
    d->backend->copy = copy_behind_the_vote;
    ew_go(w);
    ew_join(w);
    assert_int_equal(d->status, HSP_ECANCELED);
    assert_int_equal(d->passed, 1);
    assert_int_equal(d->sealed, 1);
    d->comm->ops = loop_ops;
    ew_free(w);
}

/* The instructions after the vote decide whether an update needs another rank. */
static void an_update_that_needs_others(void **state)
{
    (void)state;
    struct tiny_spec s = ew_spec;
    s.n_ranks = 2;
    struct ew_world *w = ew_new(&s, 1);
    struct hsp_program p = *w->d[0].program;
    struct hsp_sched_entry e[16], computes[64];
    const struct hsp_sched old = *hsp_binding_train(&p.bind);
    uint32_t n = old.n[HSP_QUEUE_COMM], n_computes = old.n[HSP_QUEUE_COMPUTE], moves = 0;
    assert_true(n < 16 && n_computes < 63 && hsp_update_is_lone(&p));
    memcpy(e, old.e[HSP_QUEUE_COMM], n * sizeof *e);
    for (uint32_t k = 0; k < n; k++) {
        moves = p.tpl.instrs[p.tpl.pieces[e[k].piece].first].kind == HSP_I_RESHARD ? k : moves;
    }
    e[n] = e[moves];
    p.bind.train.e[HSP_QUEUE_COMM] = e;
    p.bind.train.n[HSP_QUEUE_COMM] = n + 1;
    assert_false(hsp_update_is_lone(&p));
    p.bind.train.n[HSP_QUEUE_COMM] = 0; /* a schedule without a vote */
    assert_false(hsp_update_is_lone(&p));
    p.bind.train = old;
    computes[0] = e[moves]; /* a Reshard before the vote, and then after it */
    memcpy(computes + 1, old.e[HSP_QUEUE_COMPUTE], n_computes * sizeof *computes);
    p.bind.train.e[HSP_QUEUE_COMPUTE] = computes;
    p.bind.train.n[HSP_QUEUE_COMPUTE] = n_computes + 1;
    computes[0].wait = 0;
    assert_true(hsp_update_is_lone(&p));
    computes[0].wait = n;
    assert_false(hsp_update_is_lone(&p));
    ew_free(w);
}

static void errors_name_the_place(void **state)
{
    (void)state;
    struct ew_world *w = ew_new(&ew_spec, 1);
    w->d[0].program->bind.data.vocab = 3; /* the text has words up to 23 */
    ew_start(w);
    ew_join(w);
    assert_int_equal(w->d[0].status, HSP_EINVAL);
    assert_non_null(strstr(w->d[0].err.msg, "step 0, micro-batch 0, instruction "));
    assert_non_null(strstr(w->d[0].err.msg, "outside the vocabulary of 3"));
    ew_free(w);
}

static unsigned n_warm;

static enum hsp_status count_warm(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                  const struct hsp_sum *s, struct hsp_err *err)
{
    (void)b;
    (void)q;
    (void)c;
    (void)s;
    (void)err;
    n_warm++;
    return HSP_OK;
}

static bool ends_soon(void *ctx)
{
    (void)ctx;
    return n_warm >= 2;
}

/* Warming up may take long, and the epoch may end meanwhile: then opening the engine stops. */
static void warming_up_can_be_stopped(void **state)
{
    (void)state;
    struct ew_world *w = ew_new(&ew_spec, 1);
    struct ew_device *d = &w->d[0];
    struct hsp_err err = {0};
    d->engine = hsp_engine_close(d->engine);
    struct hsp_engine_opts o = {.program = d->program,
                                .backend = d->backend,
                                .comm = d->comm,
                                .dataset = &w->text,
                                .state = d->place,
                                .hooks = d->hooks};
    o.hooks.ended = ends_soon;
    d->backend->warm = count_warm;
    assert_status(hsp_engine_open(&o, &d->engine, &err), HSP_ECANCELED);
    assert_in_range(n_warm, 2, 3); /* one instruction warms at most two products */
    d->engine = NULL;
    ew_free(w);
}

/* A device computes the same bits as a CPU: it does the same work, only later. */
static void device_equals_cpu(void **state)
{
    (void)state;
    for (int k = 0; k < 6; k++) {
        struct tiny_spec s = ew_spec;
        s.dtype = k % 2 ? HSP_F32 : HSP_F64;
        s.n_ranks = (uint32_t)k / 2 + 1;
        s.n_micro = 4;
        s.scatter = k >= 4;
        ew_skip = k % 2 ? 0x2a8 : 0; /* bits of the twelve steps that do not update */
        ew_on_device = false;
        struct ew_world *cpu = ew_run(&s, 12);
        ew_on_device = true;
        struct ew_world *dev = ew_run(&s, 12);
        for (uint32_t r = 0; r < s.n_ranks; r++) {
            const struct ew_device *c = &cpu->d[r], *d = &dev->d[r];
            struct hsp_mockdev_tally t = hsp_mockdev_tally(d->backend);
            for (uint32_t i = 0; i < 12; i++) {
                assert_memory_equal(&d->result[i].vote, &c->result[i].vote,
                                    sizeof(c->result[i].vote));
            }
            assert_memory_equal(d->state, c->state, (size_t)d->program->bind.state_bytes);
            assert_true(t.work > 100 && t.awaits > 12 && t.finishes > 0);
            if (d->backend->begin) {
                assert_true(t.recorded > 0 && t.replayed > 0 && t.compared > 0);
            }
        }
        assert_int_equal(cpu->d[0].result[7].vote.noop, k % 2);
        ew_free(cpu);
        ew_free(dev);
    }
    ew_skip = 0;
}

/* In each trial another piece of work of a device fails. Both ranks return, one with the device's
 * error, the other with a lost peer, and no work is under way on this peer any more. */
static void a_device_that_fails(void **state)
{
    (void)state;
    ew_on_device = true;
    for (uint64_t trial = 0; trial < 24; trial++) {
        struct tiny_spec s = ew_spec;
        s.n_ranks = 2;
        s.n_micro = 2;
        s.scatter = trial % 2;
        ew_fail_at = 2 + trial * trial; /* the first piece of work copies the state to the device */
        struct ew_world *w = ew_new(&s, EW_STEPS);
        struct ew_device *d = &w->d[0], *peer = &w->d[1];
        ew_start(w);
        for (uint32_t k = 0; k < 2; k++) {
            assert_int_equal(pthread_join(w->d[k].thread, NULL), 0);
        }
        assert_int_equal(hsp_mockdev_tally(peer->backend).pending, 0);
        struct hsp_err why = {0};
        assert_int_equal(d->status, HSP_EIO);
        assert_non_null(strstr(d->err.msg, "mockdev: the device failed"));
        assert_true(peer->status == HSP_EPEER || peer->status == HSP_ECANCELED);
        assert_true(peer->done <= d->done + 1);
        assert_true(hsp_mockdev_forgive(d->backend, &why));
        assert_false(hsp_mockdev_forgive(peer->backend, NULL));
        ew_free(w);
    }
}

/* A retired engine gives its memory back. The next engine then uses the queues, and may be in the
 * middle of a replay when the retired engine is closed. */
static void a_retired_engine_leaves_the_queues(void **state)
{
    (void)state;
    int replays = 0;
    ew_on_device = true;
    for (int k = 0; k < 3; k++) { /* two of three mock devices have replay */
        struct tiny_spec s = ew_spec;
        struct ew_world *w = ew_run(&s, 3);
        struct ew_device *d = &w->d[0];
        struct hsp_backend *b = d->backend;
        const struct hsp_digest key = {1, 2};
        bool replayed = false;
        hsp_engine_retire(d->engine);
        assert_int_equal(hsp_mockdev_tally(b).memory, (size_t)d->program->bind.state_bytes);
        for (int q = 0; b->begin != NULL && q < HSP_N_DEVQ; q++) {
            struct hsp_digest own = {key.hi, key.lo + (uint64_t)q};
            assert_ok(b->begin(b, (enum hsp_devq)q, &own, &replayed, NULL), NULL);
            assert_false(replayed);
        }
        d->engine = hsp_engine_close(d->engine);
        for (int q = 0; b->begin != NULL && q < HSP_N_DEVQ; q++) {
            assert_ok(b->end(b, (enum hsp_devq)q, NULL), NULL);
            replays++;
        }
        assert_false(hsp_mockdev_forgive(b, NULL));
        ew_free(w);
    }
    assert_int_equal(replays, 2 * HSP_N_DEVQ);
}

static void gradients_go_right_to_their_sums(void **state)
{
    (void)state;
    struct tiny_spec s = ew_spec;
    s.n_ranks = 2;
    s.n_micro = 4;
    ew_on_device = false;
    struct ew_world *apart = ew_run(&s, 12);
    ew_sums = true;
    atomic_store(&ew_n_sums, 0);
    atomic_store(&ew_n_begun, 0);
    struct ew_world *together = ew_run(&s, 12);
    ew_sums = false;
    assert_int_equal(atomic_load(&ew_n_begun), 2 * 12);
    assert_int_equal(atomic_load(&ew_n_sums), 2 * 12 * 3);
    for (uint32_t r = 0; r < s.n_ranks; r++) {
        assert_memory_equal(together->d[r].state, apart->d[r].state,
                            (size_t)apart->d[r].program->bind.state_bytes);
    }
    ew_free(apart);
    ew_free(together);
}

static void calls_say_what_the_job_computes_in(void **state)
{
    (void)state;
    struct tiny_spec s = ew_spec;
    s.dtype = HSP_F32;
    for (int k = 0; k < 2; k++) {
        ew_in_tf32 = k == 1;
        atomic_store(&ew_n_told, 0);
        ew_free(ew_run(&s, 2));
        assert_true(atomic_load(&ew_n_told) > 0);
    }
    ew_in_tf32 = false;
}

HSP_TEST_FILE(engine_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_learns),
        cmocka_unit_test(two_ranks_all_reduce),
        cmocka_unit_test(three_ranks_scatter_and_gather),
        cmocka_unit_test(single_precision_is_near),
        cmocka_unit_test(a_step_can_be_repeated),
        cmocka_unit_test(armed_by_all_is_seen_by_all),
        cmocka_unit_test(not_finite_steps_write_nothing),
        cmocka_unit_test(what_an_update_reads_and_writes_is_summed),
        cmocka_unit_test(abort_ends_every_rank),
        cmocka_unit_test(a_passed_vote_is_kept),
        cmocka_unit_test(an_update_that_needs_others),
        cmocka_unit_test(an_abort_in_a_vote_ends_no_work_beside_it),
        cmocka_unit_test(errors_name_the_place),
        cmocka_unit_test(warming_up_can_be_stopped),
        /* These tests choose CPU or device themselves. */
        cmocka_unit_test(gradients_go_right_to_their_sums),
        cmocka_unit_test(calls_say_what_the_job_computes_in),
        cmocka_unit_test(device_equals_cpu),
        cmocka_unit_test(a_device_that_fails),
        cmocka_unit_test(a_retired_engine_leaves_the_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Runs these tests on mock devices instead of CPUs. */
HSP_TEST_FILE(device_engine_test)
{
    ew_on_device = true;
    return hsp_test_run("engine_test");
}
