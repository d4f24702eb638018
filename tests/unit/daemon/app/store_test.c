/* The daemon's store: rows survive a reopen, a failed batch leaves nothing, feeds come in order. */
#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/app/store/restore.h"
#include "daemon/app/store/store.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/rows.h"
#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "proto/base/size.h"
#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"

static char path[4200];
static struct hsp_store_damage left_out;

static int setup(void **state)
{
    char *dir = hsp_test_tmpdir();
    snprintf(path, sizeof path, "%s/state.db", dir);
    *state = dir;
    return 0;
}

static int teardown(void **state)
{
    hsp_test_rmdir(*state);
    free(*state);
    return 0;
}

struct collected {
    char text[1024];
};

static enum hsp_status collect_row(void *arg, const char *key, const void *value, size_t len)
{
    struct collected *c = arg;
    size_t n = strlen(c->text);
    snprintf(c->text + n, sizeof c->text - n, "%s=%.*s;", key, (int)len, (const char *)value);
    return HSP_OK;
}

static void collect_line(void *arg, uint64_t number, const char *json)
{
    struct collected *c = arg;
    size_t n = strlen(c->text);
    snprintf(c->text + n, sizeof c->text - n, "%d:%s;", (int)number, json);
}

/* How many, and the first number. */
static void count_line(void *arg, uint64_t number, const char *json)
{
    uint64_t *n = arg;
    (void)json;
    n[1] = n[0]++ == 0 ? number : n[1];
}

static enum hsp_status same_value(void *arg, const char *key, const void *value, size_t len)
{
    const struct hsp_buf *want = arg;
    (void)key;
    return len == want->len && memcmp(value, want->data, len) == 0 ? HSP_OK : HSP_EINVAL;
}

/* A line each. */
static enum hsp_status put_row(void *arg, const char *key, const void *value, size_t len)
{
    if (strcmp(key, HSP_RESTORED_ROW) != 0) { /* which every restore writes */
        hsp_buf_printf(arg, "%s ", key);
        for (size_t i = 0; i < len; i++) {
            hsp_buf_printf(arg, "%02x", ((const uint8_t *)value)[i]);
        }
        hsp_buf_puts(arg, "\n");
    }
    return HSP_OK;
}

static void put_line(void *arg, uint64_t number, const char *json)
{
    hsp_buf_printf(arg, "%d %s\n", (int)number, json);
}

static uint64_t n_lines(const struct hsp_buf *b)
{
    uint64_t n = 0;
    for (size_t i = 0; i < b->len; i++) {
        n += b->data[i] == '\n';
    }
    return n;
}

static struct hsp_store *open_store(void)
{
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    assert_ok(hsp_store_open(path, &s, &err), &err);
    return s;
}

static struct collected metrics_of(struct hsp_store *s, uint32_t job)
{
    struct hsp_err err = {0};
    struct collected c = {""};
    assert_ok(hsp_store_metrics(s, job, 0, 100, collect_line, &c, &err), &err);
    return c;
}

