/* Serves every unit test: cmocka with its prerequisites, seeds, status assertions.
 *
 * A test draws its randomness from hsp_test_seed(); HSPMD_SEED overrides the default, and the seed
 * is printed, so a failure can be repeated. */
#ifndef HSP_TESTLIB_H
#define HSP_TESTLIB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/base/err.h"

/* The body that follows runs the tests of the file NAME.c and returns the result of cmocka:
 *     HSP_TEST_FILE(buf_test)
 *     {
 *         const struct CMUnitTest tests[] = {cmocka_unit_test(...)};
 *         return cmocka_run_group_tests(tests, NULL, NULL);
 *     }
 * A program holds the files of a room. Its main (testmain.c) runs the one named like the program,
 * that is like the link by which it was started; of no such name: the one named by the first
 * argument. */
#define HSP_TEST_FILE(file)                                                       \
    static int test_file_##file(void);                                            \
    __attribute__((constructor)) static void enter_##file(void)                   \
    {                                                                             \
        static struct hsp_test_file f = {.name = #file, .run = test_file_##file}; \
        hsp_test_enter(&f);                                                       \
    }                                                                             \
    static int test_file_##file(void)

/* One file of tests; @next links the list of all files. */
struct hsp_test_file {
    const char *name;
    int (*run)(void);
    struct hsp_test_file *next;
};
void hsp_test_enter(struct hsp_test_file *file);

/* Runs the tests of the file @name of this program, for a file that runs them under another
 * name. */
int hsp_test_run(const char *name);

/* The command line, from the name of the tests on. */
extern int hsp_test_argc;
extern char **hsp_test_argv;

/* Returns the seed of this run, and prints it once to stderr. The default is 1. */
uint64_t hsp_test_seed(void);

/* Returns the i-th number of the random sequence @stream under the seed of this run. */
uint64_t hsp_test_rand(const char *stream, uint64_t i);

/* Returns a uniform random integer in [lo, hi]. */
int64_t hsp_test_range(const char *stream, uint64_t i, int64_t lo, int64_t hi);

/* Returns how many of @n random cases to try: HSPMD_ROUNDS percent of them (default 100), but at
 * most a third with sanitizers and a tenth under valgrind, which are slow, and at least one. */
uint32_t hsp_test_rounds(uint32_t n);

/* Set up and tear down a group of tests whose *state is an arena of at most 256 MiB. */
int hsp_test_arena_begin(void **state);
int hsp_test_arena_end(void **state);

/* Makes a new private folder under $TMPDIR; hsp_test_rmdir removes it. Fails the test on error. */
char *hsp_test_tmpdir(void); /* free() it */
void hsp_test_rmdir(const char *path);

/* Returns the text of a file of the source tree ($HSPMD_SRC). Fails the test when the file cannot
 * be read. */
char *hsp_test_source(const char *file); /* free() it */

/* "HSP_EPROTO"; "HSP_UNKNOWN" for a value outside the map. */
const char *hsp_test_status_name(enum hsp_status code);

#define assert_status(expr, want) \
    hsp_test_assert_status((expr), (want), NULL, #expr, __FILE__, __LINE__)

/* The status, and with it the message of the record when they differ. */
#define assert_ok(expr, err) \
    hsp_test_assert_status((expr), HSP_OK, (err), #expr, __FILE__, __LINE__)

/* Asserts the recorded code and the exact message. */
#define assert_err(err, want, text) hsp_test_assert_err((err), (want), (text), __FILE__, __LINE__)

void hsp_test_assert_status(enum hsp_status got, enum hsp_status want, const struct hsp_err *err,
                            const char *expr, const char *file, int line);
void hsp_test_assert_err(const struct hsp_err *err, enum hsp_status want, const char *text,
                         const char *file, int line);

/* Asserts |a - b| <= tol, with the values in the message. */
#define assert_near(a, b, tol) hsp_test_assert_near((a), (b), (tol), #a, __FILE__, __LINE__)
void hsp_test_assert_near(double a, double b, double tol, const char *expr, const char *file,
                          int line);

#endif
