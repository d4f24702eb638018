#include "proto/base/str.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/size.h"

size_t hsp_edit_distance(const char *a, const char *b)
{
    size_t la = strnlen(a, HSP_EDIT_MAX + 1);
    size_t lb = strnlen(b, HSP_EDIT_MAX + 1);
    if (la > HSP_EDIT_MAX || lb > HSP_EDIT_MAX) {
        return SIZE_MAX;
    }
    size_t row[HSP_EDIT_MAX + 1];
    for (size_t j = 0; j <= lb; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= la; i++) {
        size_t diag = row[0]; /* row[i-1][j-1] */
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t up = row[j];
            size_t best = diag + (a[i - 1] == b[j - 1] ? 0 : 1);
            best = up + 1 < best ? up + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
            diag = up;
        }
    }
    return row[lb];
}

const char *hsp_str_nearest(const char *word, const char *const *list, size_t n)
{
    const char *best = NULL;
    size_t best_d = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t d = hsp_edit_distance(word, list[i]);
        if (d < best_d) {
            best_d = d;
            best = list[i];
        }
    }
    size_t len = strlen(word);
    size_t limit = len / 3 > 2 ? len / 3 : 2;
    /* A suggestion that shares no letter with a short word would be noise. */
    return best_d <= limit && best_d < len ? best : NULL;
}

/* Reads digits up to the first other character; false without a digit or on overflow. */
static bool digits(const char **s, uint64_t *ret)
{
    uint64_t v = 0;
    const char *p = *s;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v)) {
            return false;
        }
    }
    if (p == *s) {
        return false;
    }
    *s = p;
    *ret = v;
    return true;
}

bool hsp_parse_u64(const char *s, uint64_t *ret)
{
    uint64_t v;
    if (!digits(&s, &v) || *s != '\0') {
        return false;
    }
    *ret = v;
    return true;
}

bool hsp_parse_i64(const char *s, int64_t *ret)
{
    bool neg = *s == '-';
    uint64_t v;
    s += neg ? 1 : 0;
    if (!digits(&s, &v) || *s != '\0' || v > (uint64_t)INT64_MAX + (neg ? 1 : 0)) {
        return false;
    }
    *ret = neg ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool hsp_parse_f64(const char *s, double *ret)
{
    /* strtod would also take hex, inf, nan and leading blanks. */
    if (*s == '\0' || s[strspn(s, "0123456789+-.eE")] != '\0' || *s == '+') {
        return false;
    }
    char *end;
    errno = 0;
    double v = strtod(s, &end);
    /* ERANGE also comes for denormal results, which are as good as any. */
    if (*end != '\0' || end == s || !isfinite(v)) {
        return false;
    }
    *ret = v;
    return true;
}

/* int[.frac] with at most three digits of fraction, scaled by unit, truncated. */
struct decimal {
    uint64_t whole;
    uint64_t milli;
};

static bool decimal(const char **s, struct decimal *ret)
{
    struct decimal d = {0, 0};
    if (!digits(s, &d.whole)) {
        return false;
    }
    if (**s == '.') {
        const char *start = ++*s;
        if (!digits(s, &d.milli) || *s - start > 3) {
            return false;
        }
        for (ptrdiff_t i = *s - start; i < 3; i++) {
            d.milli *= 10;
        }
    }
    *ret = d;
    return true;
}

static bool scale(struct decimal d, uint64_t unit, uint64_t *ret)
{
    uint64_t v;
    /* unit <= 2^40 and milli < 1000: the second product fits. */
    if (__builtin_mul_overflow(d.whole, unit, &v) ||
        __builtin_add_overflow(v, d.milli * unit / 1000, &v)) {
        return false;
    }
    *ret = v;
    return true;
}

struct unit {
    const char *name;
    uint64_t factor;
};

static bool parse_with_units(const char *s, const struct unit *units, size_t n, uint64_t *ret)
{
    struct decimal d;
    if (!decimal(&s, &d)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(s, units[i].name) == 0) {
            return scale(d, units[i].factor, ret);
        }
    }
    return false;
}

bool hsp_parse_bytes(const char *s, uint64_t *ret)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"K", 1ULL << 10},
        {"KB", 1ULL << 10},
        {"KiB", 1ULL << 10},
        {"M", 1ULL << 20},
        {"MB", 1ULL << 20},
        {"MiB", 1ULL << 20},
        {"G", 1ULL << 30},
        {"GB", 1ULL << 30},
        {"GiB", 1ULL << 30},
        {"T", 1ULL << 40},
        {"TB", 1ULL << 40},
        {"TiB", 1ULL << 40},
    };
    return parse_with_units(s, units, HSP_ARRAY_LEN(units), ret);
}

