#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/host/file_io.h"
#include "proto/layout/box.h"
#include "tests/unit/worker/state/state_lib.h"
#include "worker/state/box_hash.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_files.h"
#include "worker/state/ckpt_read.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/ckpt_steps.h"
#include "worker/state/safetensors.h"

#define SHARD_1    "shard-00001-model-00001-of-00001.safetensors"
#define MAX_PARTS  8
#define N_TENSORS  4
#define MAX_PIECES (N_TENSORS * 3 * MAX_PARTS)

static const struct tensor {
    const char *name;
    uint8_t rank;
    int64_t full[HSP_MAX_RANK];
} tensors[N_TENSORS] = {
    {"wte.weight", 2, {23, 8}},
    {"h.0.attn.q.weight", 2, {8, 8}},
    {"h.0.attn.q.bias", 1, {8}},
    {"scale", 0, {0}},
};

/* A state cut at random into parts, dealt to ranks. */
struct layout {
    struct hsp_ckpt_piece piece[MAX_PIECES];
    uint32_t rank[MAX_PIECES];
    size_t n;
};

static void layout_init(struct layout *l, uint64_t seed, uint32_t n_ranks, uint64_t version)
{
    l->n = 0;
    for (uint32_t t = 0; t < N_TENSORS; t++) {
        struct hsp_box whole = hsp_box_whole(tensors[t].rank, tensors[t].full), part[MAX_PARTS];
        for (uint8_t kind = 0; kind < 3; kind++) {
            size_t n = random_cuts(&whole, MAX_PARTS - 1, "parts", seed * 50 + t * 3 + kind, part);
            for (size_t i = 0; i < n; i++) {
                /* the memory holds more than the part that is written */
                struct hsp_box held = part[i];
                for (uint8_t d = 0; d < held.rank; d++) {
                    held.hi[d] = (seed + i) % 2 ? held.hi[d] : whole.hi[d];
                }
                float *data = malloc((size_t)hsp_box_count(&held) * 4);
                assert_non_null(data);
                fill_box(HSP_F32, t, kind, version, tensors[t].full, &held, data);
                l->rank[l->n] = (uint32_t)(hsp_test_rand("deal", seed * 999 + l->n) % n_ranks);
                l->piece[l->n++] = (struct hsp_ckpt_piece){
                    tensors[t].name, t, kind, HSP_F32, tensors[t].full, part[i], held, data, 0};
            }
        }
    }
}

static void layout_fini(struct layout *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free((void *)(uintptr_t)l->piece[i].data);
    }
}

static enum hsp_status write_rank(const char *dir, const struct hsp_ckpt_info *info,
                                  const struct layout *l, uint32_t rank, struct hsp_err *err)
{
    struct hsp_ckpt_piece mine[MAX_PIECES];
    size_t n = 0;
    uint64_t bytes;
    for (size_t i = 0; i < l->n; i++) {
        if (l->rank[i] == rank) {
            mine[n++] = l->piece[i];
        }
    }
    return hsp_ckpt_write_shard(dir, info, rank, mine, n, &bytes, err);
}

static struct hsp_whose whose = {{1, 2}, UINT64_MAX - 4};

static uint32_t job = 3;

static struct hsp_ckpt_info info_of(uint64_t step, uint32_t n_ranks)
{
    return (struct hsp_ckpt_info){"gpt", step, 2, 7, n_ranks, N_TENSORS, job, whose};
}

static enum hsp_status prune(const char *dir, uint64_t upto, size_t keep, struct hsp_err *err)
{
    struct hsp_ckpt_info us = info_of(upto, 1);
    return hsp_ckpt_prune(dir, &us, keep, err);
}

static enum hsp_status sweep(const char *dir, uint64_t below, struct hsp_err *err)
{
    struct hsp_ckpt_info us = info_of(below, 1);
    return hsp_ckpt_sweep(dir, &us, err);
}

