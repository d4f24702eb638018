#include "tests/lib/golden.h"

#include <stdio.h>

#include "tests/lib/testlib.h"

#define SHOWN 12 /* lines that differ */

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
    char file[256], path[4096];
    (void)snprintf(file, sizeof file, "tests/golden/%s", name);
    (void)snprintf(path, sizeof path, "%s/%s", src != NULL ? src : ".", file);
    const char *got = hsp_buf_cstr(text);
    assert_false(text->failed);
    if (how != NULL && strcmp(how, "write") == 0) {
        write_all(path, got);
        return;
    }
    char *want = hsp_test_source(file);
    unsigned n = compare(want, got);
    free(want);
    if (n != 0) {
        fail_msg("%u lines differ from tests/golden/%s; HSPMD_GOLDEN=write writes it anew", n,
                 name);
    }
}
