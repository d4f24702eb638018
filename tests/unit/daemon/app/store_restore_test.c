/* Tests backups, and a store put back: a damaged, foreign or incomplete file changes nothing. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/app/store/restore.h"
#include "daemon/app/store/store.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_step.h"
#include "daemon/cluster/row_read.h"
#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "proto/host/file_io.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/app/store_lib.h"

static struct hsp_store_damage left_out;
static uint32_t of_replaced; /* generation of the store that was replaced */

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

static void put_line(void *arg, uint64_t number, uint64_t epoch, const char *json)
{
    (void)epoch;
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
    struct sl_collected c = {""};
    char want[64];
    struct hsp_store *s = sl_open();
    assert_ok(hsp_store_load(s, sl_collect_row, &c, &err), &err);
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
    struct hsp_store *s = sl_open();
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
    s = sl_open();
    assert_true(hsp_restore_replaced(*state, s, found, sizeof found, &of_replaced)); /* newer */
    assert_null(hsp_store_close(s));
    /* the core's view of it */
    struct sl_collected c = {""};
    struct hsp_whose w = {0};
    s = sl_open();
    assert_ok(hsp_store_load(s, sl_collect_row, &c, &err), &err);
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
    struct hsp_store *s = sl_open();
    assert_ok(hsp_store_apply(s, &row, 1, NULL, 0, &err), &err);
    assert_ok(hsp_store_backup(s, backup, &left_out, &err), &err);
    sl_behind_its_back("UPDATE kv SET value = x'00' WHERE key = 'job/1'");
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
    struct hsp_store *s = sl_open();
    assert_ok(hsp_store_apply(s, &row, 1, NULL, 0, &err), &err);
    put_cluster(s, 0);
    assert_ok(hsp_store_backup(s, backup, &left_out, &err), &err);
    put_cluster(s, 3);
    assert_null(hsp_store_close(s));
    sl_behind_its_back("UPDATE kv SET value = x'00' WHERE key = 'app/1'");
    s = sl_open();
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
    s = sl_open();
    assert_ok(hsp_store_get(s, HSP_RESTORED_ROW, same_value, &want, &err), &err);
    hsp_buf_fini(&want);
    assert_null(hsp_store_close(s));
}

/* An incomplete backup changes nothing. */
static void test_a_wrong_backup_is_refused(void **state)
{
    struct hsp_err err = {0};
    struct hsp_store_row row = {"job/1", "here", 4, false};
    char backup[4300], empty[4300];
    snprintf(backup, sizeof backup, "%s/backup", (char *)*state);
    snprintf(empty, sizeof empty, "%s/empty", (char *)*state);
    struct hsp_store *s = sl_open();
    assert_ok(hsp_store_backup(s, empty, &left_out, &err), &err); /* no cluster is in it */
    assert_ok(hsp_store_apply(s, &row, 1, NULL, 0, &err), &err);
    put_cluster(s, 0);
    assert_ok(hsp_store_backup(s, backup, &left_out, &err), &err);
    assert_null(hsp_store_close(s));
    assert_status(hsp_restore(*state, "/nonexistent", &left_out, &err), HSP_ENOENT);
    assert_status(hsp_restore(*state, sl_path, &left_out, &err),
                  HSP_EINVAL); /* a copy over itself */
    assert_status(hsp_restore(*state, "/dev/zero", &left_out, &err), HSP_EINVAL); /* has no end */
    assert_status(hsp_restore(*state, *state, &left_out, &err), HSP_EINVAL);
    assert_row("job/1", "here");
    assert_status(hsp_restore(*state, empty, &left_out, &err), HSP_EPARSE);
    assert_string_equal(strrchr(err.msg, ':'), ": it is not the store of a cluster");
    FILE *text = fopen(empty, "we");
    assert_true(text != NULL && fputs("In the beginning God created the heaven\n", text) >= 0);
    assert_int_equal(fclose(text), 0);
    assert_status(hsp_restore(*state, empty, &left_out, &err), HSP_EPARSE);
    assert_non_null(strstr(err.msg, "empty: it is no backup: hspmdctl backup FILE makes one"));
    size_t n;
    uint8_t *data = sl_contents(backup, &n);
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
    struct hsp_store *s = sl_open();
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
                  HSP_EIO); /* remaining files are told */
    assert_non_null(strstr(err.msg, "cannot make"));
    assert_int_equal(rmdir(in(dir, left[1])), 0);
}

