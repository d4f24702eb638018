/* Flips one bit, drawn from the seed, in each run of a job, in all places where state is: in a
 * segment or a copy that is not in use, in device memory or a segment in use, in a file of a
 * checkpoint, in a message. The job must end with the losses and the model of one undisturbed
 * device, or stop if no undamaged state was left. The argument is the number of runs, called draws;
 * tests/claims/damage-found makes more of them. Each draw prints a line of JSON. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/layout/box.h"
#include "tests/unit/worker/executor/damage_drive.h"
#include "tests/unit/worker/executor/damage_way.h"
#include "worker/state/segment.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_name.h"

#define DRAWS    10 /* number of draws without an argument */
#define MOST     1000
#define HOPELESS 90 /* one in so many draws of each kind leaves no undamaged state */
#define DEVICES  3
#define SLOW     0.2 /* speed of training devices while an epoch is prepared */

enum kind { HOME, COPY, LIVE, CHECKPOINT, WAY, N_KINDS };
static const char *const kinds[N_KINDS] = {"segment at rest", "copy", "live segment",
                                           "checkpoint part", "row on its way"};
static const char *const layouts[N_LAYOUTS] = {
    [DP] = "zero1", [PP] = "pp", [TWO] = "dp2", [THREE] = "dp3", [CUT] = "dp-tp"};

static uint64_t the_draw; /* number of the draw */
static uint64_t drawn;    /* random numbers that the draw has used */

/* Draws a number in [lo, hi]. */
static int64_t draw(int64_t lo, int64_t hi)
{
    return hsp_test_range("draws", the_draw << 20 | drawn++, lo, hi);
}

/* The place of the damage of a draw, and the state that was left. */
struct told {
    char place[64];
    bool owner;    /* an undamaged replica was left */
    bool hopeless; /* there was no state from which to go on */
};

static void tell(const struct dw_scenario *s, enum kind kind, enum dw_layout layout,
                 const struct told *t, const struct dd_end *end)
{
    (void)printf("{\"draw\": %" PRIu64 ", \"kind\": \"%s\", \"layout\": \"%s\", \"place\": \"%s\", "
                 "\"owner\": %s, \"finished\": %s, "
                 "\"from_state\": %u, \"from_checkpoint\": %u, \"told\": %u}\n",
                 the_draw, kinds[kind], layouts[layout], t->place, t->owner ? "true" : "false",
                 end->finished ? "true" : "false", end->n_from_state, end->n_from_ckpt, s->n_told);
    (void)fflush(stdout);
}

/* Plays scenario @s to its end. Asserts that the job has ended undisturbed, or that no state was
 * left from which to go on. */
static void judge(struct dw_scenario *s, enum kind kind, enum dw_layout layout,
                  const struct told *t)
{
    struct dd_end end = dd_finish(s);
    tell(s, kind, layout, t, &end);
    assert_int_equal(end.finished, !t->hopeless);
    if (end.finished) {
        dd_assert_undisturbed(s);
    }
    dw_free_plans(s);
}

/* ---- files ---- */

static void flip_in_file(const char *path, int64_t byte)
{
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)byte, SEEK_SET), 0);
    int was = fgetc(f);
    assert_int_not_equal(was, EOF);
    assert_int_equal(fseek(f, (long)byte, SEEK_SET), 0);
    assert_int_not_equal(fputc(was ^ 1 << draw(0, 7), f), EOF);
    assert_int_equal(fclose(f), 0);
}

static int64_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

/* Flips a bit of segment @s: mostly in an element, else in its head, seal, table or hashes. @place:
 * gets the name of the place. */