static void test_rows_survive_a_reopen(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_row rows[] = {
        {"term", "1", 1, false}, {"job/1", "a", 1, false}, {"x", "", 0, false}};
    struct hsp_store_row more[] = {{"term", "22", 2, false}, {"x", NULL, 0, true}};
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, rows, 3, NULL, 0, &err), &err);
    assert_ok(hsp_store_apply(s, more, 2, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
    s = open_store();
    struct collected c = {""};
    assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
    assert_string_equal(c.text, "job/1=a;term=22;");
    assert_null(hsp_store_close(s));
}

static void test_a_batch_is_all_or_nothing(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_row rows[] = {{"a", "1", 1, false}, {NULL, "2", 1, false}};
    struct hsp_store *s = open_store();
    assert_status(hsp_store_apply(s, rows, 2, NULL, 0, &err), HSP_EIO);
    struct collected c = {""};
    assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
    assert_string_equal(c.text, "");
    assert_ok(hsp_store_apply(s, rows, 1, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
}

/* As another program, or a disk, would. */
static void behind_its_back(const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void assert_damaged(const char *key)
{
    struct hsp_err err = {0};
    struct collected c = {""};
    struct hsp_store *s = open_store();
    assert_status(hsp_store_load(s, collect_row, &c, &err), HSP_EDIGEST);
    assert_non_null(strstr(err.msg, key));
    assert_null(hsp_store_close(s));
}

static void test_a_damaged_row_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_row rows[] = {
        {"job/1", "a", 1, false}, {"job/2", "b", 1, false}, {"x", "", 0, false}};
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, rows, 3, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
    behind_its_back("UPDATE kv SET value = x'63' WHERE key = 'job/2'");
    assert_damaged("row job/2 is damaged");
    behind_its_back("UPDATE kv SET value = x'62' WHERE key = 'job/2'; UPDATE kv SET value = x'00' "
                    "WHERE key = 'x'");
    assert_damaged("row x is damaged");
    behind_its_back("UPDATE kv SET key = 'job/3' WHERE key = 'job/1'"); /* of another job */
    assert_damaged("row job/3 is damaged");
}

/* Rows of which a page has lost count are whole themselves. */
static void test_a_row_that_is_missing_is_noticed(void **state)
{
    (void)state;
    enum { KEYS = 7, ROUNDS = 200 };
    struct hsp_err err = {0};
    uint64_t seed = hsp_test_seed();
    struct hsp_store *s = open_store();
    for (uint64_t i = 0; i < ROUNDS; i++) { /* new ones, new values, the same value, removed ones */
        char key[16], value[4];
        (void)snprintf(key, sizeof key, "plan/4/%d", (int)hsp_rng_below(KEYS, seed, 0, i, 0));
        (void)snprintf(value, sizeof value, "%d", (int)hsp_rng_below(3, seed, 1, i, 0));
        struct hsp_store_row r = {key, value, strlen(value), hsp_rng_below(4, seed, 2, i, 0) == 0};
        assert_ok(hsp_store_apply(s, &r, 1, NULL, 0, &err), &err);
    }
    struct hsp_store_row last = {"plan/4/9", "x", 1, false};
    assert_ok(hsp_store_apply(s, &last, 1, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
    s = open_store();
    struct collected c = {""};
    assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
    assert_null(hsp_store_close(s));
    behind_its_back("CREATE TABLE old AS SELECT * FROM kv; CREATE TABLE was AS SELECT * FROM total;"
                    "DELETE FROM kv WHERE key = 'plan/4/9'");
    assert_damaged("rows are missing");
    behind_its_back("DELETE FROM kv; INSERT INTO kv SELECT * FROM old; DELETE FROM total");
    assert_damaged("rows are missing");
    behind_its_back("INSERT INTO total SELECT id, rows, sums + 1 FROM was");
    assert_damaged("rows are missing");
    behind_its_back("UPDATE total SET sums = sums - 1");
    s = open_store();
    assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
    assert_null(hsp_store_close(s));
}

static uint8_t *contents(const char *file, size_t *ret_len)
{
    struct hsp_err err = {0};
    uint8_t *data = NULL;
    assert_ok(hsp_file_read(file, 1u << 24, &data, ret_len, &err), &err);
    return data;
}

/* A store with @rows, then events, is left as by a kill, with one bit in its log of writes flipped, which makes SQLite
 * drop all that was written after it. */
static void test_a_flipped_bit_in_the_log_costs_no_row(void **state)
{
    struct hsp_err err = {0};
    struct hsp_store_row rows[] = {{"job/1", "a", 1, false}, {"node/0", "b", 1, false}},
                         more = {"job/1", "c", 1, false};
    struct hsp_store_event e = {1, 0, "e"};
    char wal[4300], copy[4300], copy_wal[4300];
    snprintf(wal, sizeof wal, "%s-wal", path);
    snprintf(copy, sizeof copy, "%s/copy.db", (char *)*state);
    snprintf(copy_wal, sizeof copy_wal, "%s-wal", copy);
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, rows, 2, NULL, 0, &err), &err);
    assert_ok(hsp_store_feed_add(s, &e, 1, NULL, 0, &err), &err);
    assert_ok(hsp_store_apply(s, &more, 1, NULL, 0, &err), &err);
    e.seq = 2;
    assert_ok(hsp_store_feed_add(s, &e, 1, NULL, 0, &err), &err);
    size_t n, n_log;
    uint8_t *db = contents(path, &n), *log = contents(wal, &n_log);
    assert_null(hsp_store_close(s));
    assert_true(n_log > 4096); /* the second event is in it */
    for (size_t at = 0; at < n_log; at += 499) {
        log[at] ^= 4;
        assert_ok(hsp_file_write(copy, db, n, 0600, &err), &err);
        assert_ok(hsp_file_write(copy_wal, log, n_log, 0600, &err), &err);
        log[at] ^= 4;
        struct collected c = {""};
        assert_ok(hsp_store_open(copy, &s, &err), &err);
        assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
        assert_string_equal(c.text, "job/1=c;node/0=b;");
        assert_null(hsp_store_close(s));
    }
    free(db);
    free(log);
}

static enum hsp_status find_cluster(void *arg, const char *key, const void *value, size_t len)
{
    struct hsp_cluster_row row = {key, value, (uint32_t)len};
    (void)hsp_cluster_row_whose(&row, arg);
    return HSP_OK;
}

/* The row "cluster" of a core of @generation. */
static struct hsp_digest cluster_id = {7, 8}; /* of the next one */

static void put_cluster(struct hsp_store *s, uint32_t generation)
{
    struct hsp_err err = {0};
    struct hsp_actions a;
    struct hsp_cluster_config cfg;
    struct hsp_buf over;
    hsp_cluster_defaults(3000, &cfg);
    cfg.fresh_id = cluster_id;
    struct hsp_cluster *c = hsp_cluster_new(&cfg);
    hsp_buf_init(&over, 100);
    hsp_cluster_restored_row(generation > 0 ? (uint64_t)(generation - 1) << 32 : 0, &over);
    struct hsp_cluster_row row = {HSP_RESTORED_ROW, over.data, (uint32_t)over.len};
    assert_ok(hsp_cluster_load(c, &row, generation > 0, 0, &a, &err), &err);
    for (uint32_t i = 0; i < a.n; i++) {
        if (a.item[i].type == HSP_ACT_STORE && strcmp(a.item[i].key, "cluster") == 0) {
            struct hsp_store_row r = {"cluster", a.item[i].value, a.item[i].len, false};
            assert_ok(hsp_store_apply(s, &r, 1, NULL, 0, &err), &err);
        }
    }
    hsp_buf_fini(&over);
    (void)hsp_cluster_free(c);
}

static void assert_row(const char *key, const char *value)
{
    struct hsp_err err = {0};
    struct collected c = {""};
    char want[64];
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
    (void)snprintf(want, sizeof want, "%s=%s;", key, value);
    assert_non_null(strstr(c.text, want));
    assert_null(hsp_store_close(s));
}

static uint32_t n_replaced(const char *dir)
{
    uint32_t n = 0;
    DIR *d = opendir(dir);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        n += strncmp(e->d_name, "state.db.replaced-", 18) == 0;
    }
    (void)closedir(d);
    return n;
}

/* A backup is the store as it was, for its owner only; put back, it says over which generation. */
static void test_a_backup_is_put_back(void **state)
{
    struct hsp_err err = {0};
    struct hsp_store_row row = {"job/1", "old", 3, false}, late = {"job/1", "new", 3, false};
    char backup[4300];
    struct stat sb;
    snprintf(backup, sizeof backup, "%s/backup", (char *)*state);
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, &row, 1, NULL, 0, &err), &err);
    put_cluster(s, 0);
    assert_ok(hsp_store_verify(s, &left_out, &err), &err);
    assert_status(hsp_store_backup(s, "/nonexistent/x", &left_out, &err), HSP_EIO);
    assert_ok(hsp_store_backup(s, backup, &left_out, &err), &err);
    assert_ok(hsp_store_backup(s, backup, &left_out, &err),
              &err); /* in the place of the one before */
    assert_int_equal(stat(backup, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    assert_ok(hsp_store_apply(s, &late, 1, NULL, 0, &err), &err);
    put_cluster(s, 3);
    assert_null(hsp_store_close(s));
    assert_row("job/1", "new");
    assert_ok(hsp_restore(*state, backup, &left_out, &err), &err);
    assert_row("job/1", "old");
    assert_int_equal(n_replaced(*state), 1);
    char found[4300];
    s = open_store();
    assert_true(hsp_restore_replaced(*state, s, found, sizeof found)); /* it was newer */
    assert_null(hsp_store_close(s));
    /* what the core makes of it */
    struct collected c = {""};
    struct hsp_whose w = {0};
    s = open_store();
    assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
    assert_non_null(strstr(c.text, HSP_RESTORED_ROW "="));
    assert_ok(hsp_store_load(s, find_cluster, &w, &err), &err);
    assert_true(w.cluster.lo == 8 && hsp_generation_number(w.generation) == 0);
    assert_null(hsp_store_close(s));
}

/* A row that was damaged on the disk is not backed up as if it were good. */
static void test_a_damaged_store_makes_no_backup(void **state)
{
    struct hsp_err err = {0};
    char backup[4300];
    snprintf(backup, sizeof backup, "%s/backup", (char *)*state);
    struct hsp_store_row row = {"job/1", "here", 4, false};
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, &row, 1, NULL, 0, &err), &err);
    assert_ok(hsp_store_backup(s, backup, &left_out, &err), &err);
    behind_its_back("UPDATE kv SET value = x'00' WHERE key = 'job/1'");
    assert_status(hsp_store_backup(s, backup, &left_out, &err), HSP_EDIGEST);
    assert_int_equal(access(backup, F_OK), -1);
    assert_null(hsp_store_close(s));
}

