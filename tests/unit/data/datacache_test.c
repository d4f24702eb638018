#include "tests/lib/testlib.h"

#include <fcntl.h> /* AT_FDCWD */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/data/datacache.h"

struct world {
    char *dir;
    char path[300];
    struct hsp_data_cache *cache;
};

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->dir = hsp_test_tmpdir();
    w->cache = hsp_data_cache_new();
    assert_non_null(w->cache);
    (void)snprintf(w->path, sizeof w->path, "%s/text", w->dir);
    put_file(w->path, "in the beginning");
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    (void)hsp_data_cache_free(w->cache);
    hsp_test_rmdir(w->dir);
    free(w->dir);
    free(w);
    return 0;
}

static const struct hsp_held_data *get(struct world *w, const char *path)
{
    const struct hsp_held_data *d = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_data_cache_get(w->cache, path, HSP_DATA_TEXT, 256, &d, &err), &err);
    return d;
}

/* The same object: nothing was opened or read again. */
static void unchanged_files_are_read_once(void **state)
{
    struct world *w = *state;
    const struct hsp_held_data *a = get(w, w->path), *b = get(w, w->path);
    assert_ptr_equal(a, b);
    assert_true(hsp_digest_equal(a->digest, hsp_hash128("in the beginning", 16)));
    (void)hsp_data_cache_put(w->cache, a);
    (void)hsp_data_cache_put(w->cache, b);
    assert_ptr_equal(get(w, w->path), a); /* also when nobody has it at the moment */
    assert_null(hsp_data_cache_put(w->cache, a));
}

/* Of the same size and in the same second, in place or exchanged: read again. Who holds the old one
 * keeps it. */
static void changed_files_are_read_again(void **state)
{
    struct world *w = *state;
    char other[300];
    const struct hsp_held_data *a = get(w, w->path);
    (void)snprintf(other, sizeof other, "%s/other", w->dir);
    put_file(other, "at the beginning");
    assert_int_equal(rename(other, w->path), 0);
    const struct hsp_held_data *b = get(w, w->path);
    assert_ptr_not_equal(a, b);
    assert_memory_equal(a->set.file[0].all.data, "in the beginning", 16);
    assert_memory_equal(b->set.file[0].all.data, "at the beginning", 16);
    assert_false(hsp_digest_equal(a->digest, b->digest));
    (void)hsp_data_cache_put(w->cache, a);
    FILE *f = fopen(w->path, "r+");
    assert_non_null(f);
    assert_int_equal(fputc('A', f), 'A');
    assert_int_equal(fclose(f), 0);
    const struct timespec then[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, w->path, then, 0), 0);
    const struct hsp_held_data *c = get(w, w->path);
    assert_ptr_not_equal(b, c);
    assert_false(hsp_digest_equal(b->digest, c->digest));
    (void)hsp_data_cache_put(w->cache, b);
    (void)hsp_data_cache_put(w->cache, c);
}

/* A pattern stands for the files there are now. */
static void a_file_more_is_noticed(void **state)
{
    struct world *w = *state;
    char pattern[320], more[320];
    (void)snprintf(pattern, sizeof pattern, "%s/tex*", w->dir);
    (void)snprintf(more, sizeof more, "%s/texu", w->dir);
    const struct hsp_held_data *a = get(w, pattern);
    put_file(more, "x");
    const struct hsp_held_data *b = get(w, pattern);
    assert_ptr_not_equal(a, b);
    assert_int_equal(b->set.n_files, 2);
    assert_int_equal(unlink(more), 0);
    const struct hsp_held_data *c = get(w, pattern);
    assert_ptr_not_equal(b, c);
    assert_int_equal(c->set.n_files, 1);
    (void)hsp_data_cache_put(w->cache, a);
    (void)hsp_data_cache_put(w->cache, b);
    (void)hsp_data_cache_put(w->cache, c);
}

/* What was compared with one vocabulary says nothing of a smaller one. */
static void a_smaller_vocabulary_is_compared(void **state)
{
    struct world *w = *state;
    struct hsp_err err = {0};
    const struct hsp_held_data *a = get(w, w->path), *b = NULL;
    assert_status(hsp_data_cache_get(w->cache, w->path, HSP_DATA_TEXT, 100, &b, &err), HSP_EINVAL);
    assert_non_null(strstr(err.msg, "is outside the vocabulary of 100"));
    assert_null(b);
    assert_ptr_equal(get(w, w->path), a); /* the failure has not cost it */
    (void)hsp_data_cache_put(w->cache, a);
    (void)hsp_data_cache_put(w->cache, a);
    assert_status(hsp_data_cache_get(w->cache, "/nonexistent/x", HSP_DATA_TEXT, 256, &b, &err),
                  HSP_ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unchanged_files_are_read_once, setup, teardown),
        cmocka_unit_test_setup_teardown(changed_files_are_read_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_more_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_smaller_vocabulary_is_compared, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
