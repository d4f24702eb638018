/* Patterns against glob(3), which has memory here. */
#include <glob.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/size.h"
#include "tests/lib/testlib.h"
#include "worker/data/pattern.h"

static uint64_t counter;
static const char *any_of(const char *const *list, size_t n)
{
    return list[hsp_test_rand("pattern", counter++) % n];
}

static void put_file(const char *dir, const char *name)
{
    char path[400];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

/* Files, a link to nothing, and folders with the same in them, two deep. */
static void grow(const char *dir, int depth)
{
    static const char *const files[] = {"a", "ab", "b]", ".a", "[", "a*b", "x\\y"};
    static const char *const folders[] = {"d", "dd", ".d"};
    char path[400];
    for (size_t i = 0; i < HSP_ARRAY_LEN(files); i++) {
        put_file(dir, files[i]);
    }
    (void)snprintf(path, sizeof path, "%s/aa", dir);
    assert_int_equal(symlink("nowhere", path), 0);
    for (size_t i = 0; depth > 0 && i < HSP_ARRAY_LEN(folders); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        grow(path, depth - 1);
    }
}

/* One to three parts. */
static void draw(char *ret, size_t size)
{
    static const char *const pieces[] = {"a",   "b",   "d",   "*",  "?",    "[ab]", "[!a]", "[b-d]",
                                         "\\*", "\\[", "\\d", "[",  "]",    ".",    "x",    "[]b]",
                                         "*",   "?",   "dd",  "[.", "\\\\", "[!.]"};
    size_t n = 0;
    uint64_t parts = 1 + hsp_test_rand("parts", counter) % 3;
    ret[0] = '\0';
    for (uint64_t i = 0; i < parts; i++) {
        uint64_t m = 1 + hsp_test_rand("length", counter) % 3;
        for (uint64_t k = 0; k < m; k++) {
            n += (size_t)snprintf(ret + n, size - n, "%s", any_of(pieces, HSP_ARRAY_LEN(pieces)));
        }
        if (i + 1 < parts) {
            n += (size_t)snprintf(ret + n, size - n, "%s", counter % 5 == 0 ? "//" : "/");
        }
    }
}

static void compare(const char *pattern)
{
    glob_t want = {0};
    struct hsp_names got = {0};
    struct hsp_err err = {0};
    int rc = glob(pattern, 0, NULL, &want); /* sorts as strcmp in this locale */
    assert_true(rc == 0 || rc == GLOB_NOMATCH);
    assert_ok(hsp_pattern_files(pattern, 65536, &got, &err), &err);
    if (got.n != want.gl_pathc) {
        fail_msg("%s: %zu files, glob has %zu", pattern, got.n, (size_t)want.gl_pathc);
    }
    for (size_t i = 0; i < got.n; i++) {
        if (strcmp(got.name[i], want.gl_pathv[i]) != 0) {
            fail_msg("%s: %s, glob has %s", pattern, got.name[i], want.gl_pathv[i]);
        }
    }
    hsp_names_free(&got);
    globfree(&want);
}

static void patterns_stand_for_what_glob_says(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), base[300], pattern[400];
    size_t n = (size_t)snprintf(base, sizeof base, "%s", dir);
    for (int i = 0; i < 3; i++) { /* three times .. stays inside */
        n += (size_t)snprintf(base + n, sizeof base - n, "/t");
        assert_int_equal(mkdir(base, 0700), 0);
    }
    grow(base, 2);
    uint32_t rounds = hsp_test_rounds(3000), found = 0;
    for (uint32_t i = 0; i < rounds; i++) {
        char rest[80];
        struct hsp_names names = {0};
        struct hsp_err err = {0};
        draw(rest, sizeof rest);
        (void)snprintf(pattern, sizeof pattern, "%s/%s", base, rest);
        compare(pattern);
        assert_ok(hsp_pattern_files(pattern, 65536, &names, &err), &err);
        found += names.n > 0;
        hsp_names_free(&names);
    }
    print_message("# %u of %u patterns stand for something\n", found, rounds);
    assert_true(found > rounds / 20);
    char *before = getcwd(NULL, 0);
    assert_int_equal(chdir(base), 0);
    compare("*");
    compare("d*/?");
    compare("./[ad]*");
    compare("d*/aa");     /* a link to nothing */
    compare("d*/a\\*b");  /* a\*b: the star is meant */
    compare("d*/x\\\\y"); /* x\\y */
    assert_int_equal(chdir(before), 0);
    free(before);
    hsp_test_rmdir(dir);
    free(dir);
}

static void folders_are_no_files_and_limits_hold(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), pattern[8192];
    struct hsp_names names = {0};
    struct hsp_err err = {0};
    grow(dir, 1);
    (void)snprintf(pattern, sizeof pattern, "%s/d*/", dir);
    assert_ok(hsp_pattern_files(pattern, 100, &names, &err), &err);
    assert_int_equal(names.n, 0);
    (void)snprintf(pattern, sizeof pattern, "%s/a*", dir);
    assert_ok(hsp_pattern_files(pattern, 4, &names, &err), &err);
    assert_int_equal(names.n, 4);
    hsp_names_free(&names);
    assert_status(hsp_pattern_files(pattern, 3, &names, &err), HSP_ELIMIT);
    assert_err(&err, HSP_ELIMIT, "more than 3 files");
    assert_true(names.n == 0 && names.name == NULL);
    (void)snprintf(pattern, sizeof pattern, "%s/%05000d*", dir, 7);
    assert_status(hsp_pattern_files(pattern, 3, &names, &err), HSP_OK); /* no name is so long */
    (void)snprintf(pattern, sizeof pattern, "%s/%05000d/*", dir, 7);
    assert_status(hsp_pattern_files(pattern, 3, &names, &err), HSP_ELIMIT);
    assert_err(&err, HSP_ELIMIT, "a path is longer than 4095 bytes");
    hsp_test_rmdir(dir);
    free(dir);
}

HSP_TEST_FILE(pattern_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_stand_for_what_glob_says),
        cmocka_unit_test(folders_are_no_files_and_limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
