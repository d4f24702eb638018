#include "tests/lib/testlib.h"

#include <fcntl.h> /* AT_FDCWD */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "worker/data/data_cache.h"
#include "worker/data/data_watch.h"

struct world {
    char *dir;
    char path[300];
    struct hsp_data_cache *cache;
};

/* The clock that the cache is given. The cache reads the clock each time it opens files, so
 * n_opened counts these openings. */
static atomic_uint n_opened;
static atomic_llong seconds_later; /* than the system's clock */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    atomic_bool on; /* opening a file hangs */
    uint32_t n;     /* hanging */
} hang = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static int64_t clock_ns(void)
{
    struct timespec t;
    n_opened++; /* before it hangs: a freed thread may come back in a later test */
    if (hang.on) {
        (void)pthread_mutex_lock(&hang.lock);
        uint32_t n = ++hang.n;
        (void)pthread_cond_broadcast(&hang.change);
        while (hang.n >= n) { /* freed in turn */
            (void)pthread_cond_wait(&hang.change, &hang.lock);
        }
        (void)pthread_mutex_unlock(&hang.lock);
    }
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &t), 0);
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
    (void)alarm(60); /* a test that waits for files is to be seen */
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

/* Asks for the data without waiting. Returns HSP_OK if the cache had the data already. */
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

/* The cache returns the same object: no file was opened or read again. */
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

/* A file that was changed in place, or replaced, is read again, even with the same size and in the
 * same second. A holder of the old data keeps it. */
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

/* A change within the clock tick of an earlier one leaves no trace in the times of a file. */
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

/* Changes a file in place as fast as possible, most of the time within one tick of the kernel's
 * clock. The cache misses no change. */
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

/* When a caller gives up, the reading goes on, and the next caller gets its result. */
static void a_reading_goes_on_without_those_who_waited(void **state)
{
    struct world *w = *state;
    for (int i = 0; i < 2; i++) {
        enum hsp_status st = ask_any(w, w->path); /* maybe read by now */
        assert_true(st == HSP_OK || st == HSP_ECANCELED);
    }
    const struct hsp_held_data *a = get(w, w->path);
    assert_int_equal(n_opened, 1);
    (void)hsp_data_cache_put(w->cache, a);
}

/* A pipe is no data file, with or without a writer. */
static void a_pipe_is_refused(void **state)
{
    struct world *w = *state;
    char fifo[300];
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", w->dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    get_fails(w, fifo, 256, HSP_EINVAL, "fifo is not a data file of 1 to ");
    (void)hsp_data_cache_put(w->cache, get(w, w->path));
    assert_int_equal(unlink(fifo), 0);
}

/* Simulates a file system that does not answer: the reading hangs until free_hung(). */
static void free_hung(void)
{
    (void)pthread_mutex_lock(&hang.lock);
    hang.n = 0;
    (void)pthread_cond_broadcast(&hang.change);
    (void)pthread_mutex_unlock(&hang.lock);
}

static bool hang_as_many(void *ctx)
{
    (void)pthread_mutex_lock(&hang.lock);
    bool enough = hang.n >= *(const uint32_t *)ctx;
    (void)pthread_mutex_unlock(&hang.lock);
    return enough;
}

/* Asks until @n readings hang. */
static void hang_one(struct world *w, uint32_t n)
{
    const struct hsp_held_data *d = NULL;
    const struct hsp_data_stop stop = {.asked = hang_as_many, .ctx = &n};
    const struct hsp_data_wish wish = {
        .path = w->path, .format = HSP_DATA_TEXT, .vocab = 256, .stop = &stop};
    struct hsp_err err = {0};
    hang.on = true;
    assert_status(hsp_data_cache_get(w->cache, &wish, &d, &err), HSP_ECANCELED);
    hang.on = false;
}

/* A reading that hangs does not delay requests for other data, and no caller waits for ever. */
static void a_reading_that_hangs_is_left_behind(void **state)
{
    struct world *w = *state;
    char other[300];
    (void)snprintf(other, sizeof other, "%s/other", w->dir);
    put_file(other, "and it was so");
    hang_one(w, 1);
    ask(w, w->path); /* the same: under way */
    const struct hsp_held_data *a = get(w, other);
    assert_memory_equal(a->set.file[0].all.data, "and it was so", 13);
    free_hung();
    const struct hsp_held_data *b = get(w, other); /* the late data have changed nothing */
    assert_ptr_equal(a, b);
    (void)hsp_data_cache_put(w->cache, a);
    (void)hsp_data_cache_put(w->cache, b);
}