/* Row "cluster" is of generation @generation of cluster @id; event @last is the last one. */
static void lives(uint32_t generation, struct hsp_digest id, uint64_t last)
{
    struct hsp_err err = {0};
    struct hsp_store *s = sl_open();
    const struct hsp_store_event e = {last, 0, "e"};
    const struct hsp_store_row opened = {HSP_RESTORED_ROW, NULL, 0, true};
    cluster_id = id;
    put_cluster(s, generation);
    cluster_id = (struct hsp_digest){7, 8};
    assert_ok(hsp_store_apply(s, &opened, 1, NULL, 0, &err), &err);
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
    struct hsp_store *s = sl_open();
    assert_ok(hsp_store_apply(s, &row, 1, NULL, 0, &err), &err);
    assert_ok(hsp_store_backup(s, backup, &left_out, &err), &err);
    assert_null(hsp_store_close(s));
    for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
        if (there[i].last != 5 || there[i].generation != 0) {
            lives(there[i].generation, there[i].cluster, there[i].last);
        }
        if (there[i].harm != NULL) {
            sl_behind_its_back(there[i].harm);
        }
        assert_ok(hsp_restore(dir, backup, &left_out, &err), &err);
        s = sl_open();
        assert_int_equal(hsp_restore_replaced(dir, s, found, sizeof found, &of_replaced),
                         there[i].named);
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

/* Only the last one counts: with an earlier one all that has happened since is lost. */
static void test_the_store_that_was_replaced_last(void **state)
{
    static const char *const stores[] = {"state.db.replaced-9.3", "state.db.replaced-10.0",
                                         "state.db.replaced-10.12", "state.db.replaced-10.9"};
    static const char *const others[] = {"state.db.replaced-11.0-wal", "state.db.replaced-12.x",
                                         "state.db.replaced-", "state.db.replaced--other",
                                         "state.db.replaced-10.11-other"};
    const char *dir = *state;
    char found[4300];
    struct hsp_store *s = sl_open();
    put_cluster(s, 2);
    assert_false(hsp_restore_replaced("/nonexistent", s, found, sizeof found, &of_replaced));
    assert_false(hsp_restore_replaced(dir, s, found, sizeof found, &of_replaced));
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
        put_store(dir, stores[i], cluster_id);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        put(in(dir, others[i]));
    }
    assert_true(hsp_restore_replaced(dir, s, found, sizeof found, &of_replaced));
    assert_string_equal(found, in(dir, "state.db.replaced-10.12"));
    assert_int_equal(of_replaced, 1);
    assert_false(hsp_restore_replaced(dir, s, found, strlen(found), &of_replaced));
    put(in(dir, "state.db.replaced-13.0-other"));
    assert_false(hsp_restore_replaced(dir, s, found, sizeof found, &of_replaced));
    put_store(dir, "state.db.replaced-14.0", cluster_id);
    assert_true(hsp_restore_replaced(dir, s, found, sizeof found, &of_replaced));
    put_store(dir, "state.db.replaced-15.0", (struct hsp_digest){7, 9}); /* of another cluster */
    assert_false(hsp_restore_replaced(dir, s, found, sizeof found, &of_replaced));
    put(in(dir, "state.db.replaced-16.0")); /* of none */
    assert_false(hsp_restore_replaced(dir, s, found, sizeof found, &of_replaced));
    assert_null(hsp_store_close(s));
    assert_int_equal(access(in(dir, "state.db.replaced-14.0-wal"), F_OK), -1); /* only read */
    assert_int_equal(access(in(dir, "state.db.replaced-14.0-shm"), F_OK), -1);
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

/* A backup with one bit flipped is refused, or its damaged lines are left out and counted, or the
 * bit was of no row. */
static void test_no_flipped_bit_of_a_backup_is_believed(void **state)
{
    enum { DRAWS = 150 };
    struct hsp_err err = {0};
    char backup[4300], json[300];
    uint64_t seed = hsp_test_seed(), stream = hsp_hash_str("bits"), refused = 0, less = 0;
    struct hsp_store_row row = {"job/1", "here", 4, false};
    snprintf(backup, sizeof backup, "%s/backup", (char *)*state);
    struct hsp_store *s = sl_open();
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
    uint8_t *data = sl_contents(backup, &n);
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
        s = sl_open();
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

/* The generation that the store in place was put back over. */
static enum hsp_status find_over(void *arg, const char *key, const void *value, size_t len)
{
    struct hsp_cluster_row row = {key, value, (uint32_t)len};
    (void)hsp_cluster_row_restored(&row, arg);
    return HSP_OK;
}

static uint32_t put_back_over(void)
{
    struct hsp_err err = {0};
    uint64_t over = 0;
    struct hsp_store *s = sl_open();
    assert_ok(hsp_store_get(s, HSP_RESTORED_ROW, find_over, &over, &err), &err);
    assert_null(hsp_store_close(s));
    return hsp_generation_number(over);
}

/* Without a start between: the store that the first one replaced still counts, and can still be put
 * back. */
static void test_a_backup_is_put_back_twice(void **state)
{
    const char *dir = *state;
    struct hsp_err err = {0};
    char backup[4300], found[4300], unused[4300];
    snprintf(backup, sizeof backup, "%s/backup", dir);
    struct hsp_store *s = sl_open();
    put_cluster(s, 0);
    assert_ok(hsp_store_backup(s, backup, &left_out, &err), &err);
    put_cluster(s, 3);
    assert_null(hsp_store_close(s));
    for (uint32_t i = 1; i < 4; i++) {
        assert_ok(hsp_restore(dir, backup, &left_out, &err), &err);
        assert_int_equal(put_back_over(), 3);
        assert_int_equal(n_replaced(dir), i);
    }
    s = sl_open();
    assert_true(hsp_restore_replaced(dir, s, found, sizeof found, &of_replaced));
    assert_null(hsp_store_close(s));
    snprintf(unused, sizeof unused, "%s-unused", found);
    assert_int_equal(rename(sl_path, unused), 0); /* a store that was put back and never opened */
    assert_ok(hsp_restore(dir, unused, &left_out, &err), &err);
    assert_int_equal(put_back_over(), 3);
    assert_ok(hsp_restore(dir, found, &left_out, &err), &err); /* undone */
    assert_int_equal(put_back_over(), 3);
}

HSP_TEST_FILE(store_restore_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_backup_is_put_back, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_backup_is_put_back_twice, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_store_makes_no_backup, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_store_tells_its_generation, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_a_wrong_backup_is_refused, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_what_a_killed_restore_left_goes, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_which_replaced_store_is_named, sl_setup, sl_teardown),
        cmocka_unit_test_setup_teardown(test_the_store_that_was_replaced_last, sl_setup,
                                        sl_teardown),
        cmocka_unit_test_setup_teardown(test_no_flipped_bit_of_a_backup_is_believed, sl_setup,
                                        sl_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