/* The generation of a store in which another row is damaged: that is why a backup is put back. */
static void test_a_damaged_store_tells_its_generation(void **state)
{
    struct hsp_err err = {0};
    struct hsp_whose w = {0};
    char backup[4300];
    snprintf(backup, sizeof backup, "%s/backup", (char *)*state);
    struct hsp_store_row row = {"app/1", "here", 4, false};
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, &row, 1, NULL, 0, &err), &err);
    put_cluster(s, 0);
    assert_ok(hsp_store_backup(s, backup, &left_out, &err), &err);
    put_cluster(s, 3);
    assert_null(hsp_store_close(s));
    behind_its_back("UPDATE kv SET value = x'00' WHERE key = 'app/1'");
    s = open_store();
    assert_ok(hsp_store_get(s, "none", find_cluster, &w, &err), &err);
    assert_true(w.cluster.lo == 0);
    assert_ok(hsp_store_get(s, HSP_CLUSTER_ROW, find_cluster, &w, &err), &err);
    uint64_t over = w.generation;
    assert_true(w.cluster.lo == 8 && hsp_generation_number(over) == 3);
    assert_status(hsp_store_get(s, "app/1", find_cluster, &w, &err), HSP_EDIGEST);
    assert_null(hsp_store_close(s));
    assert_ok(hsp_restore(*state, backup, &left_out, &err), &err);
    struct hsp_buf want;
    hsp_buf_init(&want, 100);
    hsp_cluster_restored_row(over, &want);
    s = open_store();
    assert_ok(hsp_store_get(s, HSP_RESTORED_ROW, same_value, &want, &err), &err);
    hsp_buf_fini(&want);
    assert_null(hsp_store_close(s));
}

/* What is no whole backup changes nothing. */
static void test_a_wrong_backup_is_refused(void **state)
{
    struct hsp_err err = {0};
    struct hsp_store_row row = {"job/1", "here", 4, false};
    char backup[4300], empty[4300];
    snprintf(backup, sizeof backup, "%s/backup", (char *)*state);
    snprintf(empty, sizeof empty, "%s/empty", (char *)*state);
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_backup(s, empty, &left_out, &err), &err); /* no cluster is in it */
    assert_ok(hsp_store_apply(s, &row, 1, NULL, 0, &err), &err);
    put_cluster(s, 0);
    assert_ok(hsp_store_backup(s, backup, &left_out, &err), &err);
    assert_null(hsp_store_close(s));
    assert_status(hsp_restore(*state, "/nonexistent", &left_out, &err), HSP_ENOENT);
    assert_status(hsp_restore(*state, path, &left_out, &err),
                  HSP_EINVAL); /* it would copy over itself */
    assert_status(hsp_restore(*state, "/dev/zero", &left_out, &err), HSP_EINVAL); /* has no end */
    assert_status(hsp_restore(*state, *state, &left_out, &err), HSP_EINVAL);
    assert_row("job/1", "here");
    assert_status(hsp_restore(*state, empty, &left_out, &err), HSP_EPARSE);
    assert_string_equal(strrchr(err.msg, ':'), ": it is not the store of a cluster");
    size_t n;
    uint8_t *data = contents(backup, &n);
    uint32_t refused = 0, tried = 0;
    for (size_t at = 0; at < n; at++) { /* one byte of it */
        if (data[at] == 0 || at % 5 != 0) {
            continue;
        }
        tried++;
        data[at] ^= 0xff;
        assert_ok(hsp_file_write(backup, data, n, 0600, &err), &err);
        data[at] ^= 0xff;
        if (hsp_restore(*state, backup, &left_out, &err) == HSP_OK) {
            continue; /* of no row, as the number of the library that wrote it last */
        }
        assert_row("job/1", "here");
        refused++;
    }
    print_message("# %u of %u refused\n", refused, tried);
    assert_true(refused > tried / 2 && n_replaced(*state) == tried - refused);
    for (size_t len = 0, taken = 0; len < n; len += n / 7) { /* half of it */
        assert_ok(hsp_file_write(backup, data, len, 0600, &err), &err);
        taken += hsp_restore(*state, backup, &left_out, &err) == HSP_OK;
        assert_true(taken <= 2); /* nothing but the empty end of the last page is missing */
        assert_row("job/1", "here");
    }
    free(data);
}

