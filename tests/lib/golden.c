#include "tests/lib/golden.h"

#include <stdio.h>

#include "tests/lib/testlib.h"

#define GOLDEN_MAX (4u << 20)
#define SHOWN      12 /* lines that differ */

static char *read_all(const char *path)
{
    char *text = calloc(1, GOLDEN_MAX + 1);
    FILE *f = fopen(path, "r");
    if (text == NULL || f == NULL) {
        fail_msg("cannot read %s", path);
        return NULL;
    }
    size_t n = fread(text, 1, GOLDEN_MAX, f);
    text[n] = '\0';
    (void)fclose(f);
    return text;
}

static void write_all(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0) {
        fail_msg("cannot write %s", path);
    }
}

/* Line by line: a change inside a line is shown, and the rest is still in step. */
static unsigned compare(const char *want, const char *got)
{
    unsigned n = 0;
    while (*want != '\0' || *got != '\0') {
        size_t a = strcspn(want, "\n"), b = strcspn(got, "\n");
        if (a != b || memcmp(want, got, a) != 0) {
            n++;
            if (n <= SHOWN) {
                (void)fprintf(stderr, "# - %.*s\n# + %.*s\n", (int)a, want, (int)b, got);
            }
        }
        want += a + (want[a] != '\0');
        got += b + (got[b] != '\0');
    }
    return n;
}

void hsp_golden_check(const char *name, struct hsp_buf *text)
{
    const char *src = getenv("HSPMD_SRC"), *how = getenv("HSPMD_GOLDEN");
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/tests/golden/%s", src != NULL ? src : ".", name);
    const char *got = hsp_buf_cstr(text);
    assert_false(text->failed);
    if (how != NULL && strcmp(how, "write") == 0) {
        write_all(path, got);
        return;
    }
    char *want = read_all(path);
    unsigned n = compare(want, got);
    free(want);
    if (n != 0) {
        fail_msg("%u lines differ from tests/golden/%s; HSPMD_GOLDEN=write writes it anew", n,
                 name);
    }
}