/* The path of an attempt at @step of the job and cluster at hand. */
static const char *attempt_at(const char *dir, uint64_t step)
{
    static char path[4300];
    char name[HSP_CKPT_NAME];
    struct hsp_ckpt_info us = info_of(step, 1);
    hsp_ckpt_tmp_name(&us, name);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

#define CONFIG "{\"family\":\"gpt\"}"

/* Of a job with batches of 12 whose passes end inside of one. */
static struct hsp_data_cursor data_of(uint64_t step)
{
    return (struct hsp_data_cursor){.digest = {0x123456789abcdef0, UINT64_MAX},
                                    .bytes = UINT64_MAX - 5,
                                    .n_tokens = (UINT64_C(1) << 60) + 1,
                                    .seed = UINT64_MAX,
                                    .pass_samples = 17,
                                    .samples = step * 12,
                                    .sequence = UINT32_MAX,
                                    .separator = 50256,
                                    .format = HSP_DATA_LLMC,
                                    .packing = HSP_PACKING_START};
}

static struct hsp_ckpt_done last;

static enum hsp_status commit(const char *dir, const struct hsp_ckpt_info *info,
                              struct hsp_err *err)
{
    struct hsp_data_cursor data = data_of(info->step);
    return hsp_ckpt_commit(dir, info, &data, CONFIG, &last, err);
}

static void write_step(const char *dir, uint64_t step, uint32_t n_ranks, uint64_t seed)
{
    struct hsp_ckpt_info info = info_of(step, n_ranks);
    struct layout l;
    struct hsp_err err = {0};
    layout_init(&l, seed, n_ranks, step);
    for (uint32_t r = 0; r < n_ranks; r++) {
        assert_ok(write_rank(dir, &info, &l, r, &err), &err);
    }
    assert_ok(commit(dir, &info, &err), &err);
    layout_fini(&l);
}

/* Elements that are not those of @version. *ret_refused: tensors that are not read, for damage. */
static int64_t wrong_tensors(const struct hsp_ckpt *c, uint64_t version, size_t *ret_refused)
{
    float x[23 * 8];
    int64_t wrong = 0;
    struct hsp_err err = {0};
    *ret_refused = 0;
    for (size_t i = 0; i < hsp_ckpt_count(c); i++) {
        const struct hsp_ckpt_tensor *t = hsp_ckpt_tensor_at(c, i);
        struct hsp_box whole = hsp_box_whole(t->rank, t->full);
        enum hsp_status st = hsp_ckpt_read(c, t, &whole, &whole, x, &err);
        if (st == HSP_EDIGEST) {
            assert_non_null(strstr(err.msg, "/shard-0"));
            ++*ret_refused;
            continue;
        }
        assert_ok(st, &err);
        wrong += wrong_in_box(HSP_F32, t->tensor, t->kind, version, t->full, &whole, &whole, x);
    }
    return wrong;
}

static void assert_right(const struct hsp_ckpt *c, uint64_t version)
{
    size_t refused;
    assert_int_equal(wrong_tensors(c, version, &refused), 0);
    assert_int_equal(refused, 0);
}

/* Rank @rank's pieces of @l as a stream: hashes first, then slabs of at most @max bytes, the pieces
 * from the last to the first. @harm: 1 flips a bit on the way, 2 loses a slab. */
static enum hsp_status stream_rank(const char *dir, const struct hsp_ckpt_info *info,
                                   const struct layout *l, uint32_t rank, size_t max, int harm,
                                   struct hsp_err *err)
{
    struct hsp_ckpt_piece mine[MAX_PIECES] = {0};
    const struct hsp_ckpt_piece *from[MAX_PIECES] = {0};
    struct hsp_ckpt_stream *s = NULL;
    size_t n = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (l->rank[i] == rank) {
            struct hsp_ckpt_piece *p = &mine[n];
            from[n++] = &l->piece[i];
            *p = l->piece[i];
            struct hsp_box_id id = {p->tensor, p->kind, p->dtype, p->full};
            p->hash = hsp_box_hash(&id, &p->box, &p->held, p->data);
            p->data = NULL;
        }
    }
    enum hsp_status st = hsp_ckpt_stream_open(dir, info, rank, mine, n, &s, err);
    for (size_t i = n; st == HSP_OK && i-- > 0;) {
        struct hsp_slabs slabs;
        struct hsp_box slab;
        float buf[23 * 8];
        hsp_slabs_init(&slabs, &mine[i].box, sizeof(float), max);
        while (st == HSP_OK && hsp_slabs_next(&slabs, &slab)) {
            assert_true(slabs.bytes <= sizeof buf);
            hsp_region_copy(sizeof(float), &slab, &mine[i].held, from[i]->data, &slab, buf);
            ((unsigned char *)buf)[1] ^= harm == 1 ? 4 : 0;
            st = harm == 2 ? HSP_OK : hsp_ckpt_stream_put(s, i, &slab, buf, err);
            harm = 0;
        }
    }
    return st == HSP_OK ? hsp_ckpt_stream_close(s, &bytes, err) : st;
}

static int setup(void **state)
{
    *state = hsp_test_tmpdir();
    whose = (struct hsp_whose){{1, 2}, UINT64_MAX - 4};
    job = 3;
    return 0;
}

static int teardown(void **state)
{
    hsp_test_rmdir(*state);
    free(*state);
    return 0;
}

static void any_region_comes_back_from_any_layout(void **state)
{
    struct hsp_err err = {0};
    for (uint64_t step = 0; step < 12; step++) {
        struct hsp_ckpt *c;
        write_step(*state, step, 1 + (uint32_t)(step % 5), step);
        assert_ok(hsp_ckpt_open(*state, step, 0, &c, &err), &err);
        assert_int_equal(hsp_ckpt_count(c), N_TENSORS * 3);
        assert_string_equal(hsp_ckpt_about(c)->job, "gpt");
        assert_true(hsp_ckpt_about(c)->term == 2 && hsp_ckpt_about(c)->epoch == 7);
        assert_ok(hsp_ckpt_verify(c, &err), &err);
        assert_right(c, step);
        for (uint64_t i = 0; i < 30; i++) {
            const struct tensor *t = &tensors[i % N_TENSORS];
            uint8_t kind = (uint8_t)(i % 3);
            const struct hsp_ckpt_tensor *ct = hsp_ckpt_find(c, t->name, kind);
            struct hsp_box whole = hsp_box_whole(t->rank, t->full);
            struct hsp_box dst = random_inside(&whole, "dst", step * 99 + i);
            struct hsp_box want = random_inside(&dst, "want", step * 99 + i);
            float x[23 * 8];
            assert_non_null(ct);
            assert_ok(hsp_ckpt_read(c, ct, &want, &dst, x, &err), &err);
            assert_int_equal(wrong_in_box(HSP_F32, (uint32_t)(i % N_TENSORS), kind, step, t->full,
                                          &want, &dst, x),
                             0);
        }
        struct hsp_box out = hsp_box_whole(2, tensors[0].full);
        out.hi[0]++;
        assert_status(hsp_ckpt_read(c, hsp_ckpt_find(c, "wte.weight", 0), &out, &out, NULL, &err),
                      HSP_EINVAL);
        assert_null(hsp_ckpt_find(c, "wte.weight", 3));
        hsp_ckpt_close(c);
    }
}

