/* Writes checkpoints and reads them back: any region, any layout, any damage. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/host/file_io.h"
#include "proto/layout/box.h"
#include "tests/unit/worker/state/ckpt_lib.h"
#include "tests/unit/worker/state/shard_write.h"
#include "worker/state/box_hash.h"
#include "worker/state/ckpt_read.h"
#include "worker/state/ckpt_shard.h"
#include "worker/state/ckpt_steps.h"

/* Rank @rank's pieces of @l as a stream: hashes first, then slabs of at most @max bytes, the pieces
 * from the last to the first. @harm: 1 flips a bit on the way, 2 loses a slab. */
static enum hsp_status stream_rank(const char *dir, const struct hsp_ckpt_info *info,
                                   const struct ck_layout *l, uint32_t rank, size_t max, int harm,
                                   struct hsp_err *err)
{
    struct hsp_ckpt_piece mine[CK_PIECES] = {0};
    const struct hsp_ckpt_piece *from[CK_PIECES] = {0};
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

static void any_region_comes_back_from_any_layout(void **state)
{
    struct hsp_err err = {0};
    for (uint64_t step = 0; step < 12; step++) {
        struct hsp_ckpt *c;
        ck_write_step(*state, step, 1 + (uint32_t)(step % 5), step);
        assert_ok(hsp_ckpt_open(*state, step, 0, &c, &err), &err);
        assert_int_equal(hsp_ckpt_count(c), CK_TENSORS * 3);
        assert_string_equal(hsp_ckpt_about(c)->job, "gpt");
        assert_true(hsp_ckpt_about(c)->term == 2 && hsp_ckpt_about(c)->epoch == 7);
        assert_ok(hsp_ckpt_verify(c, &err), &err);
        ck_assert_right(c, step);
        for (uint64_t i = 0; i < 30; i++) {
            const struct ck_tensor *t = &ck_tensors[i % CK_TENSORS];
            uint8_t kind = (uint8_t)(i % 3);
            const struct hsp_ckpt_tensor *ct = hsp_ckpt_find(c, t->name, kind);
            struct hsp_box whole = hsp_box_whole(t->rank, t->full);
            struct hsp_box dst = random_inside(&whole, "dst", step * 99 + i);
            struct hsp_box want = random_inside(&dst, "want", step * 99 + i);
            float x[23 * 8];
            assert_non_null(ct);
            assert_ok(hsp_ckpt_read(c, ct, &want, &dst, x, &err), &err);
            assert_int_equal(wrong_in_box(HSP_F32, (uint32_t)(i % CK_TENSORS), kind, step, t->full,
                                          &want, &dst, x),
                             0);
        }
        struct hsp_box out = hsp_box_whole(2, ck_tensors[0].full);
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
    ck_write_step(dir, step, n_ranks, seed);
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
    struct hsp_ckpt_info info = ck_info_of(5, 3), other = info;
    struct hsp_err err = {0};
    struct ck_layout l;
    struct hsp_ckpt *c;
    struct hsp_ckpt_place *steps;
    size_t n;
    ck_layout_init(&l, 1, 3, 5);
    assert_ok(ck_write_rank(*state, &info, &l, 0, &err), &err);
    assert_ok(ck_write_rank(*state, &info, &l, 1, &err), &err);
    assert_status(ck_commit(*state, &info, &err), HSP_EDIGEST); /* rank 2 is missing */
    other.epoch = info.epoch + 1;
    assert_ok(ck_write_rank(*state, &other, &l, 2, &err), &err);
    assert_status(ck_commit(*state, &info, &err), HSP_EDIGEST); /* of another attempt */
    struct hsp_ckpt_piece mine[CK_PIECES];
    size_t k = 0;
    for (size_t i = 0; i < l.n; i++) {
        if (l.rank[i] == 2) {
            mine[k++] = l.piece[i];
        }
    }
    assert_true(k > 2);
    assert_ok(shard_write(*state, &info, 2, mine, k - 1, NULL, &err), &err); /* a hole */
    assert_status(ck_commit(*state, &info, &err), HSP_EDIGEST);
    mine[k] = mine[0];
    assert_ok(shard_write(*state, &info, 2, mine, k + 1, NULL, &err), &err); /* twice */
    assert_status(ck_commit(*state, &info, &err), HSP_EDIGEST);
    assert_ok(hsp_ckpt_list(*state, &steps, &n, &err), &err);
    assert_int_equal(n, 0);
    free(steps);
    assert_status(hsp_ckpt_open(*state, 5, 0, &c, &err), HSP_ENOENT);
    assert_ok(shard_write(*state, &info, 2, mine, k, NULL, &err), &err);
    assert_ok(ck_commit(*state, &info, &err), &err);
    for (uint32_t r = 0; r < 3; r++) { /* the step again, of a later history */
        assert_ok(ck_write_rank(*state, &other, &l, r, &err), &err);
    }
    assert_ok(ck_commit(*state, &other, &err), &err);
    assert_ok(hsp_ckpt_open(*state, 5, 0, &c, &err), &err);
    assert_true(hsp_ckpt_about(c)->epoch == other.epoch);
    hsp_ckpt_close(c);
    assert_status(shard_write(*state, &info, 3, mine, k, NULL, &err), HSP_EINVAL);
    mine[0].kind = 9;
    assert_status(shard_write(*state, &info, 2, mine, k, NULL, &err), HSP_EINVAL);
    assert_ok(hsp_ckpt_abandon(*state, &info, &err), &err);
    assert_ok(hsp_ckpt_abandon(*state, &info, &err), &err);
    ck_layout_fini(&l);
}

/* Returns 1 when the damage is noticed, by verification and by reading. The data read are right in
 * any case. */
static int noticed(const char *dir, uint64_t step)
{
    struct hsp_ckpt *c;
    struct hsp_err err = {0};
    size_t refused;
    if (hsp_ckpt_open(dir, step, 0, &c, &err) != HSP_OK) {
        return 1;
    }
    int seen = hsp_ckpt_verify(c, &err) == HSP_EDIGEST;
    assert_int_equal(ck_wrong_tensors(c, step, &refused), 0);
    assert_true(seen == (refused > 0));
    hsp_ckpt_close(c);
    return seen;
}

/* Makes a file look as if it had no sums: the name of their key gets another letter. */
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
    ck_write_step(*state, 3, 2, 4);
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
        /* not noticed: white space, and fields for PyTorch only */
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
    ck_write_step(*state, 1, 2, 4);
    ck_write_step(*state, 2, 2, 4);
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
    struct hsp_ckpt_info info = ck_info_of(1, 2);
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
        assert_ok(shard_write(dir, &info, r, &p, 1, NULL, err), err);
    }
    (void)ck_commit(dir, &info, err);
}