static void flip_at_rest(const char *dir, struct hsp_state_segment *s, char place[64])
{
    const struct hsp_segment_key *key = hsp_segment_key_of(s);
    char path[HSP_SEGMENT_PATH], tmp[HSP_SEGMENT_PATH];
    struct hsp_err err = {0};
    int64_t n = hsp_segment_n(s), rows = n * (int64_t)sizeof(struct hsp_segment_row);
    assert_ok(hsp_segment_paths(dir, key, path, tmp, &err), &err);
    int64_t area = size_of(path) - hsp_segment_area_bytes(s), where = draw(0, 15);
    const struct hsp_segment_row *r;
    do {
        r = hsp_segment_row_at(s, (uint32_t)draw(0, n - 1));
    } while (hsp_box_count(&r->box) == 0);
    const char *name = where == 0   ? "head"
                       : where == 1 ? "seal"
                       : where == 2 ? "table"
                       : where == 3 ? "hashes"
                                    : "contents";
    int64_t bytes = hsp_box_count(&r->box) * (int64_t)hsp_dtype_size(r->dtype);
    int64_t at =
        where == 0
            ? draw(0, (int64_t)sizeof *key + 87) /* segment.c has words before and after the key */
        : where == 1 ? 1024 + draw(0, 31)
        : where == 2 ? 4096 + draw(0, rows - 1)
        : where == 3 ? 4096 + rows + draw(0, 8 * n - 1)
                     : area + r->offset + draw(0, bytes - 1);
    (void)snprintf(place, 64, "%s", name);
    flip_in_file(path, at);
}

static void remove_piece(const struct dw_scenario *s, const struct hsp_state_piece *p)
{
    const char *dir = s->w->ex[HSP_DEVICE_NODE(p->device)].state_dir;
    struct hsp_err err = {0};
    struct hsp_state_segment *seg = dw_open_piece(dir, p->plan, p->owner, p->version);
    assert_non_null(seg);
    assert_ok(hsp_segment_remove(dir, hsp_segment_key_of(seg), &err), &err);
    (void)hsp_segment_close(seg);
}

/* ---- at rest ---- */

static bool same(const struct hsp_state_piece *a, const struct hsp_state_piece *b)
{
    return a->device == b->device && a->version == b->version && a->owner == b->owner;
}

/* Deletes all segments that have the same part as @p, except @p: those of its version, or of all
 * versions (@all). */
static void make_lonely(struct dw_scenario *s, const struct hsp_state_piece *p, bool all)
{
    struct hsp_state_piece held[64];
    uint32_t n = dw_scan(s, (enum dw_layout)p->plan, held);
    for (uint32_t i = 0; i < n; i++) {
        if (held[i].owner == p->owner && !same(&held[i], p) &&
            (all || held[i].version == p->version)) {
            remove_piece(s, &held[i]);
        }
    }
}

/* Finds the newest version that is complete in the segments without @p. Returns false if there is
 * none. */
static bool intact(struct dw_scenario *s, const struct hsp_state_piece *p, uint64_t *ret_version)
{
    struct hsp_state_piece held[64];
    enum dw_layout l = (enum dw_layout)p->plan;
    uint32_t n = dw_scan(s, l, held), m = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!same(&held[i], p)) {
            held[m++] = held[i];
        }
    }
    return hsp_recover_version(&s->plan[l]->info, held, m, ret_version);
}

static struct hsp_state_piece choose_piece(struct dw_scenario *s, enum dw_layout layout, bool copy)
{
    struct hsp_state_piece held[64];
    uint32_t owner = (uint32_t)draw(0, dw_ranks_of(s) - 1), k;
    if (copy) {
        uint64_t copied = dw_newest_copied(s, layout, owner);
        uint32_t holder = (uint32_t)dw_buddy_of(s, owner);
        return (struct hsp_state_piece){HSP_DEVICE(holder, 0u), layout, copied, holder, owner};
    }
    uint64_t version = dw_newest(s, layout);
    uint32_t n = dw_scan(s, layout, held);
    do { /* some homes may not have it */
        k = (uint32_t)draw(0, n - 1);
    } while (held[k].version != version || held[k].owner != held[k].rank);
    return held[k];
}

