#include "tests/unit/worker/executor/device_world.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/layout/box.h"
#include "worker/executor/epoch_memory.h"
#include "worker/executor/epoch_segments.h"

const int64_t dw_full[HSP_MAX_RANK] = {8, 4};

int dw_setup(void **state)
{
    struct dw_world *w = calloc(1, sizeof *w);
    struct hsp_box whole = hsp_box_whole(2, dw_full);
    assert_non_null(w);
    w->dir = hsp_test_tmpdir();
    (void)snprintf(w->log, sizeof w->log, "%s/log", w->dir);
    w->fd = open(w->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(w->fd >= 0);
    w->env = (struct hsp_exec_env){.state_dir = w->dir, .log = hsp_log_new(w->fd, HSP_LOG_WARN)};
    w->p = (struct hsp_m_prepare){.job = 3, .n_ranks = 1, .plan = 2};
    w->tensor = (struct hsp_ptensor){.dtype = HSP_F64, .rank = 2, .state_kind = HSP_STATE_PARAM};
    w->bind = (struct hsp_tensor_bind){.box = whole};
    w->state = (struct hsp_state_bind){.full = whole};
    w->e = (struct hsp_ex_epoch){.env = &w->env, .p = &w->p, .member = true};
    (void)pthread_mutex_init(&w->e.lock, NULL);
    w->e.arena = hsp_arena_new(1 << 20);
    w->e.prog.tpl.tensors = &w->tensor;
    w->e.prog.bind.tensor = &w->bind;
    w->e.prog.bind.state = &w->state;
    w->e.prog.bind.n_state = 1;
    w->e.prog.bind.state_bytes = DW_BYTES;
    *state = w;
    return 0;
}

void dw_give_all_back(struct dw_world *w)
{
    hsp_epoch_leave_segments(&w->e);
    hsp_pool_empty(&w->env);
    hsp_epoch_device_trim(&w->env);
}

int dw_teardown(void **state)
{
    struct dw_world *w = *state;
    dw_give_all_back(w);
    w->env.backend->close(w->env.backend);
    (void)pthread_mutex_destroy(&w->e.lock);
    (void)hsp_arena_free(w->e.arena);
    w->env.log = hsp_log_free(w->env.log);
    (void)close(w->fd);
    hsp_test_rmdir(w->dir);
    free(w->dir);
    free(w);
    return 0;
}

void dw_open_device(struct dw_world *w, struct hsp_mockdev_opts o)
{
    struct hsp_err err = {0};
    o.seed = hsp_test_seed();
    o.max_delay_us = 300;
    assert_ok(hsp_mockdev_open(&o, &w->env.backend, &err), &err);
}

uint32_t dw_pinned(const struct dw_world *w)
{
    return hsp_mockdev_tally(w->env.backend).pinned;
}

void dw_assert_no_breach(struct dw_world *w)
{
    struct hsp_err why = {0};
    if (hsp_mockdev_forgive(w->env.backend, &why)) {
        fail_msg("%s", why.msg);
    }
}

void dw_take(struct dw_world *w)
{
    struct hsp_err err = {0};
    bool of_host;
    assert_ok(hsp_epoch_open_segments(&w->e, &err), &err);
    assert_ok(hsp_epoch_device_take(&w->e, &of_host, &err), &err);
    assert_int_equal(dw_pinned(w), 0); /* before that a damaged segment may be made again */
    hsp_epoch_device_pin(&w->e);
}

void dw_leave(struct dw_world *w)
{
    hsp_epoch_device_close(&w->e);
    dw_give_all_back(w);
    assert_int_equal(dw_pinned(w), 0);
    dw_assert_no_breach(w);
}

void dw_there_and_back(struct dw_world *w, double first)
{
    struct hsp_err err = {0};
    struct hsp_backend *b = w->env.backend;
    double *from = hsp_segment_area(w->e.seg[0]), *to = hsp_segment_area(w->e.seg[1]);
    atomic_store(&w->e.slots.taken, 4 * 2 + 0);
    for (int i = 0; i < DW_BYTES / 8; i++) {
        from[i] = first + i;
    }
    assert_ok(hsp_epoch_device_begin(&w->e, &err), &err);
    assert_ok(hsp_epoch_device_load(&w->e, 4, HSP_EPOCH_ALL, &err), &err);
    struct hsp_written newest = {.version = 5, .queue = HSP_DEVQ_COMPUTE};
    assert_ok(b->mark(b, HSP_DEVQ_COMPUTE, &newest.ticket, &err), &err);
    w->e.dev.newest = newest;
    assert_ok(hsp_epoch_device_save(&w->e, 5, &err), &err);
    assert_memory_equal(from, to, DW_BYTES);
}