/* @name in the folder @dir; at most four at a time. */
static const char *in(const char *dir, const char *name)
{
    static char text[4][4300];
    static int at;
    at = (at + 1) % 4;
    (void)snprintf(text[at], sizeof text[at], "%s/%s", dir, name);
    return text[at];
}

static void put(const char *file)
{
    struct hsp_err err = {0};
    assert_ok(hsp_file_write(file, "x", 1, 0600, &err), &err);
}

/* The copy of a restore that was killed goes with the next one, or with the next start: regular
 * files of these names, and no others. */
static void test_what_a_killed_restore_left_goes(void **state)
{
    static const char *const left[] = {".restore-copy.db", ".restore-copy.db-wal",
                                       ".restore-copy.db-shm"};
    static const char *const stays[] = {".restore-copy.db2", "restore-copy.db", "other.db-wal"};
    const char *dir = *state;
    struct hsp_err err = {0};
    struct stat sb;
    struct hsp_store *s = open_store();
    put_cluster(s, 0);
    assert_ok(hsp_store_backup(s, in(dir, "backup"), &left_out, &err), &err);
    assert_null(hsp_store_close(s));
    for (int i = 0; i < 3; i++) {
        put(in(dir, stays[i]));
    }
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 3; i++) {
            put(in(dir, left[i]));
        }
        if (again == 0) {
            hsp_restore_tidy(dir);
        } else { /* the stale journal is not read into the copy */
            assert_ok(hsp_restore(dir, in(dir, "backup"), &left_out, &err), &err);
        }
        for (int i = 0; i < 3; i++) {
            assert_int_equal(lstat(in(dir, left[i]), &sb), -1);
            assert_int_equal(lstat(in(dir, stays[i]), &sb), 0);
        }
    }
    assert_int_equal(symlink(in(dir, "other.db-wal"), in(dir, left[0])), 0);
    assert_int_equal(mkdir(in(dir, left[1]), 0700), 0);
    hsp_restore_tidy(dir);
    assert_int_equal(lstat(in(dir, left[0]), &sb), 0);
    assert_int_equal(lstat(in(dir, left[1]), &sb), 0);
    assert_status(hsp_restore(dir, in(dir, "backup"), &left_out, &err),
                  HSP_EIO); /* what stays is told */
    assert_non_null(strstr(err.msg, "cannot make"));
    assert_int_equal(rmdir(in(dir, left[1])), 0);
}

/* Row "cluster" is of generation @generation of cluster @id; event @last is the last one. */
static void lives(uint32_t generation, struct hsp_digest id, uint64_t last)
{
    struct hsp_err err = {0};
    struct hsp_store *s = open_store();
    const struct hsp_store_event e = {last, 0, "e"};
    cluster_id = id;
    put_cluster(s, generation);
    cluster_id = (struct hsp_digest){7, 8};
    assert_ok(hsp_store_feed_add(s, &e, 1, NULL, 0, &err), &err);
    assert_null(hsp_store_close(s));
}

/* Only a store that is worth to be put back again has the name by which it is found. */
static void test_which_replaced_store_is_named(void **state)
{
    static const struct {
        uint32_t generation;
        struct hsp_digest cluster;
        uint64_t last;
        const char *harm;
        bool named;
    } there[] = {
        {0, {7, 8}, 5, NULL, false}, /* as the backup */
        {0, {7, 8}, 6, NULL, true},
        {1, {7, 8}, 5, NULL, true},
        {1, {7, 9}, 6, NULL, false}, /* an hspmdd that began anew meanwhile */
        {1, {7, 8}, 6, "UPDATE kv SET value = x'00' WHERE key = 'app/1'", false},
    };
    struct hsp_err err = {0};
    struct hsp_store_row row = {"app/1", "here", 4, false};
    const char *dir = *state;
    char backup[4300], found[4300];
    snprintf(backup, sizeof backup, "%s/backup", dir);
    lives(0, (struct hsp_digest){7, 8}, 5);
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, &row, 1, NULL, 0, &err), &err);
    assert_ok(hsp_store_backup(s, backup, &left_out, &err), &err);
    assert_null(hsp_store_close(s));
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
        if (there[i].last != 5 || there[i].generation != 0) {
            lives(there[i].generation, there[i].cluster, there[i].last);
        }
        if (there[i].harm != NULL) {
            behind_its_back(there[i].harm);
        }
        assert_ok(hsp_restore(dir, backup, &left_out, &err), &err);
        s = open_store();
        assert_int_equal(hsp_restore_replaced(dir, s, found, sizeof found), there[i].named);
        assert_null(hsp_store_close(s));
        assert_int_equal(n_replaced(dir), i + 1);
        if (there[i].named) {
            char aside[4400]; /* so that the next one is looked at alone */
            snprintf(aside, sizeof aside, "%s-seen%zu", found, i);
            assert_int_equal(rename(found, aside), 0);
        }
    }
}

/* A store of cluster @id under @name of @dir. */
static void put_store(const char *dir, const char *name, struct hsp_digest id)
{
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    assert_ok(hsp_store_open(in(dir, name), &s, &err), &err);
    cluster_id = id;
    put_cluster(s, 1);
    cluster_id = (struct hsp_digest){7, 8};
    assert_null(hsp_store_close(s));
}

