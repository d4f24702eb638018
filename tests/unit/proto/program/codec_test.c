#include "tests/lib/testlib.h"

#include "proto/program/binding_codec.h"
#include "proto/program/program.h"
#include "proto/program/program_check.h"
#include "proto/program/program_dump.h"
#include "proto/program/program_file.h"
#include "proto/program/template_codec.h"
#include "tests/unit/worker/exec/tiny_program.h"

struct fixture {
    struct hsp_arena *arena;
    struct hsp_program_file file;
    struct hsp_buf bytes;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->arena = hsp_arena_new((size_t)64 << 20);
    f->file = tiny_file(&tiny_two, f->arena);
    hsp_buf_init(&f->bytes, HSP_MAX_PROGRAM_FILE_BYTES);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    hsp_buf_fini(&f->bytes);
    hsp_arena_free(f->arena);
    free(f);
    return 0;
}

static void tiny_is_valid(void **state)
{
    struct fixture *f = *state;
    struct hsp_err err = {0};
    for (uint32_t k = 0; k < 2; k++) {
        assert_ok(hsp_program_check(&f->file.programs[k], &err), &err);
    }
}

static void file_round_trip(void **state)
{
    struct fixture *f = *state;
    struct hsp_err err = {0};
    struct hsp_program_file g;
    struct hsp_buf again;
    f->file.programs[1].bind.hyper.tf32 = true;
    assert_int_equal(hsp_program_file_encode(&f->file, &f->bytes), HSP_OK);
    assert_ok(hsp_program_file_decode(f->bytes.data, f->bytes.len, f->arena, &g, &err), &err);
    assert_int_equal(g.n, 2);
    assert_int_equal(g.n_ref, 1);
    assert_string_equal(g.data_path, "/tmp/text");
    assert_string_equal(g.out_dir, "");
    assert_true(!g.programs[0].bind.hyper.tf32 && g.programs[1].bind.hyper.tf32);
    hsp_buf_init(&again, HSP_MAX_PROGRAM_FILE_BYTES);
    assert_int_equal(hsp_program_file_encode(&g, &again), HSP_OK);
    assert_int_equal(again.len, f->bytes.len);
    assert_memory_equal(again.data, f->bytes.data, again.len);
    assert_true(hsp_digest_equal(g.programs[1].tpl.digest, f->file.programs[1].tpl.digest));
    struct hsp_buf a, b;
    hsp_buf_init(&a, 1 << 20);
    hsp_buf_init(&b, 1 << 20);
    hsp_program_dump(&g.programs[0], &a);
    hsp_program_dump(&f->file.programs[0], &b);
    assert_string_equal(hsp_buf_cstr(&a), hsp_buf_cstr(&b));
    assert_non_null(strstr(hsp_buf_cstr(&a), "reduce-scatter"));
    assert_null(strstr(hsp_buf_cstr(&a), "products in tf32"));
    hsp_program_dump(&g.programs[1], &a);
    assert_non_null(strstr(hsp_buf_cstr(&a), "products in tf32"));
    hsp_buf_fini(&a);
    hsp_buf_fini(&b);
    hsp_buf_fini(&again);
}

/* Makes programs of two ranks in which two consecutive all-reduces are in one bucket. Returns the
 * Reshards of rank 0. */
static struct hsp_reshard_bind *sums(struct fixture *f)
{
    struct tiny_spec s = tiny_two;
    s.scatter = false;
    f->file = tiny_file(&s, f->arena);
    for (uint32_t r = 0; r < 2; r++) {
        struct hsp_binding *b = &f->file.programs[r].bind;
        b->buckets = true;
        b->reshard[0].bucket = b->reshard[1].bucket = 1;
    }
    return f->file.programs[0].bind.reshard;
}

/* Copies the train schedule of a program and cuts its second compute entry, a forward pass of a
 * micro-batch, in two parts. Returns the first part. */
static struct hsp_sched_entry *parts(struct fixture *f, struct hsp_program *p)
{
    struct hsp_sched *e = &p->bind.early;
    const struct hsp_sched *t = &p->bind.train;
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        e->n[q] = t->n[q] + (q == HSP_QUEUE_COMPUTE);
        e->e[q] = hsp_arena_array(f->arena, e->n[q], sizeof *e->e[q]);
        for (uint32_t k = 0; k < t->n[q]; k++) {
            bool behind = q == HSP_QUEUE_COMPUTE && k > 1;
            e->e[q][k + behind] = t->e[q][k];
            e->e[q][k + behind].wait += q == HSP_QUEUE_COMM && t->e[q][k].wait > 1;
        }
    }
    struct hsp_sched_entry *one = &e->e[HSP_QUEUE_COMPUTE][1];
    one[1] = one[0];
    one[0].n = one[1].first = 3;
    one[1].n = p->tpl.pieces[one->piece].n - 3;
    return one;
}