static uint64_t content_of(const char *dir, uint64_t step, uint32_t n_ranks, uint64_t seed)
{
    struct hsp_err err = {0};
    struct hsp_ckpt *c;
    write_step(dir, step, n_ranks, seed);
    assert_ok(hsp_ckpt_open(dir, step, 0, &c, &err), &err);
    uint64_t content = hsp_ckpt_content(c);
    hsp_ckpt_close(c);
    return content;
}

static void content_tells_states_apart_not_layouts(void **state)
{
    uint64_t content = content_of(*state, 5, 1, 1);
    assert_true(content_of(*state, 5, 3, 2) == content);
    assert_true(content_of(*state, 5, 5, 3) == content);
    assert_true(content_of(*state, 6, 3, 2) != content);
}

static void commit_refuses_what_is_not_whole(void **state)
{
    struct hsp_ckpt_info info = info_of(5, 3), other = info;
    struct hsp_err err = {0};
    struct layout l;
    struct hsp_ckpt *c;
    struct hsp_ckpt_place *steps;
    size_t n;
    layout_init(&l, 1, 3, 5);
    assert_ok(write_rank(*state, &info, &l, 0, &err), &err);
    assert_ok(write_rank(*state, &info, &l, 1, &err), &err);
    assert_status(commit(*state, &info, &err), HSP_EDIGEST); /* rank 2 is missing */
    other.epoch = 6;
    assert_ok(write_rank(*state, &other, &l, 2, &err), &err);
    assert_status(commit(*state, &info, &err), HSP_EDIGEST); /* of another attempt */
    struct hsp_ckpt_piece mine[MAX_PIECES];
    size_t k = 0;
    for (size_t i = 0; i < l.n; i++) {
        if (l.rank[i] == 2) {
            mine[k++] = l.piece[i];
        }
    }
    assert_true(k > 2);
    assert_ok(hsp_ckpt_write_shard(*state, &info, 2, mine, k - 1, NULL, &err), &err); /* a hole */
    assert_status(commit(*state, &info, &err), HSP_EDIGEST);
    mine[k] = mine[0];
    assert_ok(hsp_ckpt_write_shard(*state, &info, 2, mine, k + 1, NULL, &err), &err); /* twice */
    assert_status(commit(*state, &info, &err), HSP_EDIGEST);
    assert_ok(hsp_ckpt_list(*state, &steps, &n, &err), &err);
    assert_int_equal(n, 0);
    free(steps);
    assert_status(hsp_ckpt_open(*state, 5, 0, &c, &err), HSP_ENOENT);
    assert_ok(hsp_ckpt_write_shard(*state, &info, 2, mine, k, NULL, &err), &err);
    assert_ok(commit(*state, &info, &err), &err);
    for (uint32_t r = 0; r < 3; r++) { /* the step again, of a later history */
        assert_ok(write_rank(*state, &other, &l, r, &err), &err);
    }
    assert_ok(commit(*state, &other, &err), &err);
    assert_ok(hsp_ckpt_open(*state, 5, 0, &c, &err), &err);
    assert_int_equal(hsp_ckpt_about(c)->epoch, 6);
    hsp_ckpt_close(c);
    assert_status(hsp_ckpt_write_shard(*state, &info, 3, mine, k, NULL, &err), HSP_EINVAL);
    mine[0].kind = 9;
    assert_status(hsp_ckpt_write_shard(*state, &info, 2, mine, k, NULL, &err), HSP_EINVAL);
    assert_ok(hsp_ckpt_abandon(*state, &info, &err), &err);
    assert_ok(hsp_ckpt_abandon(*state, &info, &err), &err);
    layout_fini(&l);
}

/* 1 when the damage is noticed, by who verifies and by who reads; what is read is right in any case. */
static int noticed(const char *dir, uint64_t step)
{
    struct hsp_ckpt *c;
    struct hsp_err err = {0};
    size_t refused;
    if (hsp_ckpt_open(dir, step, 0, &c, &err) != HSP_OK) {
        return 1;
    }
    int seen = hsp_ckpt_verify(c, &err) == HSP_EDIGEST;
    assert_int_equal(wrong_tensors(c, step, &refused), 0);
    assert_true(seen == (refused > 0));
    hsp_ckpt_close(c);
    return seen;
}

/* Of a version that wrote no sums, as far as a reader can tell: another letter is in their name. */
static void forget_sums(const char *path)
{
    char head[256];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(head, 1, sizeof head, f), sizeof head);
    assert_int_equal(fclose(f), 0);
    const char *key = memmem(head, sizeof head, "hspmd.sums", 10);
    assert_non_null(key);
    flip_bit(path, (uint64_t)(key - head) + 9, 0);
}