static void at_rest(struct xw_world *w, bool copy)
{
    struct dw_scenario s = dw_play_scenario(w);
    struct told t = {.owner = draw(0, 2) > 0, .hopeless = the_draw % HOPELESS < N_KINDS};
    t.owner = t.owner && !t.hopeless;
    bool two = copy || !t.owner; /* each part has one home and one copy */
    enum dw_layout layout = (enum dw_layout)(two ? draw(DP, PP) : draw(DP, CUT));
    bool all = t.hopeless || (!t.owner && draw(0, 1) == 0);
    bool early = t.hopeless || (t.owner && draw(0, 1) == 0);
    dd_begin(&s, layout);
    dd_until(&s, (uint64_t)(early ? draw(3, 20) : draw(26, 55)), early ? 0 : 1);
    dw_kill_all(&s);
    struct hsp_state_piece p = choose_piece(&s, layout, copy);
    const char *dir = w->ex[HSP_DEVICE_NODE(p.device)].state_dir;
    struct hsp_state_segment *seg = dw_open_piece(dir, p.plan, p.owner, p.version);
    assert_non_null(seg);
    if (!t.owner) {
        make_lonely(&s, &p, all);
    }
    uint64_t version = 0;
    bool whole = intact(&s, &p, &version);
    flip_at_rest(dir, seg, t.place);
    bool seen = strcmp(t.place, "contents") == 0 || strcmp(t.place, "hashes") == 0;
    (void)hsp_segment_close(seg);
    t.hopeless = !whole && s.n_ckpt == 0;
    s.broken = s.fresh_processes = true;
    uint64_t from;
    enum dw_layout any;
    bool held = dd_choose(&s, &any, &from);
    uint32_t before = s.n_told;
    judge(&s, copy ? COPY : HOME, layout, &t);
    if (seen && held && from == p.version) { /* the damaged piece was read */
        assert_true(s.n_told > before);
    }
    if (whole) {
        assert_true(s.w->finished);
    }
}

/* ---- in use ---- */

static void live(struct xw_world *w)
{
    static const enum dw_when alone[] = {AT_COPIES, AT_VOTE, AT_CHECKPOINT, AT_END, AT_SWITCH};
    static const enum dw_when twins[] = {AT_COPIES, AT_VOTE, AT_SEAL, AT_END, AT_LEAVING};
    static const char *const names[] = {
        [AT_COPIES] = "while copied",    [AT_VOTE] = "before a vote",
        [AT_SEAL] = "just written",      [AT_LEAVING] = "before a switch",
        [AT_SWITCH] = "during a switch", [AT_CHECKPOINT] = "before a checkpoint",
        [AT_END] = "before the model"};
    struct told t = {.owner = draw(0, 1) == 0};
    enum dw_when when = t.owner ? twins[draw(0, 4)] : alone[draw(0, 4)];
    enum dw_layout layout = (enum dw_layout)(t.owner ? draw(TWO, CUT) : draw(DP, PP));
    layout = when == AT_LEAVING ? TWO : when == AT_SWITCH ? DP : layout;
    bool leaves = when == AT_LEAVING || when == AT_SWITCH;
    w->speed = leaves ? SLOW : 0;
    w->device = (when == AT_COPIES || when == AT_VOTE) && draw(0, 1) == 0;
    struct dw_scenario s = dw_play_scenario(w);
    unsigned dev = (unsigned)draw(0, s.plan[layout]->plan->n_ranks - 1);
    uint64_t at = when == AT_END ? XW_STEPS : when == AT_CHECKPOINT ? 25 : (uint64_t)draw(2, 56);
    uint64_t harmed = 0;
    (void)snprintf(t.place, sizeof t.place, "%s%s", names[when],
                   w->device ? ", in GPU memory" : "");
    bool alone_has_it = layout == PP && dev == 0; /* only this device has the first stage */
    if (!leaves) {
        dw_plan_harm_in(when, dev, at,
                        when == AT_END ? ALL_WEIGHTS
                        : when == AT_CHECKPOINT && !alone_has_it
                            ? OWNED /* a replica may write other rows */
                            : ANY);
    }
    dd_begin(&s, layout);
    if (leaves) {
        dd_until(&s, (uint64_t)draw(3, 30), 0);
        dd_switch(&s, PP);
        dw_plan_harm_in(when, dev, 0,
                        when == AT_SWITCH ? OWNED : ANY); /* a replica may serve other rows */
        dw_arm(&s);
    }
    dd_until(&s, UINT64_MAX, 0); /* until the first break */
    uint64_t named = s.broke_at;
    bool broke = s.broken;
    judge(&s, LIVE, layout, &t);
    assert_true(dw_harmed(&harmed));
    assert_true(broke || when == AT_END); /* a replica may write the last version */
    assert_true(s.n_told > 0 ||
                when == AT_END); /* by the receiver of a switch, then in the recovery */
    assert_true(!broke || named <= harmed + 2); /* the second vote after the next sealed version */
}