/* Only the last one counts: who puts an earlier one back loses what has happened since. */
static void test_the_store_that_was_replaced_last(void **state)
{
    static const char *const stores[] = {"state.db.replaced-9.3", "state.db.replaced-10.0",
                                         "state.db.replaced-10.12", "state.db.replaced-10.9"};
    static const char *const others[] = {"state.db.replaced-11.0-wal", "state.db.replaced-12.x",
                                         "state.db.replaced-", "state.db.replaced--other",
                                         "state.db.replaced-10.11-other"};
    const char *dir = *state;
    char found[4300];
    struct hsp_store *s = open_store();
    put_cluster(s, 2);
    assert_false(hsp_restore_replaced("/nonexistent", s, found, sizeof found));
    assert_false(hsp_restore_replaced(dir, s, found, sizeof found));
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
        put_store(dir, stores[i], cluster_id);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        put(in(dir, others[i]));
    }
    assert_true(hsp_restore_replaced(dir, s, found, sizeof found));
    assert_string_equal(found, in(dir, "state.db.replaced-10.12"));
    assert_false(hsp_restore_replaced(dir, s, found, strlen(found)));
    put(in(dir, "state.db.replaced-13.0-other"));
    assert_false(hsp_restore_replaced(dir, s, found, sizeof found));
    put_store(dir, "state.db.replaced-14.0", cluster_id);
    assert_true(hsp_restore_replaced(dir, s, found, sizeof found));
    put_store(dir, "state.db.replaced-15.0", (struct hsp_digest){7, 9}); /* of another cluster */
    assert_false(hsp_restore_replaced(dir, s, found, sizeof found));
    put(in(dir, "state.db.replaced-16.0")); /* of none */
    assert_false(hsp_restore_replaced(dir, s, found, sizeof found));
    assert_null(hsp_store_close(s));
    assert_int_equal(access(in(dir, "state.db.replaced-14.0-wal"), F_OK), -1); /* only read */
    assert_int_equal(access(in(dir, "state.db.replaced-14.0-shm"), F_OK), -1);
}

/* The hspmdd that wrote it still reads it: it has to finish its jobs. */
static void test_a_store_with_rows_of_an_old_form_stays_as_it_is(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    behind_its_back("CREATE TABLE kv(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID; "
                    "INSERT INTO kv VALUES('app/1', x'00'); INSERT INTO kv VALUES('job/2', x'03'); "
                    "PRAGMA user_version = 1");
    assert_status(hsp_store_open(path, &s, &err), HSP_EVERSION);
    assert_non_null(strstr(err.msg, "stored row job/2 has form 3, this hspmdd reads 4 to "));
    behind_its_back("INSERT INTO kv VALUES('job/3', x'04')"); /* a table of the first version */
    behind_its_back("DELETE FROM kv WHERE key = 'job/2'");
    s = open_store();
    assert_null(hsp_store_close(s));
}

static void test_rows_of_the_first_schema_are_read(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store_row more = {"job/2", "c", 1, false};
    behind_its_back("CREATE TABLE kv(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID; "
                    "INSERT INTO kv VALUES('job/1', x'61'); INSERT INTO kv VALUES('job/2', x'62'); "
                    "PRAGMA user_version = 1");
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, &more, 1, NULL, 0, &err), &err);
    struct collected c = {""};
    assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
    assert_string_equal(c.text, "job/1=a;job/2=c;");
    assert_null(hsp_store_close(s));
    behind_its_back("UPDATE kv SET value = x'62' WHERE key = 'job/2'");
    assert_damaged("row job/2 is damaged");
}

static void test_events_and_metrics_come_in_order(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store *s = open_store();
    struct hsp_store_event e[] = {{1, 0, "n"}, {2, 7, "x"}, {3, 8, "y"}, {4, 7, "z"}};
    assert_int_equal(hsp_store_events_last(s), 0);
    assert_ok(hsp_store_feed_add(s, e, 4, NULL, 0, &err), &err);
    assert_int_equal(hsp_store_events_last(s), 4);
    struct collected c = {""};
    assert_ok(hsp_store_events(s, 7, 0, 100, collect_line, &c, &err), &err);
    assert_string_equal(c.text, "2:x;4:z;");
    c.text[0] = '\0';
    assert_ok(hsp_store_events(s, 0, 1, 2, collect_line, &c, &err), &err);
    assert_string_equal(c.text, "2:x;3:y;");
    const struct hsp_store_metric m[] = {{7, 1, 5, "one"}, {7, 0, 5, "zero"}, {8, 7, 5, "other"}};
    assert_ok(hsp_store_feed_add(s, NULL, 0, m, 3, &err), &err);
    assert_string_equal(metrics_of(s, 7).text, "0:zero;1:one;");
    assert_null(hsp_store_close(s));
}

/* What workers say again of an epoch changes nothing; a newer epoch has run the step again. */
static void test_the_first_line_of_the_newest_epoch_stays(void **state)
{
    (void)state;
    static const struct {
        struct hsp_store_metric m;
        const char *then;
    } said[] = {{{7, 1, 5, "one"}, "1:one;"},
                {{7, 1, 5, "said again"}, "1:one;"},
                {{7, 1, 4, "late"}, "1:one;"},
                {{7, 1, 6, "run again"}, "1:run again;"},
                {{8, 1, 9, "another job's"}, "1:run again;"}};
    struct hsp_err err = {0};
    struct hsp_store *s = open_store();
    for (size_t i = 0; i < HSP_ARRAY_LEN(said); i++) {
        assert_ok(hsp_store_feed_add(s, NULL, 0, &said[i].m, 1, &err), &err);
        assert_string_equal(metrics_of(s, 7).text, said[i].then);
    }
    behind_its_back("UPDATE metric SET json = 'run agaim' WHERE job = 7");
    assert_string_equal(metrics_of(s, 7).text, ""); /* nobody believes it */
    assert_ok(hsp_store_feed_add(s, NULL, 0, &said[1].m, 1, &err), &err);
    assert_string_equal(metrics_of(s, 7).text, "1:said again;");
    assert_null(hsp_store_close(s));
}

static void test_metrics_go_with_the_rows_or_stay(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store *s = open_store();
    const struct hsp_store_metric m[] = {{7, 1, 5, "one"}, {8, 7, 5, "other"}};
    const struct hsp_store_row rows[] = {{"a", "1", 1, false}, {NULL, "2", 1, false}};
    const uint32_t gone[] = {7};
    assert_ok(hsp_store_feed_add(s, NULL, 0, m, 2, &err), &err);
    assert_status(hsp_store_apply(s, rows, 2, gone, 1, &err), HSP_EIO);
    assert_string_equal(metrics_of(s, 7).text, "1:one;");
    assert_ok(hsp_store_apply(s, rows, 1, gone, 1, &err), &err);
    assert_string_equal(metrics_of(s, 7).text, "");
    assert_string_equal(metrics_of(s, 8).text, "7:other;");
    assert_null(hsp_store_close(s));
}

