#include "daemon/ctl/ctl.h"

#include <stdarg.h>
#include <string.h>

#include "daemon/planner/figure.h"
#include "proto/base/str.h"

static enum hsp_exit exit_of(enum hsp_status st)
{
    switch (st) {
    case HSP_OK: return HSP_EXIT_OK;
    case HSP_EPARSE: return HSP_EXIT_CONFIG;
    case HSP_EPERM:
    case HSP_EAUTH: return HSP_EXIT_DENIED;
    case HSP_ENOENT: return HSP_EXIT_NO_OBJECT;
    case HSP_ECLOSED: return HSP_EXIT_NO_DAEMON;
    case HSP_EINFEASIBLE:
    case HSP_ENODEV:
    case HSP_ESTATE: return HSP_EXIT_IMPOSSIBLE;
    case HSP_ETIMEDOUT: return HSP_EXIT_TIMED_OUT;
    case HSP_ECANCELED: return HSP_EXIT_INTERRUPTED;
    default: return HSP_EXIT_FAILED;
    }
}

int hsp_ctl_fail(struct hsp_ctl *ctl, const struct hsp_err *err)
{
    char text[2 * sizeof ctl->said]; /* hspmdd's words may be those of agents */
    size_t n = strlen(err->msg);
    /* Cut between two characters, of up to 4 bytes; the whole has the remedy at its end. */
    bool cut = n + 4 >= sizeof err->msg && strncmp(ctl->said, err->msg, n) == 0;
    const char *why = cut ? ctl->said : err->msg;
    (void)hsp_str_show(text, sizeof text, why, strlen(why), false);
    (void)fprintf(ctl->msg, "hspmdctl: %s\n", text);
    ctl->told = true;
    return (int)exit_of(err->code);
}

void hsp_ctl_defer_error(struct hsp_ctl *ctl, const struct hsp_err *err)
{
    if (ctl->deferred.code == HSP_OK) {
        ctl->deferred = *err;
    }
}

/* @text, or a text to show without memory for it. */
static const char *or_deferred_error(struct hsp_ctl *ctl, const char *text)
{
    struct hsp_err err;
    if (text == NULL) {
        (void)hsp_err_nomem(&err, "the whole answer");
        hsp_ctl_defer_error(ctl, &err);
    }
    return text != NULL ? text : "";
}

const char *hsp_ctl_text(struct hsp_ctl *ctl, const char *fmt, ...)
{
    char text[512]; /* a cell */
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* cut on purpose */
    va_end(ap);
    return or_deferred_error(ctl, hsp_arena_strdup(ctl->arena, text));
}

const char *hsp_ctl_time(struct hsp_ctl *ctl, double us)
{
    return or_deferred_error(ctl, hsp_arena_strdup(ctl->arena, hsp_time_figure(us).text));
}

const char *hsp_ctl_bytes(struct hsp_ctl *ctl, double bytes)
{
    return or_deferred_error(ctl, hsp_arena_strdup(ctl->arena, hsp_bytes_figure(bytes).text));
}

int hsp_ctl_usage(struct hsp_ctl *ctl, const char *fmt, ...)
{
    va_list ap;
    (void)fputs("hspmdctl: ", ctl->msg);
    va_start(ap, fmt);
    (void)vfprintf(ctl->msg, fmt, ap);
    va_end(ap);
    (void)fprintf(ctl->msg, "; see hspmdctl help%s%s\n", ctl->command != NULL ? " " : "",
                  ctl->command != NULL ? ctl->command->name : "");
    return HSP_EXIT_USAGE;
}