static void not_for_ever_more_are_left_behind(void **state)
{
    struct world *w = *state;
    for (uint32_t i = 0; i < HSP_DATA_LEFT_BEHIND; i++) {
        hang_one(w, i + 1);
        hsp_data_cache_drop(w->cache); /* nobody wants it */
    }
    get_fails(w, w->path, 200, HSP_EIO,
              "4 readings of data files do not end; repair the file system");
    free_hung();
    const struct hsp_held_data *d = NULL;
    struct hsp_err err = {0};
    const struct hsp_data_wish wish = {.path = w->path, .format = HSP_DATA_TEXT, .vocab = 256};
    while (hsp_data_cache_get(w->cache, &wish, &d, &err) != HSP_OK) {
        assert_int_equal(err.code, HSP_EIO); /* their threads are coming back */
    }
    (void)hsp_data_cache_put(w->cache, d);
}

static void an_end_waits_for_nothing(void **state)
{
    struct world *w = *state;
    hang_one(w, 1);
    (void)hsp_data_cache_free(w->cache);
    free_hung();
    w->cache = hsp_data_cache_new(clock_ns);
    assert_non_null(w->cache);
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
    hsp_data_cache_drop(w->cache); /* the reading ends, also with the cache */
    (void)hsp_data_cache_put(w->cache, a);
}

/* A data set without holders and waiting callers does not stay mapped. */
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

/* Tokens that were compared with a vocabulary must be compared again with a smaller one. */
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

/* ---- looking at files while they are read ---- */

static enum hsp_status look(struct hsp_data_watch *watch, struct hsp_err *err)
{
    uint32_t one = 1; /* nothing hangs */
    const struct hsp_data_stop never = {.asked = hang_as_many, .ctx = &one};
    hsp_data_watch_ask(watch);
    return hsp_data_watch_answer(watch, &never, err);
}

static void set_mtime(const char *path, int64_t s)
{
    const struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = s}};
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* A watch reports a change of the size or the modification time of any file of the data set. When
 * the old value is back the data counts as unchanged. A change of mode, or another file under the
 * name, is no change. */
static void a_change_is_seen_at_the_next_look(void **state)
{
    struct world *w = *state;
    char pattern[320], other[320], away[320];
    struct hsp_err err = {0};
    struct hsp_data_watch *watch = NULL;
    (void)snprintf(pattern, sizeof pattern, "%s/tex*", w->dir);
    (void)snprintf(other, sizeof other, "%s/texu", w->dir);
    (void)snprintf(away, sizeof away, "%s/away", w->dir);
    put_file(other, "and it was so");
    set_mtime(w->path, 1000);
    set_mtime(other, 1000);
    const struct hsp_held_data *a = get(w, pattern);
    assert_ok(hsp_data_watch_begin(w->cache, a, &watch, &err), &err);
    assert_ok(look(watch, &err), &err);
    set_mtime(other, 1001);
    assert_status(look(watch, &err), HSP_ESTALE);
    assert_non_null(
        strstr(err.msg, "/texu has changed while the job reads it: it was written again, with 13 "
                        "bytes as before; the job continues when the file is restored"));
    set_mtime(other, 1000);
    assert_ok(look(watch, &err), &err);
    FILE *f = fopen(w->path, "a");
    assert_true(f != NULL && fputc('x', f) == 'x' && fclose(f) == 0);
    set_mtime(w->path, 1000);
    assert_status(look(watch, &err), HSP_ESTALE);
    assert_non_null(strstr(err.msg, "/text has changed while the job reads it: it has 17 bytes and "
                                    "had 16; the job continues when the file is restored"));
    assert_int_equal(truncate(w->path, 16), 0);
    set_mtime(w->path, 1000);
    assert_int_equal(chmod(w->path, 0400), 0);
    assert_ok(look(watch, &err), &err);
    assert_int_equal(rename(w->path, away), 0); /* open files stay the same */
    put_file(w->path, "another");
    assert_ok(look(watch, &err), &err);
    assert_null(hsp_data_watch_end(watch));
    (void)hsp_data_cache_put(w->cache, a);
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
        cmocka_unit_test_setup_teardown(a_pipe_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reading_that_hangs_is_left_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(not_for_ever_more_are_left_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_waits_for_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_change_is_seen_at_the_next_look, setup, teardown),
        cmocka_unit_test_setup_teardown(what_nobody_waits_for_gives_way, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_dropped_is_read_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_smaller_vocabulary_is_compared, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