static void no_parameter_or_kind_may_be_missing(void **state)
{
    static const int64_t full[] = {4};
    struct hsp_ckpt_info info = ck_info_of(1, 1);
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
        assert_ok(shard_write(*state, &info, 0, p, n, NULL, &err), &err);
        assert_status(ck_commit(*state, &info, &err), skip < 6 ? HSP_EDIGEST : HSP_OK);
    }
    info.step = 2;
    assert_ok(shard_write(*state, &info, 0, p, 4, NULL, &err), &err); /* c is missing */
    assert_status(ck_commit(*state, &info, &err), HSP_EDIGEST);
    assert_ok(shard_write(*state, &info, 0, p + 2, 4, NULL, &err), &err); /* a */
    assert_status(ck_commit(*state, &info, &err), HSP_EDIGEST);
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
    assert_int_equal(mkdir(other, 0700), 0);
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
        struct hsp_data_cursor want = ck_data_of(step);
        ck_write_step(*state, step, 2, step);
        assert_ok(hsp_ckpt_open(*state, step, 0, &c, &err), &err);
        assert_ok(hsp_data_cursor_match(&want, hsp_ckpt_data(c), &err), &err);
        (void)hsp_ckpt_close(c);
    }
}

/* The older format is of a program that did not record the place in the data. */
static void an_older_format_is_refused(void **state)
{
    static const char text[] = "{\"format\":1,\"shards\":[],\"digest\":\"1\"}";
    struct hsp_err err = {0};
    struct hsp_ckpt *c;
    char path[4096];
    ck_write_step(*state, 3, 1, 3);
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

/* Offset of the digit of the format in file @path: behind "format": or \"format\": in a text within
 * a text. */
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

/* A flipped bit of the format makes another number. Such a flip is damage, for which another
 * checkpoint is taken, and not a format of another program. */
static void a_damaged_format_is_damage(void **state)
{
    static const char *const files[] = {"manifest.json",
                                        "shard-00001-model-00001-of-00001.safetensors"};
    for (int i = 0; i < 2; i++) {
        struct hsp_err err = {0};
        struct hsp_ckpt *c;
        char path[4096];
        ck_write_step(*state, 3, 1, 3);
        (void)snprintf(path, sizeof(path), "%s/step-0000000003/%s", (char *)*state, files[i]);
        flip_bit(path, format_at(path), 0);
        assert_status(hsp_ckpt_open(*state, 3, 0, &c, &err), HSP_EDIGEST);
        assert_non_null(strstr(err.msg, files[i]));
        assert_non_null(strstr(err.msg, "is damaged"));
    }
}

/* A step that cannot be looked at for lack of descriptors is not known; it may be the latest. */
static void without_descriptors_nothing_is_known(void **state)
{
    struct hsp_err err = {0};
    struct hsp_ckpt *c = NULL;
    struct hsp_ckpt_place *steps;
    size_t n;
    ck_write_step(*state, 5, 2, 1);
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

static void file_bytes(const char *dir, uint64_t step, uint32_t rank, char **ret, size_t *ret_n)
{
    char path[4400];
    (void)snprintf(path, sizeof path, "%s/shard-%05u-model-%05u-of-00001.safetensors",
                   ck_attempt_at(dir, step), rank + 1, 1U);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *ret = calloc(1, 1U << 20);
    *ret_n = fread(*ret, 1, 1U << 20, f);
    fclose(f);
}

/* With slabs of any size, a streamed shard has the bytes of one written at once; and data damaged
 * or lost on the way never become a shard. */
static void streamed_shards_are_the_same(void **state)
{
    const char *dir = *state;
    struct hsp_err err = {0};
    static const size_t slab[] = {1, 40, 100, 4096};
    struct hsp_ckpt_info info = ck_info_of(50, 3);
    struct ck_layout l;
    ck_layout_init(&l, 9, 3, 50);
    for (size_t k = 0; k < sizeof slab / sizeof slab[0]; k++) {
        for (uint32_t r = 0; r < 3; r++) {
            char *a, *b;
            size_t n, m;
            assert_ok(ck_write_rank(dir, &info, &l, r, &err), &err);
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
        assert_non_null(strstr(err.msg, "differs from the copy of its owner"));
        assert_status(ck_commit(dir, &info, &err), HSP_EDIGEST);
    }
    assert_ok(stream_rank(dir, &info, &l, 1, 64, 0, &err), &err);
    assert_ok(ck_commit(dir, &info, &err), &err);
    struct hsp_ckpt *c;
    assert_ok(hsp_ckpt_open(dir, 50, 0, &c, &err), &err);
    assert_ok(hsp_ckpt_verify(c, &err), &err);
    ck_assert_right(c, 50);
    (void)hsp_ckpt_close(c);
    ck_layout_fini(&l);
}

HSP_TEST_FILE(ckpt_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_region_comes_back_from_any_layout, ck_setup,
                                        ck_teardown),
        cmocka_unit_test_setup_teardown(content_tells_states_apart_not_layouts, ck_setup,
                                        ck_teardown),
        cmocka_unit_test_setup_teardown(commit_refuses_what_is_not_whole, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(streamed_shards_are_the_same, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(damage_never_reads_as_state, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(shards_of_two_steps_do_not_mix, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(no_parameter_or_kind_may_be_missing, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(two_halves_must_be_different, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(a_shard_of_another_attempt_is_refused, ck_setup,
                                        ck_teardown),
        cmocka_unit_test_setup_teardown(every_word_of_the_manifest_counts, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(the_place_in_the_data_comes_back, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(an_older_format_is_refused, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_format_is_damage, ck_setup, ck_teardown),
        cmocka_unit_test_setup_teardown(without_descriptors_nothing_is_known, ck_setup,
                                        ck_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
