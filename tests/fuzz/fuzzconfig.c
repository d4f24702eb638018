#include "tests/fuzz/fuzzconfig.h"

#include <string.h>

enum { TEXT_MAX = 1 << 20 };

/* False: a value is not KEY=VALUE, or there are too many. */
static bool split(const uint8_t *data, size_t len, struct hsp_arena *arena, struct hsp_layers *ret)
{
    const uint8_t *zero = len > 0 ? memchr(data, 0, len) : NULL;
    size_t n = zero != NULL ? (size_t)(zero - data) : len;
    *ret = (struct hsp_layers){.name = "fuzz", .len = n};
    ret->text = hsp_arena_memdup(arena, len > 0 ? data : (const uint8_t *)"", n);
    HSP_ASSERT(ret->text != NULL);
    while (n < len) {
        const char *arg = (const char *)data + n + 1;
        size_t k = strnlen(arg, len - n - 1);
        char *copy = hsp_arena_strndup(arena, arg, k);
        HSP_ASSERT(copy != NULL);
        if (hsp_layers_arg(ret, copy, arena, NULL) != HSP_OK) {
            return false;
        }
        n += 1 + k;
    }
    return true;
}

/* One line that begins with the place. */
static void check_error(enum hsp_status st, const struct hsp_err *err)
{
    HSP_ASSERT(st == HSP_EPARSE || st == HSP_ELIMIT || st == HSP_ENOMEM);
    HSP_ASSERT(err->code == st);
    HSP_ASSERT(err->msg[0] != '\0' && strchr(err->msg, '\n') == NULL);
    HSP_ASSERT(st != HSP_EPARSE || strncmp(err->msg, "fuzz:", 5) == 0 ||
               strncmp(err->msg, "command line:", 13) == 0);
}

/* The printed text without its comments: the origins differ. */
static void strip_origins(struct hsp_buf *b, struct hsp_buf *out)
{
    const char *s = hsp_buf_cstr(b);
    while (*s != '\0') {
        size_t n = strcspn(s, "\n");
        const char *mark = NULL;
        for (const char *p = s; p + 3 <= s + n; p++) {
            mark = memcmp(p, "  #", 3) == 0 ? p : mark;
        }
        hsp_buf_append(out, s, mark != NULL ? (size_t)(mark - s) : n);
        hsp_buf_u8(out, '\n');
        s += n + (s[n] == '\n');
    }
}

static void *load(const struct hsp_fuzz_config *kind, const struct hsp_layers *l,
                  struct hsp_arena *arena, enum hsp_status *ret, struct hsp_err *err)
{
    void *c = hsp_arena_alloc(arena, kind->size);
    HSP_ASSERT(c != NULL);
    *ret = kind->load(l, arena, c, err);
    return c;
}

void hsp_fuzz_config_one(const struct hsp_fuzz_config *kind, const uint8_t *data, size_t len)
{
    struct hsp_arena *arena = hsp_fuzz_arena();
    struct hsp_err err = {0};
    struct hsp_layers l;
    struct hsp_buf b[4];
    enum hsp_status st;
    if (!split(data, len, arena, &l)) {
        return;
    }
    void *c = load(kind, &l, arena, &st, &err);
    if (st != HSP_OK) {
        check_error(st, &err);
        return;
    }
    for (int i = 0; i < 4; i++) {
        hsp_buf_init(&b[i], TEXT_MAX);
    }
    kind->print(c, &b[0]);
    l = (struct hsp_layers){.name = "printed", .text = hsp_buf_cstr(&b[0]), .len = b[0].len};
    void *back = load(kind, &l, arena, &st, &err);
    if (st != HSP_OK) {
        hsp_assert_fail(err.msg, __FILE__, __LINE__);
    }
    kind->print(back, &b[1]);
    strip_origins(&b[0], &b[2]);
    strip_origins(&b[1], &b[3]);
    hsp_fuzz_same(&b[2], &b[3]);
    for (int i = 0; i < 4; i++) {
        hsp_buf_fini(&b[i]);
    }
}

void hsp_fuzz_config_defaults(const struct hsp_fuzz_config *kind, struct hsp_buf *out)
{
    struct hsp_layers l = {.name = "defaults", .text = ""};
    struct hsp_err err = {0};
    enum hsp_status st;
    void *c = load(kind, &l, hsp_fuzz_arena(), &st, &err);
    HSP_ASSERT(st == HSP_OK);
    kind->print(c, out);
}