/* ---- checkpoints ---- */

/* Writes the names of the files of folder @dir to @name. Returns their number. */
static uint32_t list_files(const char *dir, char name[8][256])
{
    DIR *d = opendir(dir);
    struct dirent *e;
    uint32_t n = 0;
    while (d != NULL && (e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.' && n < 8) {
            (void)snprintf(name[n++], 256, "%s", e->d_name);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return n;
}

static void step_folder(const struct dw_scenario *s, int dev, uint64_t step, char ret[4400])
{
    char folder[4300];
    dd_folder(s, dev, folder);
    (void)snprintf(ret, 4400, "%s/t/step-%010" PRIu64, folder, step);
}

/* Deletes all segments of all devices. */
static void lose_segments(struct dw_scenario *s)
{
    for (int i = 0; i < DEVICES; i++) {
        struct hsp_err err = {0};
        xw_end(&s->w->ex[i]);
        assert_ok(hsp_segname_discard(s->w->ex[i].state_dir, 1, 0, 0, &err), &err);
    }
    for (int i = 0; i < DEVICES; i++) {
        xw_start_executor(s->w, i);
    }
}

static void checkpoint(struct xw_world *w)
{
    struct dw_scenario s = dw_play_scenario(w);
    struct told t = {.hopeless = the_draw % HOPELESS < N_KINDS};
    bool older = !t.hopeless && draw(0, 1) == 0;
    t.owner = !t.hopeless && (!older || draw(0, 1) == 0);
    enum dw_layout layout = (enum dw_layout)draw(DP, CUT);
    char dir[4400], name[8][256], path[4700];
    bool damaged = false;
    dd_begin(&s, layout);
    dd_until(&s, older ? 52 : (uint64_t)draw(27, 45), older ? 2 : 1);
    lose_segments(&s);
    assert_int_equal(s.n_ckpt, older ? 2 : 1);
    for (int i = 0; i < DEVICES; i++) { /* two devices have written it */
        step_folder(&s, i, s.ckpt[s.n_ckpt - 1].m.step, dir);
        uint32_t n = list_files(dir, name);
        if (n == 0 || (damaged && t.owner)) {
            continue;
        }
        uint32_t k = (uint32_t)draw(0, n - 1);
        while (t.hopeless && strncmp(name[k], "shard-", 6) != 0) {
            k = (k + 1) % n;
        }
        (void)snprintf(path, sizeof path, "%s/%s", dir, name[k]);
        if (damaged) { /* the other owner has no copy left */
            assert_int_equal(unlink(path), 0);
            continue;
        }
        int64_t size = size_of(path); /* an element's bit in the only file */
        flip_in_file(path, t.hopeless ? size - draw(1, 64) : draw(0, size - 1));
        (void)snprintf(t.place, sizeof t.place, "%.60s", name[k]);
        damaged = true;
    }
    assert_true(damaged);
    s.broken = s.fresh_processes = true;
    t.hopeless = !t.owner && !older;
    judge(&s, CHECKPOINT, layout, &t);
}

/* ---- on its way ---- */

static void go_way(struct dw_scenario *s, enum dw_way way, enum dw_layout layout, unsigned after)
{
    unsigned dev = (unsigned)draw(0, DEVICES - 1);
    dev = way == BY_FINAL || layout == DP ? dev % 2 : dev;
    dev = way == BY_FINAL ? 0 : dev;
    uint64_t bit = hsp_test_rand("bits", the_draw);
    if (way == BY_COPIES || way == BY_CHECKPOINT || way == BY_FINAL) {
        dw_way_plan(way, way == BY_CHECKPOINT ? 0 : dev, after, bit);
    }
    dd_begin(s, layout);
    if (way == BY_MOVE && layout == DP) {
        dd_until(s, (uint64_t)draw(3, 50), 0);
        dd_switch(s, PP);
        dw_way_plan(way, (unsigned)draw(0, DEVICES - 1), after, bit);
        dw_arm(s);
    } else if (way == BY_MOVE) {
        dd_until(s, (uint64_t)draw(3, 50), 0);
        dw_kill_all(s);
        uint64_t version = dw_newest_copied(s, layout, dev);
        const struct hsp_state_piece home = {HSP_DEVICE(dev, 0u), layout, version, dev, dev};
        remove_piece(s, &home); /* the device with the copy has to send it */
        dw_way_plan(way, dev, after, bit);
        s->broken = s->fresh_processes = true;
    } else if (way == BY_RESTORE) {
        dd_until(s, (uint64_t)draw(27, 45), 1);
        lose_segments(s);
        for (int i = 0; i < DEVICES; i++) { /* devices without the file request it */
            dw_way_plan(way, (unsigned)i, after, bit);
            char dir[4400], name[8][256];
            step_folder(s, i, 25, dir);
            if (list_files(dir, name) == 0 && i < dw_ranks_of(s)) {
                break;
            }
        }
        s->broken = s->fresh_processes = true;
    }
}

static void on_way(struct xw_world *w)
{
    static const char *const names[] = {[BY_COPIES] = "to a copy",
                                        [BY_MOVE] = "to another layout, or back home",
                                        [BY_CHECKPOINT] = "to a checkpoint",
                                        [BY_FINAL] = "to the final model",
                                        [BY_RESTORE] = "from a checkpoint"};
    struct told t = {.owner = true};
    enum dw_way way = (enum dw_way)draw(BY_COPIES, BY_RESTORE);
    enum dw_layout layout =
        way == BY_FINAL || way == BY_RESTORE ? PP : (enum dw_layout)draw(DP, PP);
    w->speed = way == BY_MOVE && layout == DP ? SLOW : 0;
    struct dw_scenario s = dw_play_scenario(w);
    unsigned after = (unsigned)draw(0, way == BY_COPIES ? 300 : 4);
    (void)snprintf(t.place, sizeof t.place, "%s", names[way]);
    go_way(&s, way, layout, after);
    judge(&s, WAY, layout, &t);
    assert_true(dw_way_done());
    assert_true(way != BY_CHECKPOINT || s.w->n_unwritten > 0);
}

/* ---- all ---- */

static void test_a_bit(void **state)
{
    switch ((enum kind)(the_draw % N_KINDS)) {
    case HOME: at_rest(*state, false); break;
    case COPY: at_rest(*state, true); break;
    case LIVE: live(*state); break;
    case CHECKPOINT: checkpoint(*state); break;
    case WAY: on_way(*state); break;
    case N_KINDS: break;
    }
}

static int setup(void **state)
{
    the_draw = (uint64_t)(uintptr_t)*state;
    drawn = 0;
    int rc = dw_setup(state);
    dw_salt(the_draw + 1);
    return rc;
}

HSP_TEST_FILE(damage_draws_test)
{
    static struct CMUnitTest tests[MOST];
    static char names[MOST][64];
    uint32_t n =
        hsp_test_argc > 1 ? (uint32_t)strtoul(hsp_test_argv[1], NULL, 10) : hsp_test_rounds(DRAWS);
    uint32_t first = hsp_test_argc > 2 ? (uint32_t)strtoul(hsp_test_argv[2], NULL, 10) : 0;
    for (uint32_t i = 0; i < n && i < MOST; i++) {
        (void)snprintf(names[i], sizeof names[i], "draw %u: %s", first + i,
                       kinds[(first + i) % N_KINDS]);
        tests[i] = (struct CMUnitTest){names[i], test_a_bit, setup, dw_teardown,
                                       (void *)(uintptr_t)(first + i)};
    }
    return _cmocka_run_group_tests("damage_draws", tests, n < MOST ? n : MOST, NULL, NULL);
}