/* Lines that a disk has changed are left out when they are read, are counted, and go. */
static void test_a_damaged_line_is_left_out(void **state)
{
    static const char *const damage[] = {"UPDATE event SET json = 'Y' WHERE seq = 3",
                                         "UPDATE event SET job = 9 WHERE seq = 3",
                                         "UPDATE event SET seq = 1000000000000 WHERE seq = 3",
                                         "UPDATE event SET sum = NULL WHERE seq = 3"};
    static const char *const of_metrics[] = {
        "UPDATE metric SET json = 'o' WHERE step = 1", "UPDATE metric SET epoch = 4 WHERE step = 1",
        "UPDATE metric SET step = 2 WHERE step = 1", "UPDATE metric SET job = 8 WHERE step = 1"};
    const struct hsp_store_event e[] = {{2, 7, "x"}, {3, 7, "y"}};
    const struct hsp_store_metric m[] = {{7, 0, 5, "zero"}, {7, 1, 5, "one"}, {9, 3, 1, "three"}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(damage); i++) {
        struct hsp_err err = {0};
        struct hsp_store *s = open_store();
        assert_ok(hsp_store_feed_add(s, e, 2, m, 3, &err), &err);
        assert_null(hsp_store_close(s));
        behind_its_back(damage[i]);
        behind_its_back(of_metrics[i]);
        s = open_store();
        struct collected c = {""};
        assert_ok(hsp_store_events(s, 0, 0, 100, collect_line, &c, &err), &err);
        assert_string_equal(c.text, "2:x;");
        assert_int_equal(hsp_store_events_last(s), 2);
        assert_string_equal(metrics_of(s, 7).text, "0:zero;");
        assert_string_equal(metrics_of(s, 8).text, "");
        for (uint64_t there = 1; there + 1 > 0; there--) { /* counted once */
            char text[HSP_DAMAGE_TEXT];
            assert_ok(hsp_store_clean(s, &left_out, &err), &err);
            assert_true(left_out.events == there && left_out.metrics == there);
            hsp_store_damage_text(&left_out, text);
            assert_string_equal(
                text, there == 1 ? "damaged lines are left out: 1 of events, 1 of metrics"
                                 : "damaged lines are left out: 0 of events, 0 of metrics");
        }
        assert_string_equal(metrics_of(s, 9).text, "3:three;");
        assert_null(hsp_store_close(s));
        hsp_test_rmdir(*state);
        assert_int_equal(mkdir(*state, 0700), 0);
    }
}

/* A thousand lines are read at a time: those at both ends of that are cleaned like others. */
static void test_damage_is_found_between_portions(void **state)
{
    (void)state;
    enum { LINES = 2500 };
    struct hsp_err err = {0};
    struct hsp_store *s = open_store();
    struct hsp_store_event *e = calloc(LINES, sizeof *e);
    struct hsp_store_metric *m = calloc(LINES, sizeof *m);
    assert_true(e != NULL && m != NULL);
    for (uint32_t i = 0; i < LINES; i++) {
        e[i] = (struct hsp_store_event){1 + i, 7, "e"};
        m[i] = (struct hsp_store_metric){i < 2000 ? 7 : 8, i, 5, "m"};
    }
    assert_ok(hsp_store_feed_add(s, e, LINES, m, LINES, &err), &err);
    assert_null(hsp_store_close(s));
    behind_its_back("UPDATE event SET json = 'x' WHERE seq IN (1, 1000, 1001, 2000, 2001, 2500)");
    behind_its_back("UPDATE metric SET json = 'x' WHERE step IN (0, 999, 1000, 1999, 2000, 2499)");
    behind_its_back("UPDATE metric SET step = 'x' WHERE step = 500");
    s = open_store();
    assert_ok(hsp_store_clean(s, &left_out, &err), &err);
    assert_true(left_out.events == 6 && left_out.metrics == 7);
    uint64_t n[2] = {0, 0};
    assert_ok(hsp_store_events(s, 0, 0, LINES, count_line, n, &err), &err);
    assert_ok(hsp_store_metrics(s, 7, 0, LINES, count_line, n, &err), &err);
    assert_ok(hsp_store_metrics(s, 8, 0, LINES, count_line, n, &err), &err);
    assert_int_equal(n[0], 2 * LINES - 13);
    assert_ok(hsp_store_clean(s, &left_out, &err), &err);
    assert_true(left_out.events == 0 && left_out.metrics == 0);
    assert_null(hsp_store_close(s));
    free(e);
    free(m);
}

/* Whatever of a row was damaged: when the row is written again or removed, the store is whole. */
static void test_a_damaged_row_that_is_written_again(void **state)
{
    static const char *const damage[] = {"UPDATE kv SET sum = sum + 1 WHERE key = 'job/1'",
                                         "UPDATE kv SET sum = NULL WHERE key = 'job/1'",
                                         "UPDATE kv SET value = x'63' WHERE key = 'job/1'"};
    for (size_t i = 0; i < 2 * HSP_ARRAY_LEN(damage); i++) {
        struct hsp_err err = {0};
        struct hsp_store_row rows[] = {{"job/1", "a", 1, false}, {"job/2", "b", 1, false}};
        struct hsp_store_row again = {"job/1", "c", 1, i % 2 == 1};
        struct collected c = {""};
        struct hsp_store *s = open_store();
        assert_ok(hsp_store_apply(s, rows, 2, NULL, 0, &err), &err);
        assert_null(hsp_store_close(s));
        behind_its_back(damage[i / 2]);
        s = open_store();
        assert_status(hsp_store_load(s, collect_row, &c, &err), HSP_EDIGEST);
        assert_ok(hsp_store_apply(s, &again, 1, NULL, 0, &err), &err);
        assert_null(hsp_store_close(s));
        s = open_store();
        c.text[0] = '\0';
        assert_ok(hsp_store_load(s, collect_row, &c, &err), &err);
        assert_string_equal(c.text, i % 2 == 1 ? "job/2=b;" : "job/1=c;job/2=b;");
        assert_null(hsp_store_close(s));
        hsp_test_rmdir(*state);
        assert_int_equal(mkdir(*state, 0700), 0);
    }
}

