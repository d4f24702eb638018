/* Shares helpers among the targets. HSPMD_SRC names the source tree. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

enum { SEED_MAX = 4 << 20 };

struct hsp_arena *hsp_fuzz_arena(void)
{
    static struct hsp_arena *arena;
    if (arena == NULL) {
        arena = hsp_arena_new(HSP_FUZZ_ARENA);
        HSP_ASSERT(arena != NULL);
    }
    hsp_arena_reset(arena);
    return arena;
}

void hsp_fuzz_same(struct hsp_buf *a, struct hsp_buf *b)
{
    HSP_ASSERT(!a->failed);
    HSP_ASSERT(!b->failed);
    if (a->len != b->len || (a->len > 0 && memcmp(a->data, b->data, a->len) != 0)) {
        fprintf(stderr, "--- one\n%s\n--- other\n%s\n", hsp_buf_cstr(a), hsp_buf_cstr(b));
        hsp_assert_fail("the two are the same", __FILE__, __LINE__);
    }
}

static void one_file(const char *path, void (*f)(const char *, const uint8_t *, size_t))
{
    struct stat st;
    FILE *in = fopen(path, "rb");
    HSP_ASSERT(in != NULL);
    HSP_ASSERT(fstat(fileno(in), &st) == 0);
    HSP_ASSERT(st.st_size <= SEED_MAX);
    size_t n = (size_t)st.st_size;
    uint8_t *data = malloc(n + 1); /* exactly as long as the input but for n = 0 */
    HSP_ASSERT(data != NULL);
    HSP_ASSERT(fread(data, 1, n, in) == n);
    (void)fclose(in); /* read only */
    f(path, data, n);
    free(data);
}

static size_t each_file(const char *folder, void (*f)(const char *, const uint8_t *, size_t))
{
    const char *src = getenv("HSPMD_SRC");
    char dir[2048], path[4096];
    size_t n_files = 0;
    (void)snprintf(dir, sizeof dir, "%s/%s", src != NULL ? src : ".", folder);
    struct dirent **e = NULL;
    int n = scandir(dir, &e, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        struct stat st;
        (void)snprintf(path, sizeof path, "%s/%s", dir, e[i]->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
            one_file(path, f);
            n_files++;
        }
        free(e[i]);
    }
    free(e);
    return n_files;
}

void hsp_fuzz_each_seed(void (*f)(const char *name, const uint8_t *data, size_t len))
{
    char name[256];
    for (size_t i = 0; hsp_fuzz.seed != NULL; i++) {
        struct hsp_buf b;
        hsp_buf_init(&b, SEED_MAX);
        bool more = hsp_fuzz.seed(i, &b);
        HSP_ASSERT(!b.failed);
        if (more) {
            (void)snprintf(name, sizeof name, "made-%03zu", i);
            f(name, b.data, b.len);
        }
        hsp_buf_fini(&b);
        if (!more) {
            break;
        }
    }
    if (hsp_fuzz.folder != NULL) {
        HSP_ASSERT(each_file(hsp_fuzz.folder, f) > 0); /* the folder was moved */
    }
    (void)snprintf(name, sizeof name, "tests/fuzz/seeds/%s", hsp_fuzz.name);
    (void)each_file(name, f); /* there need not be any */
}