bool hsp_parse_ms(const char *s, uint64_t *ret)
{
    static const struct unit units[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    return parse_with_units(s, units, HSP_ARRAY_LEN(units), ret);
}

static bool alnum_lower(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool hsp_name_valid(const char *s)
{
    size_t n = strnlen(s, 64);
    if (n == 0 || n > 63 || !alnum_lower(s[0]) || !alnum_lower(s[n - 1])) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!alnum_lower(s[i]) && s[i] != '-' && s[i] != '.') {
            return false;
        }
    }
    return true;
}

/* Bytes of the sequence that begins with @c, and its bits in *@ret; 0: no such beginning. */
static size_t utf8_lead(uint8_t c, uint32_t *ret)
{
    size_t n = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
    static const uint8_t mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    *ret = c & mask[n];
    return n;
}

/* Bytes of the character that @s[0..len) begins with, len > 0. 0: none does; *@ret_part: but one
 * might if there were more. */
static size_t utf8_char(const uint8_t *s, size_t len, bool *ret_part, uint32_t *ret)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t v;
    size_t n = utf8_lead(s[0], &v), k = 1;
    while (k < n && k < len && s[k] >> 6 == 2) {
        v = v << 6 | (s[k++] & 0x3f);
    }
    *ret_part = k == len && k < n;
    *ret = v;
    return k == n && v >= least[n] && v <= 0x10ffff && v >> 11 != 0x1b ? n : 0;
}

bool hsp_utf8_valid(const uint8_t *s, size_t len)
{
    bool part;
    uint32_t c;
    for (size_t i = 0, n; i < len; i += n) {
        n = s[i] < 0x80 ? 1 : utf8_char(s + i, len - i, &part, &c);
        if (n == 0) {
            return false;
        }
    }
    return true;
}

void hsp_utf8_mend(char *s)
{
    size_t len = strlen(s);
    for (size_t i = 0, n; i < len; i += n) {
        bool part;
        uint32_t c;
        n = utf8_char((const uint8_t *)s + i, len - i, &part, &c);
        if (n == 0) {
            s[i] = part ? '\0' : '?';
            n = part ? len - i : 1;
        }
    }
}

/* Whether a terminal does something else with @c than to show it in its place. */
static bool unseen(uint32_t c)
{
    static const uint32_t range[][2] = {
        {0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e},
        {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}};
    bool in = false;
    for (size_t i = 0; i < sizeof range / sizeof range[0]; i++) {
        in = in || (c >= range[i][0] && c <= range[i][1]);
    }
    return in;
}

/* Bytes of @s[0..len) before the first that is not plain ASCII: answers are megabytes of these. */
static size_t plain_run(const char *s, size_t len)
{
    size_t n = 0;
    while (n < len && s[n] >= 0x20 && s[n] < 0x7f) {
        n++;
    }
    return n;
}

size_t hsp_str_show(char *dst, size_t cap, const char *s, size_t len, bool lines)
{
    size_t all = 0, end = 0, room = cap > 0 ? cap - 1 : 0;
    for (size_t i = 0, n; i < len; i += n) {
        char code[8];
        const char *from = s + i;
        bool part;
        uint32_t c;
        size_t run = plain_run(from, len - i);
        n = run > 0 ? run : utf8_char((const uint8_t *)from, len - i, &part, &c);
        size_t k = n;
        if (run == 0 && (n == 0 || (unseen(c) && !(lines && (c == '\n' || c == '\t'))))) {
            (void)snprintf(code, sizeof code, "\\u%04x", n == 0 ? 0xfffdu : c);
            from = code;
            k = strlen(code);
            n = n == 0 ? 1 : n;
        }
        size_t fits = end != all ? 0 : k <= room - end ? k : run > 0 ? room - end : 0;
        if (fits > 0) { /* the first character that does not fit ends it */
            memcpy(dst + end, from, fits);
            end += fits;
        }
        all += k;
    }
    if (cap > 0) {
        dst[end] = '\0';
    }
    return all;
}

void hsp_str_printf(char *dst, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(dst, size, fmt, ap) < 0) {
        dst[0] = '\0';
    }
    va_end(ap);
    hsp_utf8_mend(dst);
}

void hsp_str_vtell(char *dst, size_t size, const char *fmt, va_list ap)
{
    static const char cut[] = "...";
    int n = vsnprintf(dst, size, fmt, ap);
    if (n < 0) {
        dst[0] = '\0';
    }
    bool mark = n > 0 && (size_t)n >= size && size > sizeof cut;
    if (mark) {
        dst[size - sizeof cut] = '\0';
    }
    hsp_utf8_mend(dst);
    if (mark) {
        memcpy(dst + strlen(dst), cut, sizeof cut);
    }
}

void hsp_str_tell(char *dst, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    hsp_str_vtell(dst, size, fmt, ap);
    va_end(ap);
}