/* All lines of a store, in the order of their numbers. */
static void read_all(struct hsp_store *s, struct hsp_buf *ret)
{
    struct hsp_err err = {0};
    hsp_buf_reset(ret);
    assert_ok(hsp_store_load(s, put_row, ret, &err), &err);
    assert_ok(hsp_store_events(s, 0, 0, 1000, put_line, ret, &err), &err);
    for (uint32_t job = 1; job < 4; job++) {
        assert_ok(hsp_store_metrics(s, job, 0, 1000, put_line, ret, &err), &err);
    }
}

/* Every line of @part stands in @whole, too. */
static bool is_part(const char *part, const char *whole)
{
    while (*part != '\0') {
        size_t n = strcspn(part, "\n") + 1;
        if (memmem(whole, strlen(whole), part, n) == NULL) {
            return false;
        }
        part += n;
    }
    return true;
}

/* A backup with one bit flipped is refused, or what is damaged is left out and counted, or it was a
 * bit of no row. */
static void test_no_flipped_bit_of_a_backup_is_believed(void **state)
{
    enum { DRAWS = 150 };
    struct hsp_err err = {0};
    char backup[4300], json[300];
    uint64_t seed = hsp_test_seed(), stream = hsp_hash_str("bits"), refused = 0, less = 0;
    struct hsp_store_row row = {"job/1", "here", 4, false};
    snprintf(backup, sizeof backup, "%s/backup", (char *)*state);
    struct hsp_store *s = open_store();
    assert_ok(hsp_store_apply(s, &row, 1, NULL, 0, &err), &err);
    put_cluster(s, 0);
    for (uint32_t i = 1; i <= 40; i++) {
        snprintf(json, sizeof json, "{\"seq\":%u,\"reason\":\"%0200u\"}", i, i);
        struct hsp_store_event e = {i, i % 4, json};
        struct hsp_store_metric m = {1 + i % 3, i, 5, json};
        assert_ok(hsp_store_feed_add(s, &e, 1, &m, 1, &err), &err);
    }
    struct hsp_buf whole, now;
    hsp_buf_init(&whole, 1u << 20);
    hsp_buf_init(&now, 1u << 20);
    read_all(s, &whole);
    assert_int_equal(n_lines(&whole), 2 + 40 + 40);
    assert_ok(hsp_store_backup(s, backup, &left_out, &err), &err);
    assert_null(hsp_store_close(s));
    size_t n;
    uint8_t *data = contents(backup, &n);
    for (uint32_t i = 0; i < DRAWS; i++) {
        size_t at = (size_t)hsp_rng_below(n, seed, stream, i, 0);
        uint8_t bit = (uint8_t)(1u << hsp_rng_below(8, seed, stream, i, 1));
        data[at] ^= bit;
        assert_ok(hsp_file_write(backup, data, n, 0600, &err), &err);
        data[at] ^= bit;
        if (hsp_restore(*state, backup, &left_out, &err) != HSP_OK) {
            refused++;
            continue;
        }
        s = open_store();
        read_all(s, &now);
        assert_null(hsp_store_close(s));
        assert_true(is_part(hsp_buf_cstr(&now), hsp_buf_cstr(&whole)));
        assert_int_equal(n_lines(&now) + left_out.events + left_out.metrics, n_lines(&whole));
        less += left_out.events + left_out.metrics;
    }
    print_message("# %u bits of %zu bytes: %u refused, %u lines left out\n", DRAWS, n,
                  (uint32_t)refused, (uint32_t)less);
    assert_true(less > 0);
    free(data);
    hsp_buf_fini(&whole);
    hsp_buf_fini(&now);
}

/* Of version 2: metrics are those of the last job of their name, events of the job they name. */
static void test_lines_of_the_second_schema_are_read(void **state)
{
    (void)state;
    behind_its_back(
        "CREATE TABLE kv(key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER) WITHOUT ROWID;"
        "CREATE TABLE events(seq INTEGER PRIMARY KEY, job TEXT NOT NULL, json TEXT NOT NULL);"
        "CREATE INDEX events_job ON events(job, seq);"
        "CREATE TABLE metrics(job TEXT, step INTEGER, json TEXT NOT NULL, epoch INTEGER NOT NULL, "
        "PRIMARY KEY(job, step)) WITHOUT ROWID;"
        "INSERT INTO events VALUES(1, '', '{}'), (2, 'a', '{\"job_id\":1}'), "
        "(3, 'a', '{\"job_id\":2}'), (4, 'b', 'no json');"
        "INSERT INTO metrics VALUES('a', 5, 'five', 9), ('gone', 5, 'x', 9);"
        "PRAGMA user_version = 2");
    for (int open = 0; open < 2; open++) {
        struct hsp_err err = {0};
        struct hsp_store *s = open_store();
        struct collected c = {""};
        assert_ok(hsp_store_events(s, 0, 0, 100, collect_line, &c, &err), &err);
        assert_string_equal(c.text, "1:{};2:{\"job_id\":1};3:{\"job_id\":2};4:no json;");
        c.text[0] = '\0';
        assert_ok(hsp_store_events(s, 1, 0, 100, collect_line, &c, &err), &err);
        assert_string_equal(c.text, "2:{\"job_id\":1};");
        assert_string_equal(metrics_of(s, 1).text, "");
        assert_string_equal(metrics_of(s, 2).text, "5:five;");
        assert_ok(hsp_store_clean(s, &left_out, &err), &err);
        assert_true(left_out.events + left_out.metrics == 0);
        assert_null(hsp_store_close(s));
    }
    behind_its_back("PRAGMA user_version = 2"); /* a flipped bit */
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    assert_status(hsp_store_open(path, &s, &err), HSP_EIO);
}

