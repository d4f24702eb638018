#include "tests/unit/worker/executor/damage_drive.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include "worker/state/safetensors_read.h"

#define DEVICES    3
#define MOST_TURNS 12 /* most breaks, and most attempts after a break */
#define NEAR       1e-9

/* The final model of one undisturbed device, used by all scenarios. */
static double *model;
static size_t n_model;

void dd_folder(const struct dw_scenario *s, int dev, char ret[4300])
{
    (void)snprintf(ret, 4300, "%s/disk-%d", s->w->dir, dev);
}

/* Reads the numbers of the final model in @folder, tensor after tensor. The caller frees them. */
static double *read_model(const char *folder, size_t *ret_n)
{
    char path[4400];
    struct hsp_st_reader *r;
    struct hsp_err err = {0};
    (void)snprintf(path, sizeof path, "%s/t/final/model.safetensors", folder);
    assert_ok(hsp_st_open(path, &r, &err), &err);
    size_t n = 0, at = 0, n_entries;
    const struct hsp_st_entry *e = hsp_st_entries(r, &n_entries);
    for (size_t i = 0; i < n_entries; i++) {
        n += (e[i].end - e[i].begin) / sizeof(double);
    }
    double *x = calloc(n, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n_entries; i++) {
        size_t bytes = e[i].end - e[i].begin;
        assert_ok(hsp_st_read(r, &e[i], 0, x + at, bytes, &err), &err);
        at += bytes / sizeof(double);
    }
    hsp_st_close(r);
    *ret_n = n;
    return x;
}

void dd_assert_undisturbed(struct dw_scenario *s)
{
    char folder[4300];
    size_t n = 0;
    dd_folder(s, 0, folder);
    dw_assert_undisturbed(s);
    double *x = read_model(folder, &n);
    assert_int_equal(n, n_model);
    for (size_t i = 0; i < n; i++) {
        if (!(fabs(x[i] - model[i]) <= NEAR * fmax(1, fabs(model[i])))) {
            fail_msg("number %zu of the final model is %.17g, undisturbed %.17g", i, x[i],
                     model[i]);
        }
    }
    free(x);
}

/* ---- an epoch ---- */

static int n_peers(const struct dw_scenario *s)
{
    return s->switching ? DEVICES : dw_ranks_of(s);
}

/* Receives messages of all devices for a moment. */
static void listen(struct dw_scenario *s)
{
    for (int i = 0; i < n_peers(s); i++) {
        (void)dw_hear(s, i, i == 0 ? 1 : 0);
    }
}

/* Sends PREPARE of epoch @d to all of its devices, each with its own folder for checkpoints.
 * Returns true if all devices are READY. */
static bool prepare(struct dw_scenario *s, struct xw_epoch *d)
{
    char folder[DEVICES][4300];
    const char *paths[DEVICES];
    for (int i = 0; i < DEVICES; i++) {
        dd_folder(s, i, folder[i]);
        (void)mkdir(folder[i], 0700);
        paths[i] = folder[i];
    }
    d->paths = paths;
    s->epoch = d->epoch;
    xw_send_prepare(s->w, d);
    return dw_all_ready(s, d->n_peers);
}

static void start(struct dw_scenario *s, const struct xw_epoch *d)
{
    s->broken = false;
    for (int i = 0; i < d->n_peers; i++) {
        s->broke[i][0] = '\0';
        xw_send_start(s->w, i, d->epoch, d->step);
    }
}

void dd_begin(struct dw_scenario *s, enum dw_layout layout)
{
    if (model == NULL) { /* written by the run in dw_play_scenario */
        model = read_model(s->w->dir, &n_model);
    }
    s->layout = layout;
    struct xw_epoch d = {.epoch = 11,
                         .plan_no = layout,
                         .mode = HSP_MODE_FRESH,
                         .plan = s->plan[layout],
                         .n_peers = dw_ranks_of(s)};
    assert_true(prepare(s, &d));
    start(s, &d);
}

void dd_until(struct dw_scenario *s, uint64_t step, uint32_t n_ckpt)
{
    int64_t last = hsp_clock_ns();
    uint64_t was = s->w->stable;
    while (!s->broken && !s->w->finished && (s->w->stable < step || s->n_ckpt < n_ckpt)) {
        listen(s);
        last = s->w->stable != was ? hsp_clock_ns() : last;
        was = s->w->stable;
        if (hsp_clock_ns() - last > (int64_t)XW_WAIT_MS * 1000000) {
            fail_msg("no step behind %" PRIu64 " in time", was);
        }
    }
}