static void parts_are_checked(void **state)
{
    struct fixture *f = *state;
    struct hsp_err err = {0};
    for (int k = 0; k < 8; k++) {
        struct hsp_reshard_bind *r = sums(f);
        struct hsp_program *p = &f->file.programs[0];
        struct hsp_sched_entry *one = parts(f, p);
        struct hsp_sched_entry *sum = p->bind.early.e[HSP_QUEUE_COMM];
        sum[0].n = 2;
        assert_ok(hsp_program_check(p, &err), &err);
        r[1].bucket = 0;
        switch (k) {
        case 0: one[1].n++; break; /* beyond its piece */
        case 1: one[1].first++; break;
        case 2: one[1].micro++; break;
        case 3: one[0].first = 1; break;
        case 4: one[0].n = UINT32_MAX; break;
        case 5: one[1].n = one[1].first = 0; break;             /* a whole one behind a part */
        case 6: r[1].bucket = 1, sum[0].n = 1; break;           /* a part of a bucket */
        default: p->bind.early.n[HSP_QUEUE_COMPUTE] = 2; break; /* half of a piece is all */
        }
        assert_int_not_equal(hsp_program_check(p, &err), HSP_OK);
    }
}

static void buckets_round_trip(void **state)
{
    struct fixture *f = *state;
    struct hsp_err err = {0};
    struct hsp_program_file g;
    struct hsp_buf text;
    (void)sums(f);
    (void)parts(f, &f->file.programs[0]);
    assert_int_equal(hsp_program_file_encode(&f->file, &f->bytes), HSP_OK);
    assert_ok(hsp_program_file_decode(f->bytes.data, f->bytes.len, f->arena, &g, &err), &err);
    assert_ptr_equal(hsp_binding_train(&g.programs[0].bind), &g.programs[0].bind.early);
    assert_ptr_equal(hsp_binding_train(&g.programs[1].bind), &g.programs[1].bind.train);
    assert_memory_equal(g.programs[0].bind.early.e[0], f->file.programs[0].bind.early.e[0],
                        g.programs[0].bind.early.n[0] * sizeof(struct hsp_sched_entry));
    assert_true(g.programs[0].bind.buckets && g.programs[0].bind.reshard[1].bucket == 1);
    assert_false(g.ref->bind.buckets);
    hsp_buf_init(&text, 1 << 20);
    hsp_program_dump(&g.programs[0], &text);
    assert_non_null(strstr(hsp_buf_cstr(&text), "bucket 1"));
    hsp_buf_fini(&text);
}

/* A binding without buckets is encoded as before buckets existed, so older programs can read it. */
static void without_buckets_the_form_is_the_old_one(void **state)
{
    struct fixture *f = *state;
    struct hsp_err err = {0};
    struct hsp_buf b[2];
    (void)sums(f);
    struct hsp_program *p = &f->file.programs[0];
    for (int k = 0; k < 2; k++) {
        hsp_buf_init(&b[k], 1 << 20);
        p->bind.buckets = k == 0;
        assert_int_equal(hsp_binding_encode(&p->tpl, &p->bind, &b[k]), HSP_OK);
        assert_int_equal(b[k].data[4], k == 0 ? 7 : 6); /* the version behind the magic */
    }
    assert_int_equal(b[0].len, b[1].len + 4 * sizeof(uint32_t)); /* two empty queues, too */
    struct hsp_binding back;
    assert_ok(hsp_binding_decode(b[1].data, b[1].len, &p->tpl, f->arena, &back, &err), &err);
    assert_false(back.buckets);
    assert_int_equal(back.reshard[0].bucket, 0);
    b[1].data[4] = 8;
    assert_status(hsp_binding_decode(b[1].data, b[1].len, &p->tpl, f->arena, &back, &err),
                  HSP_EPARSE);
    hsp_buf_fini(&b[0]);
    hsp_buf_fini(&b[1]);
}

static void equal_structure_equal_digest(void **state)
{
    struct fixture *f = *state;
    struct tiny_spec s = tiny_two;
    s.global_batch = 8; /* other bounds, same template */
    struct hsp_program *p = tiny_programs(&s, f->arena);
    assert_true(hsp_digest_equal(p[0].tpl.digest, f->file.programs[0].tpl.digest));
    assert_false(hsp_digest_equal(p[0].tpl.digest, p[1].tpl.digest)); /* other owner */
}

