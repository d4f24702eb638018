#include "tests/lib/testlib.h"

#include <fcntl.h> /* AT_FDCWD */
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "worker/data/data_cache.h"

struct world {
    char *dir;
    char path[300];
    struct hsp_data_cache *cache;
};

/* The cache's clock: what it looks at when it opens files, so it also counts that. */
static atomic_uint n_opened;
static atomic_llong seconds_later; /* than the system's clock */

static int64_t clock_ns(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &t), 0);
    n_opened++;
    return (t.tv_sec + seconds_later) * 1000000000 + t.tv_nsec;
}

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
    n_opened = 0;
    seconds_later = 10; /* files made by the test are old */
    w->cache = hsp_data_cache_new(clock_ns);
    assert_non_null(w->cache);
    (void)snprintf(w->path, sizeof w->path, "%s/text", w->dir);
    put_file(w->path, "in the beginning");
    (void)alarm(60); /* who waits for files is to be seen */
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    (void)hsp_data_cache_free(w->cache);
    (void)alarm(0);
    hsp_test_rmdir(w->dir);
    free(w->dir);
    free(w);
    return 0;
}

static const struct hsp_held_data *get(struct world *w, const char *path)
{
    const struct hsp_held_data *d = NULL;
    const struct hsp_data_wish wish = {.path = path, .format = HSP_DATA_TEXT, .vocab = 256};
    struct hsp_err err = {0};
    assert_ok(hsp_data_cache_get(w->cache, &wish, &d, &err), &err);
    return d;
}

static void get_fails(struct world *w, const char *path, uint32_t vocab, enum hsp_status want,
                      const char *why)
{
    const struct hsp_held_data *d = NULL;
    const struct hsp_data_wish wish = {.path = path, .format = HSP_DATA_TEXT, .vocab = vocab};
    struct hsp_err err = {0};
    assert_status(hsp_data_cache_get(w->cache, &wish, &d, &err), want);
    assert_null(d);
    assert_non_null(strstr(err.msg, why));
}

static bool at_once(void *ctx)
{
    (void)ctx;
    return true;
}

/* Asks for it, and waits for nothing. HSP_OK: it was there already. */
static enum hsp_status ask_any(struct world *w, const char *path)
{
    const struct hsp_held_data *d = NULL;
    const struct hsp_data_stop stop = {.asked = at_once};
    const struct hsp_data_wish wish = {
        .path = path, .format = HSP_DATA_TEXT, .vocab = 256, .stop = &stop};
    struct hsp_err err = {0};
    enum hsp_status st = hsp_data_cache_get(w->cache, &wish, &d, &err);
    assert_true((st == HSP_OK) == (d != NULL));
    if (st == HSP_OK) {
        (void)hsp_data_cache_put(w->cache, d);
    }
    return st;
}

