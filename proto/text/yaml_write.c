#include "proto/text/yaml_write.h"

#include "proto/text/yaml.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/size.h"
#include "proto/base/str.h"

/* Returns the character of 2 or 3 bytes at @p if a YAML reader would refuse it unescaped or take it
 * for a line break; else 0. */
static unsigned odd_character(const unsigned char *p)
{
    unsigned c = 0;
    if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f) {
        return p[1]; /* U+0080 to U+009F */
    }
    if ((p[0] == 0xe2 || p[0] == 0xef) && p[1] >= 0x80 && p[2] >= 0x80) {
        c = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    }
    return c == 0x2028 || c == 0x2029 || c == 0xfeff || c >= 0xfffe ? c : 0;
}

void hsp_yaml_put_json_str(struct hsp_buf *b, const char *text)
{
    hsp_buf_u8(b, '"');
    for (const char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;
        unsigned odd = odd_character((const unsigned char *)p);
        if (odd != 0) {
            hsp_buf_printf(b, "\\u%04x", odd);
            p += odd < 0x800 ? 1 : 2;
            continue;
        }
        if (c == '"' || c == '\\') {
            hsp_buf_u8(b, '\\');
            hsp_buf_u8(b, c);
        } else if (c == '\n') {
            hsp_buf_puts(b, "\\n");
        } else if (c == '\t') {
            hsp_buf_puts(b, "\\t");
        } else if (c < 0x20 || c == 0x7f) {
            hsp_buf_printf(b, "\\u%04x", c);
        } else {
            hsp_buf_u8(b, c);
        }
    }
    hsp_buf_u8(b, '"');
}

/* Returns whether every YAML reader, ours or another, takes the plain @s for a text. */
static bool plain_is_safe(const char *s)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no",  "on", "off",
                                        "Null", "True", "False", "Yes", "No",  "On", "Off",
                                        "NULL", "TRUE", "FALSE", "YES", "NO",  "ON", "OFF",
                                        "y",    "n",    "Y",     "N",   "nan", "inf"};
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (size_t i = 0; i < HSP_ARRAY_LEN(words); i++) {
        if (strcmp(s, words[i]) == 0) {
            return false;
        }
    }
    if (*s == '\0' || (strchr(letters, *s) == NULL && *s != '/' && *s != '_')) {
        return false;
    }
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-");
    return s[n] == '\0';
}

void hsp_yaml_put_str(struct hsp_buf *b, const char *text)
{
    if (plain_is_safe(text)) {
        hsp_buf_puts(b, text);
    } else {
        hsp_yaml_put_json_str(b, text);
    }
}

void hsp_yaml_put_f64(struct hsp_buf *b, double v)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, v); /* 17 digits and exponent fit */
        double back = 0;
        if (hsp_parse_f64(text, &back) && memcmp(&back, &v, sizeof(v)) == 0) {
            break;
        }
    }
    hsp_buf_puts(b, text);
}

void hsp_yaml_put_bytes(struct hsp_buf *b, uint64_t v)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t i = 0;
    while (v != 0 && v % 1024 == 0 && i + 1 < HSP_ARRAY_LEN(units)) {
        v /= 1024;
        i++;
    }
    hsp_buf_printf(b, "%llu%s", (unsigned long long)v, units[i]);
}

void hsp_yaml_put_ms(struct hsp_buf *b, uint64_t v)
{
    if (v == 0 || v % 1000 != 0) {
        hsp_buf_printf(b, "%llums", (unsigned long long)v);
    } else if (v % 60000 != 0) {
        hsp_buf_printf(b, "%llus", (unsigned long long)(v / 1000));
    } else if (v % 86400000 == 0) {
        hsp_buf_printf(b, "%llud", (unsigned long long)(v / 86400000));
    } else if (v % 3600000 != 0) {
        hsp_buf_printf(b, "%llum", (unsigned long long)(v / 60000));
    } else {
        hsp_buf_printf(b, "%lluh", (unsigned long long)(v / 3600000));
    }
}

/* Returns whether the scalar @s reads back as the same text without quotes in flow style. Numbers,
 * sizes, booleans and words do. */
static bool reads_back_plain(const char *s)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/";
    const char *p = s + (*s == '-' || *s == '+'); /* a sign or a point stands before a digit */
    p += *p == '.';
    bool begins = p > s ? *p >= '0' && *p <= '9' : *p != '\0' && strchr(first, *p) != NULL;
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.+-");
    return begins && s[n] == '\0';
}

void hsp_yaml_put_flow(struct hsp_buf *b, const struct hsp_yaml *node)
{
    if (node->kind == HSP_YAML_NULL) {
        hsp_buf_puts(b, "null");
        return;
    }
    if (node->kind == HSP_YAML_SCALAR) {
        if (!node->quoted && reads_back_plain(node->text)) {
            hsp_buf_puts(b, node->text);
        } else {
            hsp_yaml_put_json_str(b, node->text);
        }
        return;
    }
    bool map = node->kind == HSP_YAML_MAP;
    hsp_buf_u8(b, map ? '{' : '[');
    for (size_t i = 0; i < node->n; i++) {
        hsp_buf_puts(b, i > 0 ? ", " : "");
        if (map) {
            hsp_yaml_put_str(b, node->items[i].key);
            hsp_buf_puts(b, ": ");
        }
        hsp_yaml_put_flow(b, &node->items[i]); /* depth is bounded by the parser */
    }
    hsp_buf_u8(b, map ? '}' : ']');
}
