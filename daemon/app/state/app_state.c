#include "daemon/app/state/app_state.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "proto/base/str.h"
#include "proto/wire/identity.h"

hsp_msec hsp_app_now(void)
{
    return uv_hrtime() / 1000000u;
}

int64_t hsp_app_unix_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t); /* cannot fail with this clock */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool hsp_app_random(struct hsp_app *a, void *ret, size_t n)
{
    uint8_t *to = ret;
    size_t done = 0;
    while (done < n) {
        ssize_t k = getrandom(to + done, n - done, 0);
        if (k < 0 && errno != EINTR) {
            hsp_log(a->log, HSP_LOG_ERROR, "app", "no random numbers: %s", strerror(errno));
            return false;
        }
        done += k > 0 ? (size_t)k : 0;
    }
    return true;
}

uint64_t hsp_app_events_begin(const struct hsp_app *a)
{
    return (uint64_t)hsp_generation_number(a->cluster->generation) << 40;
}

hsp_msec hsp_app_core_now(const struct hsp_app *a)
{
    return a->store_stalled ? a->stalled_at : hsp_app_now() - a->stood;
}

hsp_msec hsp_app_core_due(const struct hsp_app *a, hsp_msec at)
{
    return a->store_stalled || at > UINT64_MAX - a->stood ? UINT64_MAX : at + a->stood;
}

void hsp_app_damaged(struct hsp_app *a, const char *why)
{
    if (a->damage[0] == '\0') {
        hsp_str_printf(a->damage, sizeof a->damage,
                       "%s/state.db: %s; training continues, events and metrics may be lost; "
                       "restart hspmdd, which rebuilds the file",
                       a->cfg->state_dir, why);
        hsp_log(a->log, HSP_LOG_ERROR, "store", "%s", a->damage);
    }
}

void hsp_app_fail(struct hsp_app *a, const char *what, const struct hsp_err *err)
{
    if (!a->failed) {
        hsp_log(a->log, HSP_LOG_ERROR, "app",
                "%s: %s; ending, the next start reloads the stored state", what, err->msg);
    }
    a->failed = true;
    uv_stop(a->loop);
}

void hsp_app_retry_later(struct hsp_app *a)
{
    if (!a->closing && !uv_is_active((uv_handle_t *)&a->retry)) {
        (void)uv_timer_again(&a->retry); /* has a callback */
    }
}

void hsp_app_settle(struct hsp_app *a)
{
    a->settle(a);
}

void hsp_app_try_end(struct hsp_app *a)
{
    if (a->closing && a->net_closed && a->http_closed && a->n_works == 0 && a->n_handles == 0 &&
        a->on_closed != NULL) {
        void (*on_closed)(struct hsp_app *) = a->on_closed;
        a->on_closed = NULL;
        on_closed(a);
    }
}
