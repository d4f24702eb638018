#include "tests/unit/proto/net/net_shell.h"

#include <stdio.h>

#include "proto/net/net_listen.h"

static void on_open(void *ctx, uint32_t conn, const struct hsp_net_peer *peer)
{
    struct shell *s = ctx;
    s->n_open++;
    s->conn = s->opened = conn;
    s->role = peer->role;
    s->uid = peer->uid;
    s->last_listener = peer->listener;
}

static void on_frame(void *ctx, uint32_t conn, struct hsp_frame *f)
{
    struct shell *s = ctx;
    struct hsp_err err;
    s->n_frames++;
    s->conn = conn;
    s->type = f->head.type;
    s->last_body = f->head.body_len;
    s->last_blob = f->head.blob_len;
    (void)snprintf(s->text, sizeof s->text, "%s", (char *)f->body);
    if (s->echo) {
        assert_ok(hsp_net_send(s->net, conn, &f->head, f->body, f->head.body_len, f->blob,
                               f->head.blob_len, &err),
                  &err);
    }
}

static void on_close(void *ctx, uint32_t conn, const struct hsp_err *why)
{
    struct shell *s = ctx;
    s->n_close++;
    s->conn = conn;
    s->why = *why;
}

static void on_refuse(void *ctx, const struct hsp_net_peer *peer, const struct hsp_err *why)
{
    struct shell *s = ctx;
    assert_true(peer->name[0] != 0);
    s->n_refuse++;
    s->claimed = peer->role;
    s->why = *why;
}

static void on_net_closed(void *ctx)
{
    ((struct shell *)ctx)->done = true;
}

static void on_guard(uv_timer_t *t)
{
    (void)t;
    fail_msg("not over after 120 s");
}

static const struct hsp_net_calls calls = {
    .on_open = on_open, .on_frame = on_frame, .on_close = on_close, .on_refuse = on_refuse};

void shell_open(struct shell *s, const struct hsp_net_config *cfg)
{
    struct hsp_err err;
    *s = (struct shell){.echo = true};
    assert_int_equal(uv_loop_init(&s->loop), 0);
    uv_timer_init(&s->loop, &s->guard);
    uv_timer_start(&s->guard, on_guard, 120000, 0);
    assert_ok(hsp_net_new(&s->loop, cfg, &calls, s, &s->net, &err), &err);
}

void shell_listen(struct shell *s, const char *address)
{
    struct hsp_err err;
    uint32_t l = 99;
    assert_ok(hsp_net_listen(s->net, address, &l, &err), &err);
    (void)snprintf(s->port, sizeof s->port, "%s", hsp_net_listener_name(s->net, l));
}

void run_ms(struct shell *s, uint64_t ms)
{
    uint64_t until = uv_hrtime() + ms * 1000000;
    while (uv_hrtime() < until) {
        uv_run(&s->loop, UV_RUN_ONCE); /* the net's timer ticks */
    }
}

void shell_close(struct shell *s)
{
    hsp_net_close(s->net, on_net_closed);
    RUN_UNTIL(s, s->done);
    uv_close((uv_handle_t *)&s->guard, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->loop), 0);
}

struct hsp_net_config config(void)
{
    struct hsp_net_config c;
    hsp_net_defaults(&c);
    c.clear_loopback = true;
    c.flush_ms = 300;
    c.places[HSP_POOL_OWN] = c.places[HSP_POOL_STRANGERS] = c.places[HSP_POOL_VISITORS] = 32;
    return c;
}

struct hsp_net_config config_keys(void)
{
    struct hsp_net_config c = config();
    c.keys.have_worker = c.keys.have_admin = true;
    memset(c.keys.worker, 0x21, sizeof c.keys.worker);
    memset(c.keys.admin, 0x42, sizeof c.keys.admin);
    return c;
}