void dd_switch(struct dw_scenario *s, enum dw_layout to)
{
    struct xw_epoch d = xw_go_on(12, HSP_MODE_SWITCH, (struct xw_layout){to, s->plan[to]},
                                 (struct xw_layout){s->layout, s->plan[s->layout]}, 2);
    d.n_peers = DEVICES;
    assert_true(prepare(s, &d));
    s->older = s->layout;
    s->layout = to;
    s->switching = true;
}

/* ---- breaks and recoveries ---- */

static void seal(struct dw_scenario *s)
{
    int n = n_peers(s);
    for (int i = 0; i < n; i++) {
        xw_send_ref(s->w, i, HSP_MSG_SEAL, s->epoch);
    }
    for (int i = 0; i < n; i++) {
        dw_await_msg(s, i, HSP_MSG_SEALED);
    }
}

bool dd_choose(struct dw_scenario *s, enum dw_layout *ret_layout, uint64_t *ret_version)
{
    enum dw_layout try[] = {s->layout, s->older};
    struct hsp_state_piece held[64];
    for (int i = 0; i < 2; i++) {
        if (try[i] != NO_LAYOUT && hsp_recover_version(&s->plan[try[i]]->info, held,
                                                       dw_scan(s, try[i], held), ret_version)) {
            *ret_layout = try[i];
            return true;
        }
    }
    return false;
}

/* Recovers the job from version @version in the segments of @layout. Returns true if all devices
 * are READY. */
static bool recover(struct dw_scenario *s, enum dw_layout layout, uint64_t version)
{
    struct hsp_state_piece held[64];
    uint32_t n_held = dw_scan(s, layout, held);
    struct xw_epoch d = {.epoch = s->epoch + 2,
                         .plan_no = layout,
                         .from_no = layout,
                         .mode = HSP_MODE_RECOVER,
                         .step = version,
                         .void_from = dw_void_from(s, layout) + 1,
                         .plan = s->plan[layout],
                         .from = s->plan[layout],
                         .n_peers = (int)s->plan[layout]->plan->n_ranks};
    for (uint32_t i = 0; i < n_held; i++) {
        if (held[i].version == version && d.n_live < 8) {
            d.live[d.n_live++] = (struct hsp_prepare_source){HSP_DEVICE_NODE(held[i].device),
                                                             held[i].rank, held[i].owner};
        }
    }
    s->layout = layout;
    s->older = NO_LAYOUT;
    s->switching = false;
    bool ready = prepare(s, &d);
    if (ready) {
        dw_assert_void(s);
        start(s, &d);
    }
    return ready;
}

/* Restores the job from its newest checkpoint. */
static void restore(struct dw_scenario *s)
{
    const struct dw_ckpt *c = &s->ckpt[s->n_ckpt - 1];
    struct xw_epoch d = {.epoch = s->epoch + 2,
                         .plan_no = s->layout,
                         .mode = HSP_MODE_RESTORE,
                         .step = c->m.step,
                         .plan = s->plan[s->layout],
                         .n_peers = dw_ranks_of(s),
                         .ckpt = &c->m,
                         .ckpt_epoch = c->epoch};
    s->older = NO_LAYOUT;
    s->switching = false;
    assert_true(prepare(s, &d));
    start(s, &d);
}

/* Goes on from segments if possible, else from a checkpoint. Returns false if there is no state
 * from which to go on. */
static bool go_on(struct dw_scenario *s, struct dd_end *end)
{
    enum dw_layout layout;
    for (int turn = 0; turn < MOST_TURNS && dd_choose(s, &layout, &end->from); turn++) {
        if (recover(s, layout, end->from)) {
            end->n_from_state++;
            return true;
        }
    }
    if (s->refused[0] != '\0') { /* the newest checkpoint was tried */
        s->refused[0] = '\0';
        s->n_ckpt--;
    }
    if (s->n_ckpt == 0) {
        return false;
    }
    end->from = s->ckpt[s->n_ckpt - 1].m.step;
    end->n_from_ckpt++;
    restore(s);
    return true;
}

struct dd_end dd_finish(struct dw_scenario *s)
{
    struct dd_end end = {0};
    for (int turn = 0; turn < MOST_TURNS; turn++) {
        if (!s->broken) {
            dd_until(s, UINT64_MAX, 0);
        }
        if (s->w->finished) {
            end.finished = true;
            return end;
        }
        if (!s->fresh_processes) {
            seal(s);
        }
        s->fresh_processes = false;
        if (!go_on(s, &end)) {
            return end;
        }
    }
    fail_msg("it breaks again and again");
    return end;
}
