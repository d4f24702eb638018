#include "daemon/app/state/tasks.h"

#include "daemon/app/state/app_state.h"

static void on_run(uv_work_t *req)
{
    struct hsp_app_task *w = req->data;
    w->run(w);
}

static void on_done(uv_work_t *req, int status)
{
    struct hsp_app_task *w = req->data;
    struct hsp_app *a = w->app;
    (void)status; /* works are never cancelled */
    w->done(w);
    hsp_app_settle(a);
    a->n_works--;
    hsp_app_try_end(a);
}

bool hsp_app_queue(struct hsp_app *a, struct hsp_app_task *w)
{
    w->app = a;
    w->req.data = w;
    if (uv_queue_work(a->loop, &w->req, on_run, on_done) != 0) {
        return false;
    }
    a->n_works++;
    return true;
}
