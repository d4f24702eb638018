/* Batches on their way to the disk: the order of writes, the messages that leave before all
 * packages are made, and a disk that takes nothing. The disk, the pool, the clock and the making of
 * packages are played here; their calls are noted in a text. */
#include <stdio.h>

#include "daemon/app/perform/actions.h"
#include "daemon/app/perform/actions_impl.h"
#include "daemon/app/perform/commit.h"
#include "daemon/app/perform/store_stall.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/tasks.h"
#include "proto/base/size.h"
#include "tests/lib/testlib.h"

#define MS          1000000u
#define MANY        16385u /* batches; more than may wait for a disk that takes nothing */
#define PACKAGE_MEM ((size_t)1 << 16)
#define TERM        4u

uint64_t __wrap_uv_hrtime(void);

static struct {
    struct hsp_app app;
    uv_loop_t loop;
    struct hsp_app_task *pool; /* the waiting work, NULL none */
    bool no_pool;
    enum hsp_status folder, disk, tables, package; /* their answers */
    uint64_t now_ns, package_ns;                   /* the clock, and the time of a package */
    struct hsp_buf said;                           /* the calls since the last look */
    char failed[80];
    struct hsp_err why;
    uint32_t n_performed;
} w;

/* ---- the played parts ---- */

uint64_t __wrap_uv_hrtime(void)
{
    return w.now_ns;
}

bool hsp_app_queue(struct hsp_app *a, struct hsp_app_task *t)
{
    t->app = a;
    assert_null(w.pool); /* one at a time */
    w.pool = w.no_pool ? NULL : t;
    return !w.no_pool;
}

void hsp_app_fail(struct hsp_app *a, const char *what, const struct hsp_err *err)
{
    (void)snprintf(w.failed, sizeof w.failed, "%s", what);
    w.why = *err;
    a->failed = true;
}

static void on_retry(uv_timer_t *t)
{
    (void)t;
}

void hsp_app_store_stalled(struct hsp_app *a, const struct hsp_err *why)
{
    w.why = *why;
    a->store_stalled = true;
    assert_int_equal(uv_timer_start(&a->retry, on_retry, 60000, 0), 0);
}

void hsp_app_unstuck(struct hsp_app *a)
{
    a->store_stalled = false;
}

void hsp_app_perform_rest(struct hsp_app *a)
{
    (void)a;
    w.n_performed++;
}

enum hsp_status hsp_state_folder_check(const char *dir, const struct hsp_state_folder *f,
                                       struct hsp_err *err)
{
    assert_string_equal(dir, "/s");
    assert_ptr_equal(f, &w.app.folder);
    return w.folder == HSP_OK ? HSP_OK : hsp_err_set(err, w.folder, 0, "moved");
}

enum hsp_status hsp_store_apply(struct hsp_store *s, const struct hsp_store_row *rows, size_t n,
                                const uint32_t *gone, size_t n_gone, struct hsp_err *err)
{
    (void)s;
    hsp_buf_puts(&w.said, "rows");
    for (size_t i = 0; i < n; i++) {
        hsp_buf_printf(&w.said, " %s", rows[i].key);
    }
    for (size_t i = 0; i < n_gone; i++) {
        hsp_buf_printf(&w.said, " -%u", gone[i]);
    }
    hsp_buf_puts(&w.said, ";");
    return w.disk == HSP_OK ? HSP_OK : hsp_err_set(err, w.disk, 0, "state.db");
}

enum hsp_status hsp_plan_rec_build(struct hsp_plan_rec *p, size_t mem_cap,
                                   const struct hsp_epoch_plan **ret, struct hsp_err *err)
{
    static const struct hsp_epoch_plan built;
    (void)err;
    assert_int_equal(mem_cap, PACKAGE_MEM);
    hsp_buf_printf(&w.said, "build %s;", p->source);
    *ret = &built;
    return HSP_OK;
}

