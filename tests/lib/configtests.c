#include "tests/lib/configtests.h"

#include <stdio.h>

#include "proto/base/size.h"

struct subject { /* of one test */
    const struct ct_program *p;
    struct hsp_arena *arena;
    void *c; /* its configuration */
};

static struct subject begin(void **state)
{
    struct subject t = {.p = *state, .arena = hsp_arena_new(1 << 20)};
    assert_non_null(t.arena);
    t.c = hsp_arena_alloc(t.arena, t.p->size);
    assert_non_null(t.c);
    return t;
}

void ct_wrong_files_say_where_and_what(void **state)
{
    struct subject t = begin(state);
    for (size_t i = 0; i < t.p->n_wrong; i++) {
        const struct ct_wrong *w = &t.p->wrong[i];
        struct hsp_err err = {0};
        assert_status(t.p->parse(w->text, strlen(w->text), "x.yaml", t.arena, t.c, &err),
                      HSP_EPARSE);
        assert_non_null(strstr(err.msg, "x.yaml"));
        assert_non_null(strstr(err.msg, w->want));
    }
    hsp_arena_free(t.arena);
}

void ct_the_shipped_file_is_the_generated_one(void **state)
{
    const struct ct_program *p = *state;
    char *text = hsp_test_source(p->file);
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    p->example(&b);
    assert_string_equal(text, hsp_buf_cstr(&b)); /* else: --print-example of the program */
    hsp_buf_fini(&b);
    free(text);
}

void ct_layers_win_in_their_order_and_say_so(void **state)
{
    struct subject t = begin(state);
    struct hsp_err err = {0};
    struct hsp_buf b;
    char *env[] = {hsp_arena_printf(t.arena, "%sLOG_LEVEL=debug", t.p->prefix),
                   hsp_arena_printf(t.arena, "OTHER=1"),
                   hsp_arena_printf(t.arena, "%sLISTEN=127.0.0.1:9", t.p->prefix), NULL};
    const char *text =
        hsp_arena_printf(t.arena, "log_level: warn\n\n%s: %s\n", t.p->time, t.p->set);
    struct hsp_layers l = {.name = "f.yaml", .text = text, .len = strlen(text)};
    assert_ok(hsp_layers_env(&l, t.p->prefix, env, t.arena, &err), &err);
    assert_ok(hsp_layers_arg(&l, "listen=localhost:8", t.arena, &err), &err);
    assert_ok(t.p->load(&l, t.arena, t.c, &err), &err);
    const char *lines[] = {
        "listen: \"localhost:8\"  # command line\n",
        hsp_arena_printf(t.arena, "log_level: debug  # environment %sLOG_LEVEL\n", t.p->prefix),
        hsp_arena_printf(t.arena, "%s: %s  # f.yaml:3\n", t.p->time, t.p->set), t.p->untouched};
    hsp_buf_init(&b, 1 << 20);
    t.p->print(t.c, &b);
    const char *out = hsp_buf_cstr(&b);
    for (size_t i = 0; i < HSP_ARRAY_LEN(lines); i++) {
        assert_non_null(strstr(out, lines[i]));
    }
    assert_ok(t.p->parse(out, strlen(out), "again", t.arena, t.c, &err), &err);
    hsp_buf_fini(&b);
    hsp_arena_free(t.arena);
}

void ct_wrong_settings_say_which(void **state)
{
    struct subject t = begin(state);
    const struct ct_wrong cases[] = {
        {"lisen=a:1", "did you mean \"listen\""},
        {"log_level=loud", "command line:1:1: log_level"},
        {hsp_arena_printf(t.arena, "%s=[", t.p->time), "command line"}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        struct hsp_err err = {0};
        struct hsp_layers l = {.name = "f", .text = ""};
        assert_ok(hsp_layers_arg(&l, cases[i].text, t.arena, &err), &err);
        assert_status(t.p->load(&l, t.arena, t.c, &err), HSP_EPARSE);
        assert_non_null(strstr(err.msg, cases[i].want));
    }
    struct hsp_err err = {0};
    struct hsp_layers l = {.name = "f", .text = ""};
    assert_status(hsp_layers_arg(&l, "listen", t.arena, &err), HSP_EINVAL);
    hsp_arena_free(t.arena);
}

/* Whether two configurations have the same value of @key. */
static bool same(const struct ct_program *p, const char *key, const void *a, const void *b)
{
    size_t n, i = 0;
    const struct hsp_cfg_field *f = p->fields(&n);
    while (i < n && strcmp(f[i].path, key) != 0) {
        i++;
    }
    assert_true(i < n);
    return hsp_field_same(&f[i], a, b);
}

void ct_a_reload_takes_what_may_change_and_lists_the_rest(void **state)
{
    struct subject t = begin(state);
    struct hsp_err err = {0};
    struct hsp_buf live, rest;
    const char *text = hsp_arena_printf(t.arena, "log_level: debug\nlisten: 127.0.0.1:99\n%s: %s\n",
                                        t.p->time, t.p->set);
    const char *want = hsp_arena_printf(t.arena, "%s %s -> %s, log_level info -> debug", t.p->time,
                                        t.p->was, t.p->set);
    void *d = hsp_arena_alloc(t.arena, t.p->size);
    size_t n;
    const struct hsp_cfg_field *fields = t.p->fields(&n);
    assert_ok(t.p->parse("", 0, "a", t.arena, t.c, &err), &err);
    assert_ok(t.p->parse(text, strlen(text), "b", t.arena, d, &err), &err);
    hsp_buf_init(&live, 4096);
    hsp_buf_init(&rest, 4096);
    hsp_layers_apply(fields, n, t.c, d, &live, &rest);
    assert_string_equal(hsp_buf_cstr(&live), want);
    assert_string_equal(hsp_buf_cstr(&rest), "listen");
    assert_true(same(t.p, "log_level", t.c, d));
    assert_true(same(t.p, t.p->time, t.c, d));
    assert_false(same(t.p, "listen", t.c, d));
    hsp_buf_fini(&live);
    hsp_buf_fini(&rest);
    hsp_arena_free(t.arena);
}
