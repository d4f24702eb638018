#include "daemon/ctl/options.h"

#include <string.h>

#include "daemon/ctl/command.h"
#include "proto/base/size.h"
#include "proto/base/str.h"

enum { G_OUTPUT, G_ADDRESS, G_KEY, G_TIMEOUT, G_NO_HEADERS, G_HELP, G_VERSION, N_GLOBAL };

#define TIMEOUT_MAX_MS (UINT64_C(1193) * 3600000) /* of 32 bits, whole hours */

const struct hsp_option hsp_global_options[] = {
    {"output", 'o', "FORMAT", "table, json, yaml, jsonl or csv, as listed by help CMD"},
    {"address", 'a', "ADDR", "hspmdd: HOST:PORT, or the path of its socket ($HSPMD_ADDRESS)"},
    {"key", 0, "FILE", "admin key for a HOST:PORT"},
    {"timeout", 0, "TIME", "of network calls, e.g. 500ms, 10s, 2m (default 10s)"},
    {"no-headers", 0, NULL, "print tables without their header"},
    {"help", 'h', NULL, "this text"},
    {"version", 0, NULL, "version of the program"},
    {NULL, 0, NULL, NULL},
};

static const char *const format_names[] = {"table", "json", "yaml", "jsonl", "csv"};

struct parse {
    struct hsp_ctl *ctl;
    const struct hsp_command *c;
    const char *global[N_GLOBAL];
    struct hsp_err *err;
};

/* Row of the option, -1: none. @len: of a long name; 0: @word is one letter. */
static int find(const struct hsp_option *options, const char *word, size_t len)
{
    for (int i = 0; options != NULL && options[i].name != NULL; i++) {
        if (len == 0 ? options[i].letter == word[0]
                     : strlen(options[i].name) == len && memcmp(options[i].name, word, len) == 0) {
            return i;
        }
    }
    return -1;
}

/* "--deadlin" -> "--deadline" of the command @c or of all. */
static enum hsp_status unknown(const struct parse *p, const char *word, bool is_long)
{
    const char *names[HSP_CTL_MAX_OPTIONS + N_GLOBAL], *near = NULL;
    char name[HSP_EDIT_MAX + 1];
    size_t n = 0;
    for (const struct hsp_option *o = p->c != NULL ? p->c->options : NULL;
         o != NULL && o->name != NULL; o++) {
        names[n++] = o->name;
    }
    for (int i = 0; i < N_GLOBAL; i++) {
        names[n++] = hsp_global_options[i].name;
    }
    if (is_long) {
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
        near = hsp_str_nearest(name, names, n);
        near = near != NULL && 2 * hsp_edit_distance(name, near) < strlen(name) ? near : NULL;
    }
    return hsp_err_set(p->err, HSP_EINVAL, 0, "unknown option %s%s%s%s", word,
                       near != NULL ? ", did you mean --" : "", near != NULL ? near : "",
                       near != NULL ? "?" : "");
}

/* Takes one option at argv[*at]; *at moves on when its value is the next word. */
static enum hsp_status take(struct parse *p, int argc, const char *const *argv, int *at)
{
    const char *word = argv[*at], *value = NULL;
    bool is_long = word[1] == '-';
    const char *name = is_long ? word + 2 : word + 1;
    size_t len = is_long ? strcspn(name, "=") : 0;
    const struct hsp_option *row = NULL;
    const char **slot = NULL;
    int i = p->c != NULL ? find(p->c->options, name, len) : -1;
    if (i >= 0) {
        row = &p->c->options[i];
        slot = &p->ctl->opt[i];
    } else if ((i = find(hsp_global_options, name, len)) >= 0) {
        row = &hsp_global_options[i];
        slot = &p->global[i];
    } else {
        return unknown(p, word, is_long);
    }
    if (is_long && name[len] == '=') {
        value = name + len + 1;
    } else if (!is_long && name[1] != '\0') {
        value = name + 1;
    }
    if (row->arg == NULL) {
        *slot = "";
        return value == NULL
                   ? HSP_OK
                   : hsp_err_set(p->err, HSP_EINVAL, 0, "option --%s takes no value", row->name);
    }
    if (value == NULL && *at + 1 < argc) {
        value = argv[++*at];
    }
    if (value == NULL || *slot != NULL) {
        return hsp_err_set(p->err, HSP_EINVAL, 0,
                           value == NULL ? "option --%s needs a value: %s"
                                         : "option --%s is given twice, give it once: %s",
                           row->name, row->arg);
    }
    *slot = value;
    return HSP_OK;
}

/* Their names, with commas. */
static void list_formats(unsigned allowed, char *ret, size_t cap)
{
    ret[0] = '\0';
    for (unsigned f = 0; f < HSP_ARRAY_LEN(format_names); f++) {
        if (allowed >> f & 1) {
            (void)snprintf(ret + strlen(ret), cap - strlen(ret), "%s%s", ret[0] != '\0' ? ", " : "",
                           format_names[f]);
        }
    }
}