static void damage_never_reads_as_state(void **state)
{
    char path[4096];
    const char *files[] = {"manifest.json", "shard-00001-model-00001-of-00001.safetensors",
                           "shard-00002-model-00001-of-00001.safetensors"};
    write_step(*state, 3, 2, 4);
    (void)snprintf(path, sizeof(path), "%s/step-0000000003/%s", (char *)*state, files[2]);
    forget_sums(path);
    assert_int_equal(noticed(*state, 3), 0);
    for (int f = 0; f < 3; f++) {
        (void)snprintf(path, sizeof(path), "%s/step-0000000003/%s", (char *)*state, files[f]);
        uint64_t size = size_of(path), data = 0;
        int tries = 0, seen = 0;
        for (uint64_t i = 0; i < 300; i++) {
            uint64_t at = hsp_test_rand("at", (uint64_t)f * 1000 + i) % size;
            int bit = (int)(i % 8);
            flip_bit(path, at, bit);
            tries++;
            seen += noticed(*state, 3);
            flip_bit(path, at, bit);
        }
        for (uint64_t at = size - 64; at < size; at++) { /* the data's end */
            flip_bit(path, at, 6);
            data += (uint64_t)noticed(*state, 3);
            flip_bit(path, at, 6);
        }
        assert_true(f == 0 || data == 64);
        /* not noticed: white space, and what is there for PyTorch only */
        assert_true(seen > tries / 3);
    }
    assert_int_equal(noticed(*state, 3), 0);
    for (int f = 2; f >= 0; f--) {
        (void)snprintf(path, sizeof(path), "%s/step-0000000003/%s", (char *)*state, files[f]);
        uint64_t size = size_of(path);
        cut_file(path, size - 2);
        assert_int_equal(noticed(*state, 3), 1);
        cut_file(path, size / 3);
        assert_int_equal(noticed(*state, 3), 1);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(noticed(*state, 3), 1);
    }
}

static void shards_of_two_steps_do_not_mix(void **state)
{
    char a[4096], b[4096];
    write_step(*state, 1, 2, 4);
    write_step(*state, 2, 2, 4);
    const char *file = "shard-00001-model-00001-of-00001.safetensors";
    (void)snprintf(a, sizeof(a), "%s/step-0000000001/%s", (char *)*state, file);
    (void)snprintf(b, sizeof(b), "%s/step-0000000002/%s", (char *)*state, file);
    assert_int_equal(rename(a, b), 0);
    assert_int_equal(noticed(*state, 2), 1);
}

/* One tensor of 8 elements, one version of its values for each attempt. */
static void write_halves(const char *dir, const int64_t lo[2], uint64_t version,
                         struct hsp_err *err)
{
    static const int64_t full[] = {8};
    struct hsp_ckpt_info info = info_of(1, 2);
    info.n_params = 1;
    float x[8];
    struct hsp_box whole = hsp_box_whole(1, full);
    fill_box(HSP_F32, 0, 0, version, full, &whole, x);
    for (uint32_t r = 0; r < 2; r++) {
        struct hsp_ckpt_piece p = {.name = "a",
                                   .dtype = HSP_F32,
                                   .full = full,
                                   .held = whole,
                                   .data = x,
                                   .box = {.rank = 1, .lo = {lo[r]}, .hi = {lo[r] + 4}}};
        assert_ok(hsp_ckpt_write_shard(dir, &info, r, &p, 1, NULL, err), err);
    }
    (void)commit(dir, &info, err);
}

static void no_parameter_or_kind_may_be_missing(void **state)
{
    static const int64_t full[] = {4};
    struct hsp_ckpt_info info = info_of(1, 1);
    struct hsp_err err = {0};
    float x[4] = {0};
    struct hsp_ckpt_piece p[6];
    struct hsp_box whole = hsp_box_whole(1, full);
    const char *names[] = {"a", "b", "c"};
    info.n_params = 3;
    for (int skip = 0; skip <= 6; skip++) {
        size_t n = 0;
        for (int i = 0; i < 6; i++) {
            if (i != skip) {
                p[n++] = (struct hsp_ckpt_piece){names[i / 2],
                                                 (uint32_t)i / 2,
                                                 (uint8_t)(i % 2),
                                                 HSP_F32,
                                                 full,
                                                 whole,
                                                 whole,
                                                 x,
                                                 0};
            }
        }
        assert_ok(hsp_ckpt_write_shard(*state, &info, 0, p, n, NULL, &err), &err);
        assert_status(commit(*state, &info, &err), skip < 6 ? HSP_EDIGEST : HSP_OK);
    }
    info.step = 2;
    assert_ok(hsp_ckpt_write_shard(*state, &info, 0, p, 4, NULL, &err), &err); /* c is missing */
    assert_status(commit(*state, &info, &err), HSP_EDIGEST);
    assert_ok(hsp_ckpt_write_shard(*state, &info, 0, p + 2, 4, NULL, &err), &err); /* a */
    assert_status(commit(*state, &info, &err), HSP_EDIGEST);
}

static void two_halves_must_be_different(void **state)
{
    struct hsp_err err = {0};
    write_halves(*state, (const int64_t[]){0, 0}, 1, &err);
    assert_err(&err, HSP_EDIGEST, "two shards hold the same part of a");
    err = (struct hsp_err){0};
    write_halves(*state, (const int64_t[]){4, 0}, 1, &err);
    assert_int_equal(err.code, HSP_OK);
    assert_int_equal(noticed(*state, 1), 0);
}

static void a_shard_of_another_attempt_is_refused(void **state)
{
    struct hsp_err err = {0};
    char other[4096], a[4200], b[4200];
    (void)snprintf(other, sizeof(other), "%s/other", (char *)*state);
    write_halves(*state, (const int64_t[]){0, 4}, 1, &err);
    write_halves(other, (const int64_t[]){0, 4}, 2, &err);
    assert_int_equal(err.code, HSP_OK);
    const char *file = "step-0000000001/shard-00002-model-00001-of-00001.safetensors";
    (void)snprintf(a, sizeof(a), "%s/%s", other, file);
    (void)snprintf(b, sizeof(b), "%s/%s", (char *)*state, file);
    assert_int_equal(rename(a, b), 0);
    assert_int_equal(noticed(*state, 1), 1);
}