static void every_truncation_is_refused(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(hsp_program_file_encode(&f->file, &f->bytes), HSP_OK);
    for (size_t n = 0; n < f->bytes.len; n += n < 400 ? 1 : 37) {
        struct hsp_arena *a = hsp_arena_new((size_t)16 << 20);
        struct hsp_program_file g = {.n = 99};
        uint8_t *copy = malloc(n ? n : 1); /* exact size: an overrun shows under the sanitizer */
        memcpy(copy, f->bytes.data, n);
        assert_int_not_equal(hsp_program_file_decode(copy, n, a, &g, NULL), HSP_OK);
        assert_int_equal(g.n, 99);
        free(copy);
        hsp_arena_free(a);
    }
}

/* A flipped byte gives an error or another valid program; it never makes an invalid one pass. */
static void flipped_bytes_never_pass_unchecked(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(hsp_program_file_encode(&f->file, &f->bytes), HSP_OK);
    uint32_t refused = 0;
    for (uint32_t k = 0; k < 3000; k++) {
        size_t at = hsp_test_rand("flip", k) % f->bytes.len;
        uint8_t old = f->bytes.data[at];
        f->bytes.data[at] = (uint8_t)(old ^ (1u << (hsp_test_rand("bit", k) % 8)));
        struct hsp_arena *a = hsp_arena_new((size_t)16 << 20);
        struct hsp_program_file g;
        if (hsp_program_file_decode(f->bytes.data, f->bytes.len, a, &g, NULL) == HSP_OK) {
            for (uint32_t r = 0; r < g.n; r++) {
                assert_int_equal(hsp_program_check(&g.programs[r], NULL), HSP_OK);
            }
        } else {
            refused++;
        }
        f->bytes.data[at] = old;
        hsp_arena_free(a);
    }
    assert_true(refused > 300);
}

static void expect(struct fixture *f, const char *part)
{
    struct hsp_err err = {0};
    assert_int_not_equal(hsp_program_check(&f->file.programs[0], &err), HSP_OK);
    if (!strstr(err.msg, part)) {
        fail_msg("\"%s\" does not say \"%s\"", err.msg, part);
    }
}

static void checks_name_what_is_wrong(void **state)
{
    struct fixture *f = *state;
    struct hsp_program *p = &f->file.programs[0];
    struct hsp_binding *b = &p->bind;
    b->tensor[3].offset += 64 * 1000000;
    expect(f, "do not fit");
    b->tensor[3].offset -= 64 * 1000000;
    b->tensor[5].slot_bytes = 64;
    expect(f, "do not fit");
    b->tensor[5].slot_bytes = 512;
    b->tensor[5].offset += 8;
    expect(f, "do not fit");
    b->tensor[5].offset -= 8;
    b->symbol[2]++;
    expect(f, "box has 16");
    b->symbol[2]--;
    b->reshard[0].moves[0].cells[0].box.hi[0] = 17;
    expect(f, "not held here");
    b->reshard[0].moves[0].cells[0].box.hi[0] = 16;
    b->reshard[0].moves[1].ranks[1] = 0;
    expect(f, "ascending");
    b->reshard[0].moves[1].ranks[1] = 1;
    b->train.e[0][1].piece = 4; /* a comm piece in the compute queue */
    expect(f, "schedule");
    b->train.e[0][1].piece = 1;
    uint32_t waits[2] = {b->train.e[0][0].wait, b->train.e[1][0].wait};
    b->train.e[0][0].wait = b->train.e[1][0].wait = 1; /* each for the other */
    expect(f, "wait in a circle");
    b->train.e[0][0].wait = waits[0];
    b->train.e[1][0].wait = waits[1];
    b->pipeline.n_seq = 7;
    expect(f, "global batch");
    b->pipeline.n_seq = 3;
    uint32_t old = p->tpl.instrs[4].in[1];
    p->tpl.instrs[4].in[1] = 5000;
    expect(f, "tensor 5000");
    p->tpl.instrs[4].in[1] = old;
    /* linear's output where the embedding's belongs */
    old = p->tpl.instrs[4].out[0];
    p->tpl.instrs[4].out[0] = p->tpl.instrs[5].out[0];
    expect(f, "embed");
    p->tpl.instrs[4].out[0] = old;
    /* the product of fp64 does not come out in bf16 */
    old = p->tpl.instrs[5].out[0];
    p->tpl.tensors[old].dtype = HSP_BF16;
    expect(f, "instruction 5 (kind 0): operands do not fit");
    p->tpl.tensors[old].dtype = HSP_F64;
    assert_int_equal(hsp_program_check(p, NULL), HSP_OK);
}