static enum hsp_status set_format(struct parse *p)
{
    const char *want = p->global[G_OUTPUT];
    unsigned allowed = p->c != NULL ? p->c->formats : 0;
    p->ctl->format = HSP_FORMAT_TABLE;
    if (want == NULL) {
        return HSP_OK;
    }
    for (unsigned f = 0; f < HSP_ARRAY_LEN(format_names); f++) {
        if (allowed >> f & 1 && strcmp(want, format_names[f]) == 0) {
            p->ctl->format = (enum hsp_format)f;
            return HSP_OK;
        }
    }
    char list[64];
    list_formats(allowed, list, sizeof list);
    return hsp_err_set(p->err, HSP_EINVAL, 0, "output format %s: %s%s", want,
                       allowed != 0 ? "this command writes " : "this command has none", list);
}

static enum hsp_status finish(struct parse *p)
{
    struct hsp_ctl *ctl = p->ctl;
    ctl->address = p->global[G_ADDRESS];
    ctl->key = p->global[G_KEY];
    ctl->headers = p->global[G_NO_HEADERS] == NULL;
    ctl->timeout_ms = 10000;
    if (p->global[G_TIMEOUT] != NULL && !hsp_parse_ms(p->global[G_TIMEOUT], &ctl->timeout_ms)) {
        return hsp_err_set(p->err, HSP_EINVAL, 0, "timeout %s is not a time like 500ms, 10s, 2m",
                           p->global[G_TIMEOUT]);
    }
    if (ctl->timeout_ms > TIMEOUT_MAX_MS) {
        return hsp_err_set(p->err, HSP_EINVAL, 0, "timeout %s is longer than 1193h",
                           p->global[G_TIMEOUT]);
    }
    if (p->c != NULL && p->global[G_HELP] == NULL &&
        (ctl->n_pos < p->c->min_pos || ctl->n_pos > p->c->max_pos)) {
        return hsp_err_set(p->err, HSP_EINVAL, 0, "%s takes %s", p->c->name,
                           p->c->max_pos == 0 ? "no operands" : p->c->operands);
    }
    if (p->global[G_HELP] != NULL) {
        ctl->help = true;
        return HSP_AGAIN;
    }
    if (p->global[G_VERSION] != NULL) {
        ctl->version = true;
        return HSP_AGAIN;
    }
    return set_format(p);
}

enum hsp_status hsp_options_parse(struct hsp_ctl *ctl, const struct hsp_command *c, int argc,
                                  const char *const *argv, struct hsp_err *err)
{
    struct parse p = {.ctl = ctl, .c = c, .err = err};
    bool options = true;
    for (int i = 0; i < argc; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && argv[i][0] == '-' && argv[i][1] != '\0') {
            enum hsp_status st = take(&p, argc, argv, &i);
            if (st != HSP_OK) {
                return st;
            }
        } else if (ctl->n_pos == HSP_CTL_MAX_POSITIONALS) {
            return hsp_err_set(err, HSP_EINVAL, 0, "more than %d operands",
                               HSP_CTL_MAX_POSITIONALS);
        } else {
            ctl->pos[ctl->n_pos++] = argv[i];
        }
    }
    return finish(&p);
}

const char *hsp_options_unknown(int n, const char *const *words)
{
    for (int i = 0; i < n && words[i][0] == '-' && strcmp(words[i], "--") != 0; i++) {
        bool is_long = words[i][1] == '-';
        const char *name = words[i] + (is_long ? 2 : 1);
        int row = find(hsp_global_options, name, is_long ? strcspn(name, "=") : 0);
        if (row < 0) {
            return words[i];
        }
        bool joined = is_long ? strchr(name, '=') != NULL : name[0] != '\0' && name[1] != '\0';
        i += hsp_global_options[row].arg != NULL && !joined;
    }
    return NULL;
}

int hsp_options_first_word(int argc, const char *const *argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0') {
        if (strcmp(argv[i], "--") == 0) {
            return i + 1;
        }
        const char *name = argv[i][1] == '-' ? argv[i] + 2 : argv[i] + 1;
        size_t len = argv[i][1] == '-' ? strcspn(name, "=") : 0;
        int row = find(hsp_global_options, name, len);
        bool joined = len > 0 ? name[len] == '=' : name[0] != '\0' && name[1] != '\0';
        i += row >= 0 && hsp_global_options[row].arg != NULL && !joined ? 2 : 1;
    }
    return i < argc ? i : argc;
}

void hsp_options_print(FILE *out, const struct hsp_option *options)
{
    for (int i = 0; options != NULL && options[i].name != NULL; i++) {
        char left[64], letter[8] = "    ";
        if (options[i].letter != 0) {
            (void)snprintf(letter, sizeof(letter), "-%c, ", options[i].letter);
        }
        (void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, options[i].name,
                       options[i].arg != NULL ? " " : "",
                       options[i].arg != NULL ? options[i].arg : "");
        (void)fprintf(out, "  %-26s  %s\n", left, options[i].help);
    }
}

void hsp_options_print_formats(FILE *out, unsigned formats)
{
    char list[64];
    list_formats(formats, list, sizeof list);
    if (list[0] != '\0') {
        (void)fprintf(out, "\nFormats of --output: %s.\n", list);
    }
}