static void every_word_of_the_manifest_counts(void **state)
{
    struct hsp_err err = {0};
    char path[4096], text[2048] = {0};
    write_halves(*state, (const int64_t[]){0, 4}, 1, &err);
    (void)snprintf(path, sizeof(path), "%s/step-0000000001/manifest.json", (char *)*state);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    assert_int_equal(fclose(f), 0);
    for (size_t i = 0; i < n; i++) {
        if (text[i] != ' ' && text[i] != '\n' && text[i] != '\t') {
            flip_bit(path, i, 0);
            assert_int_equal(noticed(*state, 1), 1);
            flip_bit(path, i, 0);
        }
    }
    assert_int_equal(noticed(*state, 1), 0);
}

static void the_place_in_the_data_comes_back(void **state)
{
    for (uint64_t step = 0; step < 8; step++) {
        struct hsp_err err = {0};
        struct hsp_ckpt *c;
        struct hsp_data_cursor want = data_of(step);
        write_step(*state, step, 2, step);
        assert_ok(hsp_ckpt_open(*state, step, 0, &c, &err), &err);
        assert_ok(hsp_data_cursor_match(&want, hsp_ckpt_data(c), &err), &err);
        (void)hsp_ckpt_close(c);
    }
}

/* Of a program that did not record the place in the data. */
static void an_older_format_is_refused(void **state)
{
    static const char text[] = "{\"format\":1,\"shards\":[],\"digest\":\"1\"}";
    struct hsp_err err = {0};
    struct hsp_ckpt *c;
    char path[4096];
    write_step(*state, 3, 1, 3);
    (void)snprintf(path, sizeof(path), "%s/step-0000000003/manifest.json", (char *)*state);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_status(hsp_ckpt_open(*state, 3, 0, &c, &err), HSP_EVERSION);
    assert_non_null(strstr(err.msg,
                           "checkpoint of format 1, this program reads 2 (older ones do not say "
                           "where in its data the job was): use the hspmd that wrote it, or submit "
                           "the job again: "));
}

/* Where the digit of the format stands in file @path: behind "format": or \"format\": of a text in a text. */
static uint64_t format_at(const char *path)
{
    uint8_t *text = NULL;
    size_t len = 0;
    struct hsp_err err = {0};
    assert_ok(hsp_file_read(path, 1 << 16, &text, &len, &err), &err);
    const uint8_t *at = text;
    do {
        at = memmem(at, len - (size_t)(at - text), "format", 6);
        assert_non_null(at);
        at += 6;
        at += strspn((const char *)at, "\\\":\t ");
    } while (*at != '2');
    uint64_t place = (uint64_t)(at - text);
    free(text);
    return place;
}

/* One bit of it makes another number: that is damage, for which another checkpoint is taken, and no format of another
 * program. */
static void a_damaged_format_is_damage(void **state)
{
    static const char *const files[] = {"manifest.json",
                                        "shard-00001-model-00001-of-00001.safetensors"};
    for (int i = 0; i < 2; i++) {
        struct hsp_err err = {0};
        struct hsp_ckpt *c;
        char path[4096];
        write_step(*state, 3, 1, 3);
        (void)snprintf(path, sizeof(path), "%s/step-0000000003/%s", (char *)*state, files[i]);
        flip_bit(path, format_at(path), 0);
        assert_status(hsp_ckpt_open(*state, 3, 0, &c, &err), HSP_EDIGEST);
        assert_non_null(strstr(err.msg, files[i]));
        assert_non_null(strstr(err.msg, "is damaged"));
    }
}