enum hsp_status hsp_epoch_tables_make(const struct hsp_epoch_plan *p,
                                      const struct hsp_epoch_plan *from,
                                      const struct hsp_epoch_net *net,
                                      const struct hsp_prepare_action *a, struct hsp_arena *arena,
                                      struct hsp_epoch_tables *ret, struct hsp_err *err)
{
    (void)p;
    (void)a;
    (void)arena;
    (void)ret;
    assert_true((net != NULL) == (from != NULL));
    hsp_buf_printf(&w.said, "tables%s;", from != NULL ? " from" : "");
    return w.tables == HSP_OK ? HSP_OK : hsp_err_set(err, w.tables, 0, "a box nobody has");
}

enum hsp_status hsp_epoch_package(const struct hsp_epoch_plan *p, const struct hsp_epoch_tables *t,
                                  const struct hsp_package_job *job,
                                  const struct hsp_prepare_action *a, const char *const *names,
                                  uint32_t peer, struct hsp_arena *arena, struct hsp_buf *out,
                                  struct hsp_err *err)
{
    (void)p;
    (void)t;
    (void)a;
    (void)names;
    assert_int_equal(job->term, TERM);
    assert_int_equal(hsp_arena_used(arena), 0); /* the memory of the one before is given back */
    assert_non_null(hsp_arena_alloc(arena, 1000));
    w.now_ns += w.package_ns;
    hsp_buf_printf(&w.said, "package %u;", peer);
    hsp_buf_printf(out, "%s%u", job->config_json, peer);
    return w.package == HSP_OK ? HSP_OK : hsp_err_set(err, w.package, 0, "does not fit");
}

/* ---- a queue of batches ---- */

static int setup(void **state)
{
    static const struct hsp_daemon_config cfg = {.state_dir = "/s"};
    (void)state;
    memset(&w, 0, sizeof w);
    w.app.cfg = &cfg;
    hsp_buf_init(&w.said, 1u << 20);
    assert_int_equal(uv_loop_init(&w.loop), 0);
    assert_int_equal(uv_timer_init(&w.loop, &w.app.retry), 0);
    return 0;
}

static struct hsp_batch *batch_free(struct hsp_batch *b)
{
    if (b->groups != NULL) {
        (void)hsp_arena_free(b->groups->arena);
        free(b->groups);
    }
    for (size_t i = 0; i < b->n_queued_actions; i++) {
        hsp_buf_fini(&b->queued_actions[i].blob);
    }
    free(b->queued_actions);
    free(b->rows);
    free(b);
    return NULL;
}

