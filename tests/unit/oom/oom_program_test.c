/* Fails allocations of proto/layout and proto/program: covers, annotations, program files,
 * sheets. */
#include "tests/lib/testlib.h"

#include "proto/layout/annot.h"
#include "proto/layout/annot_text.h"
#include "proto/layout/box.h"
#include "proto/program/binding_codec.h"
#include "proto/program/corpus.h"
#include "proto/program/data_cursor.h"
#include "proto/program/program_check.h"
#include "proto/program/program_dump.h"
#include "proto/program/program_file.h"
#include "proto/program/program_io.h"
#include "proto/program/sheet.h"
#include "proto/program/template_codec.h"
#include "proto/text/yaml.h"
#include "proto/text/yaml_parse.h"
#include "tests/lib/oom.h"
#include "tests/unit/worker/exec/tiny_program.h"

enum { ARENA = 64 << 20 };

static enum hsp_status no_arena(struct hsp_err *err)
{
    return hsp_err_set(err, HSP_ENOMEM, 0, "no arena");
}

static void a_cover_is_unchanged_when_an_item_finds_no_memory(void **state)
{
    (void)state;
    int64_t before = hsp_oom_live();
    struct hsp_cover c;
    int64_t extent[1] = {100};
    hsp_cover_init(&c, 1, extent);
    for (uint32_t i = 0; i < 40; i++) {
        struct hsp_box b = {.rank = 1, .lo = {i}, .hi = {i + 1}};
        for (struct hsp_oom_try t = {0}; hsp_oom_again(&t);) {
            t.st = hsp_cover_add(&c, i, i, &b);
            hsp_oom_end(&t);
            assert_int_equal(c.n, t.failed ? i : i + 1);
        }
    }
    hsp_cover_normalise(&c);
    assert_int_equal(c.n, 40);
    assert_true(hsp_box_equal(&c.items[39].box, &(struct hsp_box){1, {39}, {40}}));
    hsp_cover_fini(&c);
    assert_int_equal(hsp_oom_live(), before);
}

/* Parses, makes the cover, writes the text. */
static enum hsp_status use_annot(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const char *text = ctx;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return no_arena(err);
    }
    const struct hsp_yaml *y = NULL;
    struct hsp_annot *tree = NULL;
    struct hsp_cover c = {0};
    int64_t extent[2] = {12, 6}, grain[2] = {2, 1};
    enum hsp_status st = hsp_yaml_parse("t", text, strlen(text), a, &y, err);
    st = st != HSP_OK ? st : hsp_annot_parse(y, a, &tree, err);
    st = st != HSP_OK ? st : hsp_annot_cover(tree, 2, extent, grain, &c, err);
    if (st == HSP_OK) {
        hsp_annot_dump(tree, out);
        for (uint32_t i = 0; i < c.n; i++) {
            hsp_buf_printf(out, " %u:%u:%d-%d", c.items[i].rank, c.items[i].addend,
                           (int)c.items[i].box.lo[0], (int)c.items[i].box.hi[0]);
        }
        hsp_cover_fini(&c);
    } else {
        assert_null(c.items); /* on failure it is empty */
    }
    hsp_arena_free(a);
    return st;
}

static void a_tree_of_tiers_is_made_whole_or_not(void **state)
{
    (void)state;
    static char nested[] = "{split: 0, shares: [3, 1, 2], of: [{dup: [0, 1]}, "
                           "{partial: [2, 3, {split: 1, cuts: [0, 2, 6], of: [4, 5]}]}, 6]}";
    static char dups[] = "{dup: [{partial: [{partial: [0, 1]}, 2]}, {partial: [3, 4, 5]}]}";
    hsp_oom_loop("annot", use_annot, nested, 1000);
    hsp_oom_loop("annot", use_annot, dups, 1000);
}

/* Template, binding and file: encode, decode, check, dump. */
static enum hsp_status use_program(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct hsp_program_file *f = ctx;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return no_arena(err);
    }
    struct hsp_program_file g = {0};
    struct hsp_program one = {0};
    struct hsp_buf tpl, bind, file;
    hsp_buf_init(&tpl, 1 << 20);
    hsp_buf_init(&bind, 1 << 20);
    hsp_buf_init(&file, 1 << 22);
    enum hsp_status st = hsp_template_encode(&f->programs[0].tpl, &tpl);
    if (st == HSP_OK) {
        st = hsp_binding_encode(&f->programs[0].tpl, &f->programs[0].bind, &bind);
    }
    st = st != HSP_OK ? st : hsp_program_file_encode(f, &file);
    if (st != HSP_OK) {
        (void)hsp_err_set(err, st, 0, "encoding");
    }
    st = st != HSP_OK ? st : hsp_template_decode(tpl.data, tpl.len, a, &one.tpl, err);
    st = st != HSP_OK ? st : hsp_binding_decode(bind.data, bind.len, &one.tpl, a, &one.bind, err);
    st = st != HSP_OK ? st : hsp_program_check(&one, err);
    st = st != HSP_OK ? st : hsp_program_file_decode(file.data, file.len, a, &g, err);
    if (st == HSP_OK) {
        hsp_program_dump(&one, out);
        hsp_program_dump(&g.programs[1], out);
        hsp_buf_append(out, file.data, file.len);
    }
    hsp_buf_fini(&tpl);
    hsp_buf_fini(&bind);
    hsp_buf_fini(&file);
    hsp_arena_free(a);
    return st;
}

static void programs_are_read_whole_or_not(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    struct hsp_program_file f = tiny_file(&tiny_two, a);
    hsp_oom_loop("program", use_program, &f, 2000);
    hsp_arena_free(a);
}