static bool is_there(const char *dir, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void put_file(const char *dir, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

/* A reader that takes all shards of a step must not find those of another attempt. */
static void a_step_has_nothing_of_a_former_attempt(void **state)
{
    struct hsp_ckpt_info four = info_of(5, 4), two = info_of(5, 2);
    struct hsp_err err = {0};
    struct layout l;
    layout_init(&l, 1, 4, 5);
    for (uint32_t r = 0; r < 4; r++) {
        assert_ok(write_rank(*state, &four, &l, r, &err), &err);
    }
    layout_fini(&l);
    put_file(attempt_at(*state, 5), "manifest.json.Xy12z0"); /* killed while writing it */
    layout_init(&l, 1, 2, 5);
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(write_rank(*state, &two, &l, r, &err), &err);
    }
    layout_fini(&l);
    assert_ok(commit(*state, &two, &err), &err);
    assert_true(is_there(*state, "step-0000000005/shard-00002-model-00001-of-00001.safetensors"));
    assert_false(is_there(*state, "step-0000000005/shard-00003-model-00001-of-00001.safetensors"));
    assert_false(is_there(*state, "step-0000000005/shard-00004-model-00001-of-00001.safetensors"));
    assert_false(is_there(*state, "step-0000000005/manifest.json.Xy12z0"));
}

/* Attempts at steps 10, 20 and 30 of the job and cluster at hand. */
static void make_attempts(const char *dir)
{
    for (uint64_t step = 10; step <= 30; step += 10) {
        const char *path = attempt_at(dir, step);
        (void)mkdir(path, 0755);
        put_file(path, "shard-00001-model-00001-of-00001.safetensors");
    }
}

static bool has_attempts(const char *dir, int of_10, int of_20, int of_30)
{
    return (access(attempt_at(dir, 10), F_OK) == 0) == of_10 &&
           (access(attempt_at(dir, 20), F_OK) == 0) == of_20 &&
           (access(attempt_at(dir, 30), F_OK) == 0) == of_30;
}

/* Somebody's folder in a step keeps neither that step's room nor that of older ones. */
static void what_cannot_be_deleted_keeps_nothing_else(void **state)
{
    struct hsp_err err = {0};
    char path[4096];
    for (uint64_t s = 10; s <= 40; s += 10) {
        write_step(*state, s, 2, s);
    }
    (void)snprintf(path, sizeof(path), "%s/step-0000000030/mine", (char *)*state);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_status(prune(*state, 40, 1, &err), HSP_EIO);
    assert_non_null(strstr(err.msg, "step-0000000030/mine"));
    assert_true(is_there(*state, "step-0000000040"));
    assert_false(is_there(*state, "step-0000000030/shard-00001-model-00001-of-00001.safetensors"));
    assert_false(is_there(*state, "step-0000000020"));
    assert_false(is_there(*state, "step-0000000010"));
    (void)snprintf(path, sizeof(path), "%s/step-0000000040/mine", (char *)*state);
    assert_int_equal(mkdir(path, 0755), 0);
    write_step(*state, 40, 2, 1); /* takes the name all the same */
}

/* What this job has begun and not ended goes; what others have begun may be at work. */
static void attempts_of_earlier_steps_make_room(void **state)
{
    const struct hsp_whose ours = whose;
    struct hsp_err err = {0};
    write_step(*state, 10, 1, 1);
    make_attempts(*state);
    job = 4;
    make_attempts(*state);
    job = 3;
    whose.cluster.lo++;
    make_attempts(*state);
    whose = ours;
    assert_ok(sweep(*state, 30, &err), &err);
    assert_true(has_attempts(*state, 0, 0, 1));
    job = 4;
    assert_true(has_attempts(*state, 1, 1, 1));
    assert_ok(prune(*state, 30, 1, &err), &err); /* no step of job 4 is complete */
    assert_true(has_attempts(*state, 1, 1, 1));
    job = 3;
    make_attempts(*state);
    assert_ok(prune(*state, 20, 1, &err), &err);
    assert_true(has_attempts(*state, 0, 1, 1)); /* older than step 10 is none but that of 10 */
    whose.cluster.lo++;
    assert_true(has_attempts(*state, 1, 1, 1));
    whose = ours;
    assert_true(is_there(*state, "step-0000000010"));
    assert_ok(sweep("/nonexistent", 30, &err), &err);
}

/* Of a step that cannot be looked at for want of descriptors nothing is known; it may be the latest. */
static void without_descriptors_nothing_is_known(void **state)
{
    struct hsp_err err = {0};
    struct hsp_ckpt *c = NULL;
    struct hsp_ckpt_place *steps;
    size_t n;
    write_step(*state, 5, 2, 1);
    for (unsigned left = 0; left < 2; left++) { /* for the manifest, for the second shard */
        starve_descriptors(left);
        enum hsp_status st = hsp_ckpt_open(*state, 5, 0, &c, &err);
        enum hsp_status listed = left == 0 ? hsp_ckpt_list(*state, &steps, &n, &err) : HSP_ENOMEM;
        feed_descriptors();
        assert_int_equal(st, HSP_ENOMEM);
        assert_int_equal(listed, HSP_ENOMEM);
        assert_non_null(strstr(err.msg, "Too many open files"));
    }
    assert_ok(hsp_ckpt_open(*state, 5, 0, &c, &err), &err);
    (void)hsp_ckpt_close(c);
}

static void spoil_manifest(const char *dir, const char *step)
{
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/%s/manifest.json", dir, step);
    flip_bit(path, size_of(path) / 2, 1);
}

/* Steps that are there, newest first: "50 40 30.3", with the job of which one was moved aside. */
static const char *steps_in(const char *dir)
{
    static char text[200];
    struct hsp_ckpt_place *steps;
    struct hsp_err err = {0};
    size_t n, len = 0;
    assert_ok(hsp_ckpt_list(dir, &steps, &n, &err), &err);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, i == 0 ? "%u" : " %u",
                                (unsigned)steps[i].step);
        if (steps[i].aside != 0) {
            len += (size_t)snprintf(text + len, sizeof text - len, ".%u", steps[i].aside);
        }
    }
    free(steps);
    return text;
}

static void prune_keeps_the_newest(void **state)
{
    struct hsp_err err = {0};
    for (uint64_t s = 10; s <= 50; s += 10) {
        write_step(*state, s, 2, s);
    }
    assert_int_equal(mkdir(attempt_at(*state, 20), 0755), 0);
    assert_int_equal(mkdir(attempt_at(*state, 60), 0755), 0);
    spoil_manifest(*state, "step-0000000040");
    assert_ok(prune(*state, 50, 3, &err), &err);
    assert_string_equal(steps_in(*state), "50 40 30 20"); /* 40 is of no use, and does not count */
    assert_ok(prune(*state, 40, 1, &err), &err);          /* 50 is of another history */
    assert_string_equal(steps_in(*state), "50 40 30");
    assert_ok(prune(*state, 50, 1, &err), &err);
    assert_string_equal(steps_in(*state), "50");
    assert_int_equal(access(attempt_at(*state, 60), F_OK), 0); /* perhaps being written */
    assert_int_not_equal(access(attempt_at(*state, 20), F_OK), 0);
    assert_string_equal(steps_in("/nonexistent"), "");
}