static int teardown(void **state)
{
    (void)state;
    assert_null(w.pool);
    while (w.app.head != NULL) {
        struct hsp_batch *b = w.app.head;
        w.app.head = b->next;
        (void)batch_free(b);
    }
    uv_close((uv_handle_t *)&w.app.retry, NULL);
    assert_int_equal(uv_run(&w.loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    hsp_buf_fini(&w.said);
    return 0;
}

/* One more at the end of the queue, with a row; @key NULL: without. */
static struct hsp_batch *add(const char *key)
{
    struct hsp_batch *b = calloc(1, sizeof *b);
    assert_non_null(b);
    if (key != NULL) {
        b->rows = calloc(1, sizeof *b->rows);
        assert_non_null(b->rows);
        b->rows[b->n_rows++].key = key;
    }
    if (w.app.head == NULL) {
        w.app.head = b;
    } else {
        w.app.tail->next = b;
    }
    w.app.tail = b;
    w.app.n_batches++;
    return b;
}

/* The PREPAREs of an epoch of @n devices, and one message behind them. */
static struct hsp_batch *add_prepares(const char *key, uint32_t n)
{
    static struct hsp_job_spec spec = {.init_from = "", .ckpt_keep = 2};
    static struct hsp_job_rec rec = {.spec = &spec, .config_json = "p"};
    static struct hsp_plan_rec plan = {.job = &rec, .source = "new"};
    struct hsp_batch *b = add(key);
    struct prepare_group *g = calloc(1, sizeof *g);
    assert_non_null(g);
    g->plan = &plan;
    g->mem_cap = PACKAGE_MEM;
    g->term = TERM;
    b->groups = g;
    b->n_queued_actions = n + 1;
    b->queued_actions = calloc(b->n_queued_actions, sizeof *b->queued_actions);
    assert_non_null(b->queued_actions);
    for (uint32_t i = 0; i < n; i++) {
        struct queued_action *d = &b->queued_actions[i];
        *d = (struct queued_action){
            .act.type = HSP_ACT_PREPARE, .group = g, .msg.u.prepare.rank = i};
        hsp_buf_init(&d->blob, HSP_MSG_BLOB_MAX);
    }
    b->queued_actions[n].act.type = HSP_ACT_SEND;
    return b;
}

/* The pool does the waiting work, then the loop hears of it. */
static void on_pool(void)
{
    assert_non_null(w.pool);
    w.pool->run(w.pool);
}

static void on_loop(void)
{
    struct hsp_app_task *t = w.pool;
    w.pool = NULL;
    t->done(t);
}

static void work(void)
{
    on_pool();
    on_loop();
}

static void assert_said(const char *want)
{
    assert_string_equal(hsp_buf_cstr(&w.said), want);
    hsp_buf_reset(&w.said);
}

/* ---- tests ---- */

static void all_that_waits_is_one_transaction_in_order(void **state)
{
    (void)state;
    struct hsp_batch *a = add("a"), *b = add(NULL), *c = add("c");
    hsp_app_write_on(&w.app);
    assert_true(w.app.writing);
    on_pool();
    assert_said("rows a c;");
    assert_false(a->on_disk || b->on_disk || c->on_disk); /* the loop does not know it yet */
    on_loop();
    assert_true(a->on_disk && b->on_disk && c->on_disk);
    assert_int_equal(w.n_performed, 1);
    assert_false(w.app.writing);
    hsp_app_write_on(&w.app); /* nothing waits */
    assert_null(w.pool);
}

static void metrics_of_forgotten_jobs_go_with_the_rows(void **state)
{
    (void)state;
    uint32_t gone[] = {7, 8, 9};
    struct hsp_batch *a = add("a");
    a->gone = gone;
    a->n_gone = 1;
    add("b");
    struct hsp_batch *c = add("c");
    c->gone = gone + 1;
    c->n_gone = 2;
    hsp_app_write_on(&w.app);
    work();
    assert_said("rows a b c -7 -8 -9;");
}

static void what_comes_meanwhile_is_written_after(void **state)
{
    (void)state;
    struct hsp_batch *a = add("a");
    hsp_app_write_on(&w.app);
    struct hsp_batch *b = add("b");
    hsp_app_write_on(&w.app); /* a thread is at it */
    work();
    assert_said("rows a;");
    assert_true(a->on_disk && !b->on_disk);
    work(); /* begun by the caller that performed the first */
    assert_said("rows b;");
    assert_true(b->on_disk);
}

static void a_disk_that_takes_nothing_gets_the_same_again(void **state)
{
    (void)state;
    struct hsp_batch *a = add("a"), *b = add_prepares("b", 1);
    w.disk = HSP_ENOSPC;
    hsp_app_write_on(&w.app);
    work();
    assert_said("rows a b;"); /* and no package of rows that are not on disk */
    assert_true(w.app.store_stalled && !w.app.writing && !a->on_disk);
    assert_err(&w.why, HSP_ENOSPC, "state.db");
    assert_int_equal(w.n_performed, 0);
    struct hsp_batch *c = add("c");
    hsp_app_write_on(&w.app); /* not before the time */
    assert_null(w.pool);
    w.disk = HSP_OK;
    assert_int_equal(uv_timer_stop(&w.app.retry), 0);
    hsp_app_write_on(&w.app);
    work();
    assert_said("rows a b c;build new;tables;package 0;");
    assert_true(!w.app.store_stalled && a->on_disk && b->on_disk && c->on_disk);
    assert_string_equal(w.failed, "");
}

/* A store that was moved takes nothing, and is looked for also when nothing is to be written. */
static void a_store_that_is_moved_gets_nothing(void **state)
{
    (void)state;
    hsp_app_look_for_store(&w.app);
    work();
    assert_said("");
    assert_false(w.app.store_stalled || w.app.writing);
    w.folder = HSP_ENOENT;
    hsp_app_look_for_store(&w.app); /* nobody has asked for anything since */
    work();
    assert_true(w.app.store_stalled);
    assert_err(&w.why, HSP_ENOENT, "moved");
    struct hsp_batch *a = add("a");
    hsp_app_write_on(&w.app); /* not before the time */
    hsp_app_look_for_store(&w.app);
    assert_null(w.pool);
    assert_int_equal(uv_timer_stop(&w.app.retry), 0);
    hsp_app_look_for_store(&w.app);
    work();
    assert_said(""); /* no row was written */
    assert_true(w.app.store_stalled && !a->on_disk);
    w.folder = HSP_OK;
    assert_int_equal(uv_timer_stop(&w.app.retry), 0);
    hsp_app_look_for_store(&w.app);
    work();
    assert_said("rows a;");
    assert_true(!w.app.store_stalled && a->on_disk);
    w.folder = HSP_ENOENT;
    struct hsp_batch *b = add("b");
    hsp_app_write_on(&w.app); /* rows that come before the next look are not promised either */
    work();
    assert_said("");
    assert_true(w.app.store_stalled && !b->on_disk);
    assert_string_equal(w.failed, "");
}

/* The store is there again, and nothing waits. */
static void a_store_that_is_back_is_noticed(void **state)
{
    (void)state;
    w.folder = HSP_ENOENT;
    hsp_app_look_for_store(&w.app);
    work();
    assert_true(w.app.store_stalled);
    w.folder = HSP_OK;
    assert_int_equal(uv_timer_stop(&w.app.retry), 0);
    hsp_app_look_for_store(&w.app);
    hsp_app_look_for_store(&w.app); /* a thread is at it */
    work();
    assert_false(w.app.store_stalled || w.app.writing);
    assert_null(w.pool);
}

static void too_much_that_waits_ends_the_process(void **state)
{
    (void)state;
    w.disk = HSP_ENOSPC;
    for (uint32_t i = 0; i < MANY - 1; i++) {
        add("a");
    }
    hsp_app_write_on(&w.app);
    work();
    assert_string_equal(w.failed, "");
    assert_int_equal(uv_timer_stop(&w.app.retry), 0);
    add("a");
    hsp_app_write_on(&w.app);
    work();
    assert_string_equal(w.failed, "the state cannot be written");
    assert_err(&w.why, HSP_ENOSPC, "state.db");
    hsp_app_write_on(&w.app);
    assert_null(w.pool);
}

static void a_lack_of_memory_ends_the_process(void **state)
{
    (void)state;
    w.disk = HSP_ENOMEM;
    struct hsp_batch *a = add("a");
    hsp_app_write_on(&w.app);
    work();
    assert_string_equal(w.failed, "the state cannot be written");
    assert_false(w.app.store_stalled || a->on_disk);
}

static void without_a_pool_the_process_ends(void **state)
{
    (void)state;
    w.no_pool = true;
    struct hsp_batch *a = add("a");
    hsp_app_write_on(&w.app);
    assert_string_equal(w.failed, "the state cannot be written");
    assert_err(&w.why, HSP_ENOMEM, "out of memory for the writing of rows");
    assert_false(w.app.writing || a->on_disk);
}

/* Packages of 4 ms: three fill a piece. */
static void what_is_made_is_sent_while_the_rest_is_made(void **state)
{
    (void)state;
    struct hsp_batch *a = add("a"), *b = add_prepares("b", 5), *c = add("c");
    w.package_ns = 4 * MS;
    hsp_app_write_on(&w.app);
    work();
    assert_said("rows a b c;build new;tables;package 0;package 1;package 2;");
    assert_true(a->on_disk && b->on_disk && c->on_disk);
    assert_int_equal(b->n_ready, 3);
    assert_int_equal(w.n_performed, 1);
    assert_true(w.app.writing);
    struct hsp_batch *d = add("d"); /* waits until that is over */
    hsp_app_write_on(&w.app);
    work();
    assert_said("package 3;package 4;"); /* neither rows nor tables again */
    assert_int_equal(b->n_ready, 6);     /* and the message behind them */
    assert_int_equal(w.n_performed, 2);
    assert_false(d->on_disk);
    assert_string_equal((const char *)b->queued_actions[4].msg.blob, "p4");
    assert_int_equal(b->queued_actions[4].msg.blob_len, 2);
    work();
    assert_said("rows d;");
}

static void packages_of_two_batches_are_made_in_order(void **state)
{
    (void)state;
    struct hsp_plan_rec old = {.source = "old"};
    struct hsp_batch *a = add_prepares("a", 1), *b = add_prepares("b", 2);
    b->groups->from = &old;
    w.package_ns = 11 * MS;
    hsp_app_write_on(&w.app);
    work();
    assert_said("rows a b;build new;tables;package 0;");
    assert_true(b->on_disk);
    assert_int_equal(a->n_ready, 1);
    assert_int_equal(b->n_ready, 0);
    work();
    assert_said("build new;build old;tables from;package 0;");
    assert_int_equal(a->n_ready, 2);
    assert_int_equal(b->n_ready, 1);
    work();
    assert_said("package 1;");
    work(); /* the message behind it takes no time, but the piece was full */
    assert_said("");
    assert_int_equal(b->n_ready, 3);
    assert_false(w.app.writing);
}

static void a_package_that_cannot_be_made_says_why(void **state)
{
    (void)state;
    struct hsp_batch *a = add_prepares("a", 1), *b = add_prepares("b", 1);
    b->groups->status = hsp_err_set(&b->groups->err, HSP_ENOENT, 0, "the plan is not kept");
    w.package = HSP_ELIMIT;
    hsp_app_write_on(&w.app);
    work();
    assert_said("rows a b;build new;tables;package 0;");
    assert_int_equal(a->queued_actions[0].status, HSP_ELIMIT);
    assert_err(&a->queued_actions[0].err, HSP_ELIMIT, "does not fit");
    assert_err(&b->queued_actions[0].err, HSP_ENOENT, "the plan is not kept");
    assert_int_equal(b->queued_actions[0].msg.blob_len, 0);
    assert_int_equal(b->n_ready, 2); /* told all the same */
    w.tables = HSP_ENOENT;
    struct hsp_batch *c = add_prepares("c", 2);
    hsp_app_write_on(&w.app);
    work();
    assert_said("rows c;build new;tables;"); /* once for both devices */
    assert_err(&c->queued_actions[0].err, HSP_ENOENT, "a box nobody has");
    assert_err(&c->queued_actions[1].err, HSP_ENOENT, "a box nobody has");
    assert_string_equal(w.failed, "");
}

static void at_the_end_rows_are_written_and_no_more_packages_made(void **state)
{
    (void)state;
    struct hsp_batch *a = add_prepares("a", 5);
    w.package_ns = 4 * MS;
    w.app.closing = true;
    hsp_app_write_on(&w.app);
    work();
    assert_said("rows a;build new;tables;package 0;package 1;package 2;");
    assert_true(a->on_disk && !w.app.writing);
    assert_int_equal(a->n_ready, 3);
    assert_int_equal(w.n_performed, 1);
}

static void a_pool_that_is_gone_half_way_ends_the_process(void **state)
{
    (void)state;
    add_prepares("a", 5);
    w.package_ns = 4 * MS;
    hsp_app_write_on(&w.app);
    w.no_pool = true;
    work();
    assert_string_equal(w.failed, "packages cannot be made");
    assert_false(w.app.writing);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

HSP_TEST_FILE(commit_test)
{
    const struct CMUnitTest tests[] = {
        TEST(all_that_waits_is_one_transaction_in_order),
        TEST(metrics_of_forgotten_jobs_go_with_the_rows),
        TEST(what_comes_meanwhile_is_written_after),
        TEST(a_disk_that_takes_nothing_gets_the_same_again),
        TEST(a_store_that_is_moved_gets_nothing),
        TEST(a_store_that_is_back_is_noticed),
        TEST(too_much_that_waits_ends_the_process),
        TEST(a_lack_of_memory_ends_the_process),
        TEST(without_a_pool_the_process_ends),
        TEST(what_is_made_is_sent_while_the_rest_is_made),
        TEST(packages_of_two_batches_are_made_in_order),
        TEST(a_package_that_cannot_be_made_says_why),
        TEST(at_the_end_rows_are_written_and_no_more_packages_made),
        TEST(a_pool_that_is_gone_half_way_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
