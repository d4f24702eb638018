#include "proto/base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/str.h"

/* vsnprintf that never fails: a format error yields an empty text. */
static void format_into(char *dst, size_t cap, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

static void format_into(char *dst, size_t cap, const char *fmt, va_list ap)
{
    if (vsnprintf(dst, cap, fmt, ap) < 0) {
        dst[0] = '\0';
    }
}

/* A message quotes text from outside, and travels: it stays one line, moves no cursor, and is
     * UTF-8 also where it was cut. */
static void keep_text(struct hsp_err *err, const char *text, size_t n)
{
    for (size_t i = 0; i < n && (i == 0 || text[i - 1] != '\0'); i++) {
        bool control = text[i] == 0x7f || (text[i] > 0 && text[i] < 0x20);
        err->msg[i] = control ? '?' : text[i];
    }
    hsp_utf8_mend(err->msg);
}

enum hsp_status hsp_err_set(struct hsp_err *err, enum hsp_status code, int sys, const char *fmt,
                            ...)
{
    if (err == NULL) {
        return code;
    }
    /* The arguments may point into err->msg itself, so the text is built aside. */
    char text[sizeof(err->msg)];
    va_list ap;
    va_start(ap, fmt);
    format_into(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (sys != 0) {
        char sysbuf[96];
        size_t n = strlen(text);
        (void)snprintf(text + n, sizeof(text) - n, ": %s",
                       strerror_r(sys, sysbuf, sizeof(sysbuf))); /* a cut text is still useful */
    }
    err->code = code;
    err->sys = sys;
    keep_text(err, text, sizeof(text));
    return code;
}

static const char *status_text(enum hsp_status code)
{
    switch (code) {
#define HSP_STATUS_TEXT(name, value, text) \
    case name: return text;
        HSP_STATUS_MAP(HSP_STATUS_TEXT)
#undef HSP_STATUS_TEXT
    }
    return "unknown status";
}

static enum hsp_status set_about(struct hsp_err *err, enum hsp_status code, const char *what,
                                 va_list ap) __attribute__((format(printf, 3, 0)));

static enum hsp_status set_about(struct hsp_err *err, enum hsp_status code, const char *what,
                                 va_list ap)
{
    char text[sizeof(err->msg)];
    format_into(text, sizeof(text), what, ap);
    return hsp_err_set(err, code, 0, "%s for %s", status_text(code), text);
}

enum hsp_status hsp_err_about(struct hsp_err *err, enum hsp_status code, const char *what, ...)
{
    va_list ap;
    va_start(ap, what);
    code = set_about(err, code, what, ap);
    va_end(ap);
    return code;
}

enum hsp_status hsp_err_nomem(struct hsp_err *err, const char *what, ...)
{
    va_list ap;
    va_start(ap, what);
    enum hsp_status st = set_about(err, HSP_ENOMEM, what, ap);
    va_end(ap);
    return st;
}

enum hsp_status hsp_err_wrap(struct hsp_err *err, const char *fmt, ...)
{
    if (err == NULL) {
        return HSP_EINVAL;
    }
    char text[sizeof(err->msg)];
    va_list ap;
    va_start(ap, fmt);
    format_into(text, sizeof(text), fmt, ap);
    va_end(ap);
    size_t n = strlen(text);
    (void)snprintf(text + n, sizeof(text) - n, ": %s", err->msg); /* cut at the end on purpose */
    keep_text(err, text, sizeof(text));
    return err->code;
}
