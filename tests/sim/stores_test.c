/* Tests wrong stores: an empty one, that of another cluster, an older one. The agents keep all
 * state that the coordinator does not know, and training goes on. */
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/row_read.h"
#include "tests/sim/simstory.h"

static bool settled(struct sim *w)
{
    const struct hsp_job *j = w->d_alive ? hsp_cluster_job(w->d, 1) : NULL;
    return j != NULL && j->state == HSP_JOB_RUNNING && j->cur.settled && j->ticket == 0;
}

/* @n nodes with one device each train job 1. */
static void running(uint32_t n)
{
    ss_begin_empty(n);
    sim_submit(ss, "story", 0, 1, 8, 1000, 0);
    ss_until(settled, 5000);
    ss_go_on(300);
}

static bool daemon_is_back(struct sim *w)
{
    return w->d_alive;
}

/* hspmdd begins with an empty folder: a typo, or a head node that was installed anew. */
static void empty_store(void **state)
{
    (void)state;
    running(3);
    uint64_t at = ss->job[1].committed;
    assert_int_equal(ss_holders(), 3);
    sim_kill_daemon(ss, 100);
    ss_forget_rows();
    ss_go_on(5000);
    assert_int_equal(ss_holders(), 3);
    assert_true(ss->job[1].committed > at + 50); /* nobody was told to stop */
}

/* A copy of a store, which can be put back. */
struct copy {
    struct sim_row_kv row[64];
    uint32_t n;
};

static void keep_rows(struct copy *k)
{
    assert_true(ss->n_rows <= 64);
    for (k->n = 0; k->n < ss->n_rows; k->n++) {
        k->row[k->n] = ss->rows[k->n];
        k->row[k->n].value = malloc(ss->rows[k->n].len + 1);
        memcpy(k->row[k->n].value, ss->rows[k->n].value, ss->rows[k->n].len);
    }
}

static void put_back(const struct copy *k)
{
    ss_forget_rows();
    for (ss->n_rows = 0; ss->n_rows < k->n; ss->n_rows++) {
        ss->rows[ss->n_rows] = k->row[ss->n_rows];
    }
}

static uint64_t restored_over; /* the generation of the store that is replaced */

/* Marks the store as hspmdd --restore leaves it. */
static void mark_restored(void)
{
    struct hsp_buf b;
    struct sim_row_kv *r = &ss->rows[ss->n_rows++];
    hsp_buf_init(&b, 100);
    hsp_cluster_restored_row(restored_over, &b);
    *r = (struct sim_row_kv){.value = b.data, .len = (uint32_t)b.len};
    (void)snprintf(r->key, sizeof(r->key), HSP_RESTORED_ROW);
}

static const struct hsp_job *job(void)
{
    const struct hsp_job *j = hsp_cluster_job(ss->d, 1);
    assert_non_null(j);
    return j;
}

static uint64_t before; /* an epoch */

static bool settled_again(struct sim *w)
{
    return settled(w) && hsp_cluster_job(w->d, 1)->cur.epoch > before;
}

/* An executor is lost: the job goes on in another epoch, with all devices. */
static void another_epoch(void)
{
    before = job()->cur.epoch;
    sim_kill_exec(ss, 0);
    ss_until(settled_again, 20000);
    ss_go_on(1000);
    ss_until(settled_again, 20000);
}

static void trains_on(uint64_t ms)
{
    uint64_t at = ss->job[1].committed;
    ss_go_on(ms);
    assert_true(ss->job[1].committed > at + ms / 100);
    assert_int_equal(ss_holders(), 3);
}

/* A backup of before the last epoch is copied into the folder; later the newer store is found. */
static void older_store(void **state)
{
    (void)state;
    struct copy old, new;
    running(3);
    keep_rows(&old);
    another_epoch();
    ss_go_on(500);
    sim_kill_daemon(ss, 100);
    keep_rows(&new);
    put_back(&old);
    trains_on(5000);
    assert_int_equal(job()->state, HSP_JOB_BEHIND);
    assert_non_null(strstr(job()->reason, "of it, this store knows epochs up to"));
    sim_kill_daemon(ss, 100);
    put_back(&new);
    ss_until(settled, 5000);
    trains_on(1000);
}

/* The store loses all rows of the job, like a backup of before the job was submitted: the agents
 * keep its state, and it trains on. */