/* The row of a job in the form of the core, hexadecimal: form 12, its number, its name. */
static const char *job_row(uint32_t id, const char *name)
{
    static char text[4][200];
    static int at;
    at = (at + 1) % 4;
    size_t n = (size_t)snprintf(text[at], sizeof text[at], "0c%02x000000%02x000000", id,
                                (unsigned)strlen(name));
    for (const char *c = name; *c != '\0'; c++) {
        n += (size_t)snprintf(text[at] + n, sizeof text[at] - n, "%02x", *c);
    }
    return text[at];
}

/* Their events have no number of a job: lines are those of the newest job of their name. */
static void test_lines_without_a_number_go_to_the_job_of_their_name(void **state)
{
    (void)state;
    for (int version = 1; version < 3; version++) {
        struct hsp_err err = {0};
        char sql[2000];
        (void)snprintf(
            sql, sizeof sql,
            "CREATE TABLE kv(key TEXT PRIMARY KEY, value BLOB NOT NULL%s) WITHOUT ROWID;"
            "INSERT INTO kv(key, value) VALUES('job/3', x'%s'), ('job/11', x'%s'), "
            "('job/12', x'%s'), ('job/13', x'00'), ('plan/14/1', x'%s');"
            "CREATE TABLE events(seq INTEGER PRIMARY KEY, job TEXT NOT NULL, json TEXT NOT NULL);"
            "CREATE TABLE metrics(job TEXT, step INTEGER, json TEXT NOT NULL, epoch INTEGER NOT "
            "NULL, PRIMARY KEY(job, step)) WITHOUT ROWID;"
            "INSERT INTO events VALUES(1, '', '{}'), (2, 'a', '{}'), (3, 'a', '{\"job_id\":3}'), "
            "(4, 'b', 'no json'), (5, 'c', '{\"job_id\":99}'), (6, 'gone', '{}');"
            "INSERT INTO metrics VALUES('a', 5, 'five', 9), ('a', 6, 'six', 9), ('b', 1, 'one', "
            "2), "
            "('c', 1, 'c', 2);"
            "PRAGMA user_version = %d",
            version == 1 ? "" : ", sum INTEGER", job_row(3, "a"), job_row(11, "a"),
            job_row(12, "b"), job_row(14, "a"), version);
        behind_its_back(sql);
        struct hsp_store *s = open_store();
        struct collected c = {""};
        assert_string_equal(metrics_of(s, 11).text, "5:five;6:six;");
        assert_string_equal(metrics_of(s, 3).text, "");
        assert_string_equal(metrics_of(s, 12).text, "1:one;");
        assert_string_equal(metrics_of(s, 99).text, "1:c;"); /* as its events say */
        assert_ok(hsp_store_events(s, 11, 0, 100, collect_line, &c, &err), &err);
        assert_ok(hsp_store_events(s, 3, 0, 100, collect_line, &c, &err), &err);
        assert_ok(hsp_store_events(s, 12, 0, 100, collect_line, &c, &err), &err);
        assert_string_equal(c.text, "2:{};3:{\"job_id\":3};4:no json;");
        c.text[0] = '\0';
        assert_ok(hsp_store_events(s, 0, 0, 100, collect_line, &c, &err), &err);
        assert_non_null(strstr(c.text, "6:{};"));
        assert_null(hsp_store_close(s));
        assert_int_equal(unlink(path), 0);
    }
}

/* Those before a gap in the numbers stay, as long as there are few. */
static void test_events_are_bounded(void **state)
{
    (void)state;
    enum { MORE = HSP_STORE_EVENTS_MAX + HSP_STORE_EVENTS_MAX / 100 };
    struct hsp_err err = {0};
    struct hsp_store *s = open_store();
    struct hsp_store_event *ev = calloc(MORE, sizeof *ev);
    assert_non_null(ev);
    for (uint64_t i = 0; i < MORE; i++) {
        ev[i] = (struct hsp_store_event){((uint64_t)1 << 40) + i, 7, "new"};
    }
    struct hsp_store_event old = {5, 7, "old"};
    assert_ok(hsp_store_feed_add(s, &old, 1, NULL, 0, &err), &err);
    assert_ok(hsp_store_feed_add(s, ev, 1, NULL, 0, &err), &err);
    struct collected c = {""};
    assert_ok(hsp_store_events(s, 0, 0, 1, collect_line, &c, &err), &err);
    assert_string_equal(c.text, "5:old;");
    assert_ok(hsp_store_feed_add(s, ev + 1, MORE - 1, NULL, 0, &err), &err);
    uint64_t first = ev[MORE - HSP_STORE_EVENTS_MAX].seq, n[2] = {0, 0};
    assert_ok(hsp_store_events(s, 0, 0, MORE, count_line, n, &err), &err);
    assert_true(n[0] == HSP_STORE_EVENTS_MAX && n[1] == first);
    free(ev);
    assert_null(hsp_store_close(s));
}

static void test_a_file_that_is_no_database_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_store *s = NULL;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < 200; i++) {
        fputs("this is no database ", f);
    }
    fclose(f);
    assert_status(hsp_store_open(path, &s, &err), HSP_EIO);
    assert_non_null(strstr(err.msg, path));
    assert_null(s);
}

HSP_TEST_FILE(store_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_survive_a_reopen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_batch_is_all_or_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_row_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_row_that_is_missing_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_flipped_bit_in_the_log_costs_no_row, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_backup_is_put_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_store_makes_no_backup, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_store_tells_its_generation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_wrong_backup_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_a_killed_restore_left_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_which_replaced_store_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_store_that_was_replaced_last, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_store_with_rows_of_an_old_form_stays_as_it_is, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_rows_of_the_first_schema_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events_and_metrics_come_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_first_line_of_the_newest_epoch_stays, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_metrics_go_with_the_rows_or_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_line_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_flipped_bit_of_a_backup_is_believed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_lines_of_the_second_schema_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lines_without_a_number_go_to_the_job_of_their_name,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage_is_found_between_portions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_row_that_is_written_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_no_database_is_refused, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