static void ask(struct world *w, const char *path)
{
    assert_int_equal(ask_any(w, path), HSP_ECANCELED);
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
    assert_int_equal(n_opened, 1);
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

/* A change of the same moment leaves no trace in the times of a file. */
static void files_just_changed_are_read_again(void **state)
{
    struct world *w = *state;
    seconds_later = 0;
    const struct hsp_held_data *a = get(w, w->path), *b = get(w, w->path);
    assert_int_equal(n_opened, 2);
    seconds_later = 4;
    const struct hsp_held_data *c = get(w, w->path), *d = get(w, w->path);
    assert_int_equal(n_opened, 3);
    assert_ptr_equal(c, d);
    (void)hsp_data_cache_put(w->cache, a);
    (void)hsp_data_cache_put(w->cache, b);
    (void)hsp_data_cache_put(w->cache, c);
    (void)hsp_data_cache_put(w->cache, d);
}

/* The same with real changes: in place, as fast as they can be made, most of them within one tick of
 * the kernel's clock. */
static void no_change_is_missed(void **state)
{
    struct world *w = *state;
    seconds_later = 0;
    for (int i = 0; i < 200; i++) {
        char text[17];
        (void)snprintf(text, sizeof text, "%016d", i);
        FILE *f = fopen(w->path, "r+");
        assert_non_null(f);
        assert_int_equal(fwrite(text, 1, 16, f), 16);
        assert_int_equal(fclose(f), 0);
        const struct hsp_held_data *a = get(w, w->path);
        assert_true(hsp_digest_equal(a->digest, hsp_hash128(text, 16)));
        (void)hsp_data_cache_put(w->cache, a);
    }
}

/* Who waits no more takes nothing away from who asks next. */
static void a_reading_goes_on_without_those_who_waited(void **state)
{
    struct world *w = *state;
    ask(w, w->path);
    enum hsp_status st = ask_any(w, w->path); /* it may have been read by now */
    assert_true(st == HSP_OK || st == HSP_ECANCELED);
    const struct hsp_held_data *a = get(w, w->path);
    assert_int_equal(n_opened, 1);
    (void)hsp_data_cache_put(w->cache, a);
}

/* A file that cannot be had now (a pipe without a writer) holds nobody up who does not want it. */
static void only_those_who_want_it_wait(void **state)
{
    struct world *w = *state;
    char fifo[300];
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", w->dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const struct hsp_held_data *a = get(w, w->path);
    ask(w, fifo);
    assert_null(hsp_data_cache_put(w->cache, a));
    ask(w, w->path); /* this does, for one thread reads */
    hsp_data_cache_drop(w->cache);
    int fd = open(fifo, O_WRONLY | O_CLOEXEC); /* waits for the reader */
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    a = get(w, w->path);
    assert_int_equal(n_opened, 3);
    (void)hsp_data_cache_put(w->cache, a);
    assert_int_equal(unlink(fifo), 0);
}

/* Of a size that takes a minute to read. */
static void put_long_file(const struct world *w, char path[300])
{
    (void)snprintf(path, 300, "%s/long", w->dir);
    put_file(path, "");
    assert_int_equal(truncate(path, (off_t)1 << 36), 0);
}

static void what_nobody_waits_for_gives_way(void **state)
{
    struct world *w = *state;
    char path[300];
    put_long_file(w, path);
    ask(w, path);
    const struct hsp_held_data *a = get(w, w->path);
    assert_int_equal(n_opened, 2);
    ask(w, path);
    hsp_data_cache_drop(w->cache); /* it ends: else teardown would wait */
    (void)hsp_data_cache_put(w->cache, a);
}

/* Nothing stays mapped for those who may never come. */
static void what_is_dropped_is_read_again(void **state)
{
    struct world *w = *state;
    const struct hsp_held_data *a = get(w, w->path);
    hsp_data_cache_drop(w->cache);
    assert_memory_equal(a->set.file[0].all.data, "in the beginning", 16); /* still held */
    (void)hsp_data_cache_put(w->cache, a);
    hsp_data_cache_drop(w->cache);
    (void)hsp_data_cache_put(w->cache, get(w, w->path));
    assert_int_equal(n_opened, 2);
}

/* What was compared with one vocabulary says nothing of a smaller one. */
static void a_smaller_vocabulary_is_compared(void **state)
{
    struct world *w = *state;
    const struct hsp_held_data *a = get(w, w->path);
    get_fails(w, w->path, 100, HSP_EINVAL, "is outside the vocabulary of 100");
    assert_ptr_equal(get(w, w->path), a); /* the failure has not cost it */
    (void)hsp_data_cache_put(w->cache, a);
    (void)hsp_data_cache_put(w->cache, a);
    get_fails(w, "/nonexistent/x", 256, HSP_ENOENT, "/nonexistent/x");
}

HSP_TEST_FILE(data_cache_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unchanged_files_are_read_once, setup, teardown),
        cmocka_unit_test_setup_teardown(changed_files_are_read_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_more_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(files_just_changed_are_read_again, setup, teardown),
        cmocka_unit_test_setup_teardown(no_change_is_missed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reading_goes_on_without_those_who_waited, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(only_those_who_want_it_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(what_nobody_waits_for_gives_way, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_dropped_is_read_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_smaller_vocabulary_is_compared, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