static void store_without_the_job(void **state)
{
    (void)state;
    running(3);
    sim_kill_daemon(ss, 100);
    for (uint32_t i = 0; i < ss->n_rows;) {
        bool of_job =
            strncmp(ss->rows[i].key, "job/", 4) == 0 || strncmp(ss->rows[i].key, "plan/", 5) == 0;
        if (of_job) {
            free(ss->rows[i].value);
            ss->rows[i] = ss->rows[--ss->n_rows];
        } else {
            i++;
        }
    }
    trains_on(5000);
    assert_int_equal(job()->state, HSP_JOB_BEHIND);
    assert_true(job()->unrecorded);
}

/* hspmdd --restore runs while executors train in an epoch that the backup knows: they go on, and
 * the next epoch has a number that no store has given before. */
static void restored_store(void **state)
{
    (void)state;
    struct copy old;
    running(3);
    keep_rows(&old);
    ss_go_on(500);
    uint64_t epoch = job()->cur.epoch;
    sim_kill_daemon(ss, 100);
    put_back(&old);
    mark_restored();
    ss_go_on(2000);
    assert_true(settled(ss));
    assert_int_equal(hsp_generation_number(ss->d->generation), 1);
    assert_int_equal(job()->cur.epoch, epoch);
    trains_on(1000);
    another_epoch();
    assert_true(job()->cur.epoch > HSP_GENERATION_NUMBERS);
    sim_kill_daemon(ss, 100); /* it is raised once */
    ss_go_on(2000);
    assert_true(settled(ss));
    assert_int_equal(hsp_generation_number(ss->d->generation), 1);
}

/* After the backup, an agent was welcomed again and another epoch began; then hspmdd --restore puts
 * the backup back. */
static void restored_after_more(void **state)
{
    (void)state;
    struct copy old;
    running(3);
    keep_rows(&old);
    before = job()->cur.epoch;
    sim_kill_agent(ss, 1, 50);
    ss_until(settled_again, 20000);
    ss_go_on(1500);
    ss_until(settled_again, 20000);
    sim_kill_daemon(ss, 100);
    put_back(&old);
    mark_restored();
    trains_on(5000);
    assert_int_equal(job()->state, HSP_JOB_BEHIND);
    assert_int_equal(ss->d->n_parked, 0);
}

static bool held(struct sim *w)
{
    return strstr(hsp_cluster_job(w->d, 1)->reason, "it may have ended since") != NULL;
}

/* The job ends after the backup that --restore puts back was made: it is not trained a second
 * time. */
static void restored_after_the_end(void **state)
{
    (void)state;
    struct copy old;
    running(3);
    keep_rows(&old);
    sim_admin(ss, (struct hsp_admin_event){.verb = HSP_ADMIN_CANCEL, .job = 1});
    ss_go_on(2000);
    assert_int_equal(ss_holders(), 0);
    uint64_t commits = ss->job[1].commits;
    sim_kill_daemon(ss, 100);
    put_back(&old);
    mark_restored();
    ss_go_on(2u * ss->cfg.state_wait_ms);
    assert_true(held(ss));
    assert_int_equal(job()->state, HSP_JOB_PAUSED);
    assert_int_equal(ss->job[1].commits, commits);
}

/* hspmdd is another version, and cannot read the record of the job: how far it came is not known
 * before its nodes speak, and is kept all the same. */
static void unreadable_job(void **state)
{
    (void)state;
    running(3);
    uint64_t at = ss->job[1].committed;
    sim_kill_daemon(ss, 100);
    ss_go_on(99);
    assert_true(sim_run(ss, ss->now + 1000, daemon_is_back));
    struct hsp_event ev = {.now_ms = ss->now,
                           .type = HSP_EV_UNREADABLE,
                           .u.unreadable = {1, "its record is of another version"}};
    sim_d_step(ss, &ev);
    assert_int_equal(job()->state, HSP_JOB_FAILED);
    ss_go_on(5000);
    assert_int_equal(ss_holders(), 3);
    sim_admin(ss, (struct hsp_admin_event){.verb = HSP_ADMIN_RESUME, .job = 1});
    ss_until(settled, 20000);
    ss_go_on(1000);
    assert_true(ss->job[1].committed > at);
}