/* Breaks each rule of a bucket in turn. Bucket numbers ascend. Each Reshard of a bucket is one
 * collective, with the kind, the reduction and the ranks of the bucket's first Reshard. */
static void buckets_are_checked(void **state)
{
    struct fixture *f = *state;
    struct hsp_err err = {0};
    for (int k = 0; k < 6; k++) {
        struct hsp_reshard_bind *r = sums(f);
        uint32_t one = 1;
        switch (k) {
        case 0: r[0].bucket = 2; break; /* numbers ascend */
        case 1: r[1].zero_first = true; break;
        case 2: r[0].n_moves = 0; break;
        case 3: r[1].moves[0].reduce = HSP_REDUCE_MAX; break;
        case 4: r[1].moves[0].kind = HSP_MOVE_COPY; break;
        default: /* other ranks */
            f->file.programs[0].bind.rank = 1;
            r[1].moves[0].n_ranks = 1;
            r[1].moves[0].ranks = &one;
        }
        expect(f, "is not of bucket");
        f->file.programs[0].bind.buckets = false; /* then numbers say nothing */
        assert_ok(hsp_program_check(&f->file.programs[0], &err), &err);
    }
    struct hsp_reshard_bind *r = sums(f);
    r[1].bucket = 2;
    assert_ok(hsp_program_check(&f->file.programs[0], &err), &err);
}

/* Rank 0 sums two addends of its own gradient and passes the sum to rank 1 (HSP_MOVE_REDUCE_SEND).
 * Each cell names the rank that sums as root, and the receiver as peer. */
static void a_sum_that_is_handed_on_is_checked(void **state)
{
    struct fixture *f = *state;
    struct hsp_move *m = &f->file.programs[0].bind.reshard[0].moves[0];
    assert_int_equal(m->kind, HSP_MOVE_REDUCE_SCATTER);
    assert_int_equal(m->n_cells, 2);
    m->kind = HSP_MOVE_REDUCE_SEND;
    for (uint32_t k = 0; k < 2; k++) {
        m->cells[k].root = 0;
        m->cells[k].peer = 1;
    }
    const struct hsp_cell good = m->cells[1];
    assert_int_equal(hsp_program_check(&f->file.programs[0], NULL), HSP_OK);
    m->cells[0].peer = m->cells[1].peer = 0; /* the maker of the sum needs it not */
    expect(f, "cell 0 of a move of kind 5");
    m->cells[0].peer = 1;
    expect(f, "cell 1 of a move of kind 5"); /* another peer */
    m->cells[1] = good;
    m->cells[1].root = 1; /* another root, which is its own peer */
    expect(f, "cell 1 of a move of kind 5");
    m->cells[1].root = 2; /* outside of the group */
    expect(f, "cell 1 of a move of kind 5");
    m->cells[1] = good;
    m->cells[0].root = m->cells[1].root = 2;
    expect(f, "cell 0 of a move of kind 5");
    m->cells[0].root = m->cells[1].root = 0;
    m->cells[0].peer = m->cells[1].peer = 2;
    expect(f, "cell 0 of a move of kind 5");
    m->cells[0].peer = m->cells[1].peer = 1;
    m->cells[1].box.hi[0]++; /* more than it holds */
    expect(f, "cell 1 of a move of kind 5");
    m->cells[1] = good;
    m->reduce = HSP_REDUCE_MAX;
    assert_int_equal(hsp_program_check(&f->file.programs[0], NULL), HSP_OK);
    m->reduce = HSP_REDUCE_MAX + 1;
    expect(f, "no part in");
}

/* Replaces instruction 0 by a copy of its result to a new tensor in the host's memory. Returns the
 * number of the new tensor. */
static uint32_t add_host_copy(struct fixture *f)
{
    struct hsp_program *p = &f->file.programs[0];
    struct hsp_template *t = &p->tpl;
    uint32_t from = t->instrs[0].out[0], host = t->n_tensors;
    struct hsp_ptensor *tensor = hsp_arena_array(f->arena, host + 1, sizeof *tensor);
    struct hsp_tensor_bind *bind = hsp_arena_array(f->arena, host + 1, sizeof *bind);
    memcpy(tensor, t->tensors, host * sizeof *tensor);
    memcpy(bind, p->bind.tensor, host * sizeof *bind);
    t->tensors = tensor;
    p->bind.tensor = bind;
    t->n_tensors++;
    tensor[host] = tensor[from];
    tensor[host].cls = HSP_CLASS_HOST;
    bind[host] = bind[from];
    bind[host].offset = 64;
    bind[host].n_slots = 3;
    p->bind.host_bytes = 64 + 3 * bind[host].slot_bytes;
    t->instrs[0].kind = HSP_I_COPY;
    t->instrs[0].n_in = 1;
    t->instrs[0].in[0] = from;
    t->instrs[0].out[0] = host;
    assert_int_equal(hsp_template_digest(t, &t->digest), HSP_OK);
    p->bind.template_digest = t->digest;
    return host;
}