/* A step whose owner cannot be read may be another's: it is not deleted, nor is its name taken. */
static void a_step_of_unknown_owner_stays(void **state)
{
    static const char *const harm[] = {"manifest", "manifest and shard", "format", "pipe"};
    const struct hsp_whose ours = whose;
    struct hsp_err err = {0};
    struct layout l;
    char path[4300];
    for (int h = 0; h < 4; h++) {
        whose.cluster.lo =
            h == 0 ? ours.cluster.lo + 1 : ours.cluster.lo; /* 0: another cluster's */
        write_step(*state, 10, 1, 1);
        whose = ours;
        (void)snprintf(path, sizeof path, "%s/step-0000000010/manifest.json", (char *)*state);
        if (h < 2) {
            spoil_manifest(*state, "step-0000000010");
        } else if (h == 2) {
            assert_ok(hsp_file_write(path, "{\"format\": 3}", 13, 0600, &err), &err);
        } else {
            assert_int_equal(unlink(path), 0);
            assert_int_equal(mkfifo(path, 0600), 0);
        }
        (void)snprintf(path, sizeof path, "%s/step-0000000010/" SHARD_1, (char *)*state);
        if (h == 1 || h == 3) {
            flip_bit(path, 9, 1);
        }
        write_step(*state, 20, 1, 1);
        assert_ok(prune(*state, 20, 1, &err), &err);
        if (strcmp(steps_in(*state), "20 10") != 0) {
            fail_msg("%s: %s", harm[h], steps_in(*state));
        }
        struct hsp_ckpt_info info = info_of(10, 1);
        layout_init(&l, 1, 1, 10);
        assert_ok(write_rank(*state, &info, &l, 0, &err), &err);
        assert_status(commit(*state, &info, &err), HSP_EEXIST);
        assert_non_null(strstr(err.msg, h == 0 ? "is of another cluster, and stays: move it"
                                               : "may be of another job or cluster, and stays"));
        layout_fini(&l);
        hsp_test_rmdir(*state);
        assert_int_equal(mkdir(*state, 0700), 0);
    }
}

/* A job that gets the name of one that has ended: the steps of that one stay, and can be read. */
static void steps_of_an_earlier_job_stay(void **state)
{
    struct hsp_err err = {0};
    struct hsp_ckpt *c = NULL;
    write_step(*state, 10, 1, 1);
    write_step(*state, 20, 1, 2);
    spoil_manifest(*state, "step-0000000010");
    job = 4;
    write_step(*state, 10, 1, 3);
    assert_string_equal(steps_in(*state), "20 10 10.3");
    assert_int_equal(last.aside, 3);
    write_step(*state, 20, 1, 4);
    write_step(*state, 30, 1, 5);
    assert_int_equal(last.aside, 0);
    assert_ok(prune(*state, 30, 1, &err), &err);
    assert_string_equal(steps_in(*state), "30 20.3 10.3");
    write_step(*state, 20, 1, 6);
    for (uint32_t whom = 3; whom <= 5; whom++) {
        assert_ok(hsp_ckpt_open(*state, 20, whom, &c, &err), &err);
        assert_int_equal(hsp_ckpt_about(c)->job_id, whom == 5 ? 4 : whom);
        assert_right(c, 20);
        (void)hsp_ckpt_close(c);
    }
    job = 3; /* is resumed, and comes to this step anew */
    write_step(*state, 20, 1, 7);
    assert_string_equal(steps_in(*state), "30 20 20.4 10.3");
    assert_ok(prune(*state, 20, 1, &err), &err);
    assert_string_equal(steps_in(*state), "30 20 20.4"); /* 10.3 is damaged, and its shard says 3 */
}

/* Two clusters that write to one folder delete and replace their own steps alone. */
static void steps_of_another_cluster_stay(void **state)
{
    const struct hsp_digest ours = {1, 2}, theirs = {1, 3};
    struct hsp_err err = {0};
    struct hsp_ckpt *c = NULL;
    struct layout l;
    struct hsp_ckpt_place *steps;
    size_t n;
    for (uint64_t s = 10; s <= 60; s += 10) { /* theirs: 20, 40, 60 */
        whose.cluster = s % 20 == 0 ? theirs : ours;
        write_step(*state, s, 1, s);
    }
    spoil_manifest(*state, "step-0000000020"); /* its shard says whose it is */
    assert_ok(hsp_ckpt_open(*state, 60, 0, &c, &err), &err);
    assert_true(hsp_digest_equal(hsp_ckpt_about(c)->whose.cluster, theirs));
    assert_true(hsp_ckpt_about(c)->whose.generation == UINT64_MAX - 4);
    (void)hsp_ckpt_close(c);
    whose.cluster = ours;
    assert_ok(prune(*state, 60, 2, &err), &err);
    assert_ok(hsp_ckpt_list(*state, &steps, &n, &err), &err);
    assert_int_equal(n, 5);
    assert_true(steps[0].step == 60 && steps[2].step == 40 && steps[3].step == 30 &&
                steps[4].step == 20);
    free(steps);
    struct hsp_ckpt_info info = info_of(40, 1);
    layout_init(&l, 1, 1, 40);
    assert_ok(write_rank(*state, &info, &l, 0, &err), &err);
    assert_status(commit(*state, &info, &err), HSP_EEXIST);
    assert_non_null(strstr(err.msg, "step-0000000040 is of another cluster, and stays: move it"));
    info.whose.cluster = theirs;
    assert_status(commit(*state, &info, &err), HSP_EDIGEST); /* they have not written a shard */
    assert_ok(write_rank(*state, &info, &l, 0, &err), &err);
    assert_ok(commit(*state, &info, &err), &err);
    layout_fini(&l);
}