static void drain(const char *node, bool on)
{
    sim_admin(ss, (struct hsp_admin_event){.verb = on ? HSP_ADMIN_DRAIN : HSP_ADMIN_UNDRAIN,
                                           .node = node,
                                           .reason = "test"});
}

static bool on_two(struct sim *w)
{
    const struct hsp_job *j = hsp_cluster_job(w->d, 1);
    return settled(w) && j->cur.n_ranks == 2 && j->n_leases == 2;
}

static bool on_the_others(struct sim *w)
{
    return on_two(w) && HSP_DEVICE_NODE(hsp_cluster_job(w->d, 1)->cur.peers[0].device) >= 2;
}

static bool held_by_another(struct sim *w)
{
    return w->d_alive && hsp_cluster_job(w->d, 1)->ahead[0] != '\0';
}

/* The backup has the job on two nodes, and it went on on two others of the cluster: it is held
 * while they train. */
static void restored_after_a_move(void **state)
{
    (void)state;
    struct copy old, new;
    running(4);
    drain("n2", true);
    drain("n3", true);
    ss_until(on_two, 20000);
    ss_go_on(500); /* that is on disk */
    keep_rows(&old);
    drain("n2", false);
    drain("n3", false);
    ss_go_on(2000);
    drain("n0", true);
    drain("n1", true);
    ss_until(on_the_others, 20000);
    ss_go_on(1000);
    uint64_t epoch = job()->cur.epoch, at = ss->job[1].committed;
    sim_kill_daemon(ss, 100);
    keep_rows(&new);
    put_back(&old);
    mark_restored();
    ss_until(held_by_another, 5000);
    ss_go_on(2u * ss->cfg.state_wait_ms);
    assert_true(held_by_another(ss));
    assert_true(ss->job[1].committed > at + 100);
    assert_int_equal(ss->job[1].last_epoch, epoch);
    sim_kill_daemon(ss, 100);
    put_back(&new); /* the newer store is found */
    ss_until(settled, 5000);
    assert_int_equal(job()->cur.epoch, epoch);
}

/* The generation that --restore finds in the store which it replaces. */
static uint64_t generation_there(void)
{
    struct hsp_whose w = {.generation = 0};
    for (uint32_t i = 0; i < ss->n_rows; i++) {
        struct hsp_cluster_row r = {ss->rows[i].key, ss->rows[i].value, ss->rows[i].len};
        (void)hsp_cluster_row_whose(&r, &w);
    }
    return w.generation;
}

/* A backup is put back. That disk dies, too, and the backup is put back on another disk: its agents
 * have obeyed a store that is lost, and the new numbers come after those of the lost store. Then
 * the disk returns to the content of the backup: hspmdd is behind its agents, until one more
 * --restore gives numbers after all others. */
static void restored_twice(void **state)
{
    (void)state;
    struct copy one, two, three, four;
    running(3);
    keep_rows(&one);
    keep_rows(&two);
    keep_rows(&three);
    keep_rows(&four);
    uint64_t epoch = job()->cur.epoch;
    ss->cfg.salt = 5;
    sim_kill_daemon(ss, 100);
    put_back(&one);
    mark_restored();
    ss_go_on(2000);
    assert_true(settled(ss));
    ss->cfg.salt = 6;
    sim_kill_daemon(ss, 100);
    put_back(&two);
    mark_restored();
    ss_go_on(2000);
    assert_int_equal(hsp_generation_number(ss->d->generation), 2);
    assert_true(settled(ss));
    assert_int_equal(job()->cur.epoch, epoch);
    sim_kill_daemon(ss, 100);
    put_back(&three);
    ss_go_on(2000);
    assert_true(ss->d->behind);
    trains_on(1000);
    sim_kill_daemon(ss, 100);
    restored_over = generation_there();
    put_back(&four);
    mark_restored();
    ss_go_on(2000);
    assert_int_equal(hsp_generation_number(ss->d->generation), 3);
    assert_true(settled(ss));
    assert_int_equal(job()->cur.epoch, epoch);
    trains_on(1000);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, ss_setup, ss_teardown)
    const struct CMUnitTest tests[] = {
        T(empty_store),           T(older_store),         T(store_without_the_job),
        T(restored_store),        T(restored_after_more), T(restored_after_the_end),
        T(restored_after_a_move), T(restored_twice),      T(unreadable_job)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