static void host_memory_round_trip(void **state)
{
    struct fixture *f = *state;
    struct hsp_err err = {0};
    struct hsp_program_file g;
    struct hsp_buf text;
    uint32_t host = add_host_copy(f);
    assert_ok(hsp_program_check(&f->file.programs[0], &err), &err);
    assert_int_equal(hsp_program_file_encode(&f->file, &f->bytes), HSP_OK);
    assert_ok(hsp_program_file_decode(f->bytes.data, f->bytes.len, f->arena, &g, &err), &err);
    assert_int_equal(g.programs[0].bind.host_bytes, f->file.programs[0].bind.host_bytes);
    assert_int_equal(g.programs[1].bind.host_bytes, 0);
    assert_int_equal(g.programs[0].tpl.tensors[host].cls, HSP_CLASS_HOST);
    hsp_buf_init(&text, 1 << 20);
    hsp_program_dump(&g.programs[0], &text);
    assert_non_null(strstr(hsp_buf_cstr(&text), " host [0:16, 0:4] at 64 + 3 x 512"));
    assert_non_null(strstr(hsp_buf_cstr(&text), " copy "));
    assert_non_null(strstr(hsp_buf_cstr(&text), ", host 1600 bytes"));
    hsp_buf_fini(&text);
}

/* A tensor in host memory may only be the source or the target of a copy. The copy takes the whole
 * tensor, and the tensor lies inside the host memory of the binding. */
static void host_memory_is_checked(void **state)
{
    struct fixture *f = *state;
    uint32_t host = add_host_copy(f);
    struct hsp_program *p = &f->file.programs[0];
    struct hsp_binding *b = &p->bind;
    struct hsp_instr *i = &p->tpl.instrs[0];
    uint32_t from = i->in[0];
    b->host_bytes -= 64;
    expect(f, "do not fit 1536");
    b->host_bytes = -1;
    expect(f, "negative");
    b->host_bytes = 1600;
    b->tensor[host].box.lo[0]++;
    b->tensor[host].box.hi[0]++;
    expect(f, "another box");
    b->tensor[host].box = b->tensor[from].box;
    i->out[0] = from; /* nothing of it in the host's memory */
    expect(f, "operands do not fit");
    i->out[0] = host;
    i->in[0] = host; /* all of it */
    expect(f, "operands do not fit");
    i->in[0] = from;
    i->n_in = 0;
    expect(f, "operands do not fit");
    i->kind = HSP_I_ZERO;
    expect(f, "operands do not fit");
    i->kind = HSP_I_COPY;
    i->n_in = 1;
    p->tpl.tensors[host].dtype = HSP_F32;
    expect(f, "operands do not fit");
    p->tpl.tensors[host].dtype = HSP_F64;
    p->tpl.tensors[host].sym[0] = HSP_SYM_BATCH;
    expect(f, "operands do not fit");
    p->tpl.tensors[host].sym[0] = p->tpl.tensors[from].sym[0];
    p->tpl.tensors[from].cls = HSP_CLASS_STATE;
    expect(f, "operands do not fit");
    p->tpl.tensors[from].cls = HSP_CLASS_STEP;
    assert_int_equal(hsp_program_check(p, NULL), HSP_OK);
}

HSP_TEST_FILE(codec_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tiny_is_valid, setup, teardown),
        cmocka_unit_test_setup_teardown(file_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(buckets_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(without_buckets_the_form_is_the_old_one, setup, teardown),
        cmocka_unit_test_setup_teardown(buckets_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(equal_structure_equal_digest, setup, teardown),
        cmocka_unit_test_setup_teardown(every_truncation_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(flipped_bytes_never_pass_unchecked, setup, teardown),
        cmocka_unit_test_setup_teardown(checks_name_what_is_wrong, setup, teardown),
        cmocka_unit_test_setup_teardown(a_sum_that_is_handed_on_is_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(host_memory_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(host_memory_is_checked, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