static void a_digest_is_made_or_there_was_no_memory(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    struct hsp_program *p = tiny_programs(&tiny_two, a);
    struct hsp_digest d = {0};
    for (struct hsp_oom_try t = {0}; hsp_oom_again(&t);) {
        t.st = hsp_template_digest(&p[0].tpl, &d);
        hsp_oom_end(&t);
    }
    assert_true(hsp_digest_equal(d, p[0].tpl.digest));
    struct hsp_buf b;
    struct hsp_pio io = {.out = &b};
    uint64_t v = 1;
    hsp_oom_empty(&b);
    hsp_pio_digest(&io, &d);
    hsp_oom_nothing(&b);
    hsp_oom_empty(&b);
    hsp_pio_u64(&io, &v);
    hsp_oom_nothing(&b);
    uint32_t ranks[2] = {0, 1};
    hsp_oom_empty(&b);
    hsp_pio_u32s(&io, ranks, 2);
    hsp_oom_nothing(&b);
    hsp_arena_free(a);
}

static enum hsp_status use_sheet(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct hsp_binding *b = ctx;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return no_arena(err);
    }
    struct hsp_corpus c;
    struct hsp_sheet t = {0}, e = {0};
    enum hsp_status st = hsp_corpus_init(&b->data, 1000, &c, err);
    st = st != HSP_OK ? st : hsp_sheet_train(b, &c, 3, a, &t);
    st = st != HSP_OK ? st : hsp_sheet_eval(b, &c, a, &e);
    for (uint32_t i = 0; st == HSP_OK && i < t.n_micro; i++) {
        hsp_buf_append(out, t.micro[i].offset, t.micro[i].n_seq * sizeof(uint64_t));
    }
    for (uint32_t i = 0; st == HSP_OK && i < e.n_micro; i++) {
        hsp_buf_append(out, e.micro[i].sample, e.micro[i].n_seq * sizeof(uint64_t));
    }
    hsp_arena_free(a);
    return st;
}

/* Six documents, packed. */
static enum hsp_status use_packing(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct hsp_binding *b = ctx;
    struct hsp_binding packed = *b;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    uint64_t start[7];
    struct hsp_corpus c;
    struct hsp_sheet t = {0}, e = {0};
    if (a == NULL) {
        return no_arena(err);
    }
    for (uint64_t i = 0; i < 7; i++) {
        start[i] = i * 3 | HSP_SAMPLE_HEAD;
    }
    packed.data.samples = HSP_SAMPLES_DOCUMENTS;
    packed.data.longest = packed.data.sequence = 8;
    packed.data.validation_fraction = 0.4;
    enum hsp_status st = hsp_corpus_documents(&packed.data, start, 6, &c, err);
    st = st != HSP_OK ? st : hsp_sheet_train(&packed, &c, 3, a, &t);
    st = st != HSP_OK ? st : hsp_sheet_eval(&packed, &c, a, &e);
    for (uint32_t i = 0; st == HSP_OK && i < t.n_micro; i++) {
        const struct hsp_micro *m = &t.micro[i];
        hsp_buf_append(out, m->first, (m->n_seq + 1) * sizeof *m->first);
    }
    hsp_buf_u32(out, hsp_longest_train(&packed.data, &c, 3) + hsp_longest_eval(&packed.data, &c));
    hsp_arena_free(a);
    return st;
}

static void a_step_sheet_is_made_whole_or_not(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    struct hsp_program *p = tiny_programs(&tiny_two, a);
    hsp_oom_loop_mute("sheet", use_sheet, &p[1].bind, 1000);
    hsp_oom_loop_mute("packing", use_packing, &p[1].bind, 1000);
    hsp_arena_free(a);
}

/* Cursors need no memory: only messages about them may fail. */
static enum hsp_status use_cursor(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct hsp_binding *b = ctx;
    const struct hsp_digest digest = {1, 2};
    struct hsp_data_cursor c, other;
    struct hsp_err differs;
    struct hsp_corpus corpus;
    enum hsp_status st = hsp_corpus_init(&b->data, 1000, &corpus, err);
    if (st != HSP_OK) {
        return st;
    }
    hsp_data_cursor_init(&b->data, &corpus, digest, 4000, 3, &c);
    other = c;
    other.seed++;
    if (hsp_data_cursor_match(&c, &c, &differs) != HSP_OK ||
        hsp_data_cursor_match(&c, &other, &differs) != HSP_ESTATE) {
        return hsp_err_set(err, HSP_EINVAL, 0, "cursors are taken for one another");
    }
    hsp_buf_printf(out, "%llu %llu %llu %llu %s %s", (unsigned long long)hsp_data_cursor_pass(&c),
                   (unsigned long long)hsp_data_cursor_sample(&c),
                   (unsigned long long)hsp_data_cursor_tokens(&c),
                   (unsigned long long)hsp_data_cursor_mark(&c), hsp_data_format_name(c.format),
                   hsp_packing_name(c.packing));
    st = hsp_buf_status(out);
    return st == HSP_OK ? st : hsp_err_set(err, st, 0, "no text");
}

static void a_place_in_the_data_needs_no_memory(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    struct hsp_program *p = tiny_programs(&tiny_two, a);
    hsp_oom_loop("cursor", use_cursor, &p[1].bind, 1000);
    hsp_arena_free(a);
}

HSP_TEST_FILE(oom_program_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cover_is_unchanged_when_an_item_finds_no_memory),
        cmocka_unit_test(a_tree_of_tiers_is_made_whole_or_not),
        cmocka_unit_test(programs_are_read_whole_or_not),
        cmocka_unit_test(a_digest_is_made_or_there_was_no_memory),
        cmocka_unit_test(a_step_sheet_is_made_whole_or_not),
        cmocka_unit_test(a_place_in_the_data_needs_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