/* Who may write to checkpoint.path could have a worker write to, and delete from, a folder of its user. */
static void a_link_is_not_followed(void **state)
{
    struct hsp_err err = {0};
    struct hsp_ckpt_info info = info_of(20, 1);
    struct hsp_ckpt *c;
    struct layout l;
    struct hsp_ckpt_place *steps;
    size_t n;
    char link[4096];
    write_step(*state, 10, 1, 1);
    write_step(*state, 15, 1, 1);
    layout_init(&l, 1, 1, 20);
    for (int slash = 0; slash < 2; slash++) { /* behind one it would be followed */
        (void)snprintf(link, sizeof link, "%s-link", (char *)*state);
        assert_int_equal(symlink(*state, link), slash == 0 ? 0 : -1);
        (void)snprintf(link, sizeof link, "%s-link%s", (char *)*state, slash == 0 ? "" : "/");
        const char *what =
            "-link is a symbolic link, which is not followed: put a folder there, or "
            "name the one it leads to";
        assert_status(write_rank(link, &info, &l, 0, &err), HSP_EPERM);
        assert_non_null(strstr(err.msg, what));
        assert_status(commit(link, &info, &err), HSP_EPERM);
        assert_status(hsp_ckpt_open(link, 10, 0, &c, &err), HSP_EPERM);
        assert_status(hsp_ckpt_list(link, &steps, &n, &err), HSP_EPERM);
        assert_status(prune(link, 20, 1, &err), HSP_EPERM);
        assert_status(sweep(link, 20, &err), HSP_EPERM);
        assert_status(hsp_ckpt_abandon(link, &info, &err), HSP_EPERM);
    }
    assert_true(is_there(*state, "step-0000000010") && is_there(*state, "step-0000000015"));
    assert_int_not_equal(access(attempt_at(*state, 20), F_OK), 0);
    (void)snprintf(link, sizeof link, "%s-link", (char *)*state);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("step-0000000010", attempt_at(*state, 20)), 0); /* nor within */
    assert_status(write_rank(*state, &info, &l, 0, &err), HSP_EPERM);
    assert_status(hsp_ckpt_abandon(*state, &info, &err), HSP_EPERM);
    assert_true(is_there(*state, "step-0000000010/manifest.json"));
    layout_fini(&l);
}

static void file_bytes(const char *dir, uint64_t step, uint32_t rank, char **ret, size_t *ret_n)
{
    char path[4400];
    (void)snprintf(path, sizeof path, "%s/shard-%05u-model-%05u-of-00001.safetensors",
                   attempt_at(dir, step), rank + 1, 1U);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *ret = calloc(1, 1U << 20);
    *ret_n = fread(*ret, 1, 1U << 20, f);
    fclose(f);
}

/* Whatever the slabs, a streamed shard has the bytes of one written at once; and what is damaged
 * or lost on the way never becomes a shard. */
static void streamed_shards_are_the_same(void **state)
{
    const char *dir = *state;
    struct hsp_err err = {0};
    static const size_t slab[] = {1, 40, 100, 4096};
    struct hsp_ckpt_info info = info_of(50, 3);
    struct layout l;
    layout_init(&l, 9, 3, 50);
    for (size_t k = 0; k < sizeof slab / sizeof slab[0]; k++) {
        for (uint32_t r = 0; r < 3; r++) {
            char *a, *b;
            size_t n, m;
            assert_ok(write_rank(dir, &info, &l, r, &err), &err);
            file_bytes(dir, 50, r, &a, &n);
            assert_ok(stream_rank(dir, &info, &l, r, slab[k], 0, &err), &err);
            file_bytes(dir, 50, r, &b, &m);
            assert_int_equal(n, m);
            assert_memory_equal(a, b, n);
            free(a);
            free(b);
        }
    }
    for (int harm = 1; harm <= 2; harm++) {
        assert_ok(stream_rank(dir, &info, &l, 1, 64, 0, &err), &err);
        assert_status(stream_rank(dir, &info, &l, 1, 64, harm, &err), HSP_EDIGEST);
        assert_non_null(strstr(err.msg, "not what its owner has"));
        assert_status(commit(dir, &info, &err), HSP_EDIGEST);
    }
    assert_ok(stream_rank(dir, &info, &l, 1, 64, 0, &err), &err);
    assert_ok(commit(dir, &info, &err), &err);
    struct hsp_ckpt *c;
    assert_ok(hsp_ckpt_open(dir, 50, 0, &c, &err), &err);
    assert_ok(hsp_ckpt_verify(c, &err), &err);
    assert_right(c, 50);
    (void)hsp_ckpt_close(c);
    layout_fini(&l);
}

HSP_TEST_FILE(ckpt_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_region_comes_back_from_any_layout, setup, teardown),
        cmocka_unit_test_setup_teardown(content_tells_states_apart_not_layouts, setup, teardown),
        cmocka_unit_test_setup_teardown(commit_refuses_what_is_not_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(streamed_shards_are_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_never_reads_as_state, setup, teardown),
        cmocka_unit_test_setup_teardown(shards_of_two_steps_do_not_mix, setup, teardown),
        cmocka_unit_test_setup_teardown(no_parameter_or_kind_may_be_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(two_halves_must_be_different, setup, teardown),
        cmocka_unit_test_setup_teardown(a_shard_of_another_attempt_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(every_word_of_the_manifest_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(the_place_in_the_data_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(an_older_format_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_format_is_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(without_descriptors_nothing_is_known, setup, teardown),
        cmocka_unit_test_setup_teardown(steps_of_another_cluster_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(prune_keeps_the_newest, setup, teardown),
        cmocka_unit_test_setup_teardown(a_step_of_unknown_owner_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(steps_of_an_earlier_job_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(a_step_has_nothing_of_a_former_attempt, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_deleted_keeps_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(attempts_of_earlier_steps_make_room, setup, teardown),
        cmocka_unit_test_setup_teardown(a_link_is_not_followed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
