#include "worker/probe/nccl_env.h"

#include <string.h>

#include "proto/base/buf.h"

#define VALUE_MAX ((size_t)16 << 10)

struct list {
    struct hsp_arena *arena;
    char **v;
    uint32_t n;
    bool failed; /* no memory */
    bool full;
};

static bool is_set(const struct list *l, const char *name, size_t len)
{
    bool set = false;
    for (uint32_t i = 0; i < l->n && !set; i++) {
        set = strncmp(l->v[i], name, len) == 0 && l->v[i][len] == '=';
    }
    return set;
}

/* "NAME=value" unless NAME is set; whether it was added. */
static bool add(struct list *l, const char *text, size_t len)
{
    const char *is = memchr(text, '=', len);
    if (is == NULL || is_set(l, text, (size_t)(is - text))) {
        return false;
    }
    l->full = l->full || l->n + 1 >= HSP_NCCL_ENV_MAX;
    if (l->full) {
        return false;
    }
    char *copy = hsp_arena_alloc(l->arena, len + 1);
    l->failed = l->failed || copy == NULL;
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    l->v[l->n++] = copy;
    return true;
}

/* Lines "NCCL_NAME=value", as NCCL reads them: no blanks around, # begins a comment at the start of
 * a line. */
static void add_file(struct list *l, const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t n = strcspn(text, "\n");
        if (strncmp(text, "NCCL_", 5) == 0) {
            (void)add(l, text, n);
        }
        text += n + (text[n] == '\n');
    }
}

static void add_made(struct list *l, struct hsp_buf *b, const char *name, struct hsp_buf *made)
{
    const char *text = hsp_buf_cstr(b);
    l->failed = l->failed || b->failed;
    if (!b->failed && add(l, text, strlen(text))) {
        hsp_buf_printf(made, "%s%s %s", made->len > 0 ? ", " : "", name, text + strlen(name) + 1);
    }
    hsp_buf_reset(b);
}

static void add_cards(struct list *l, const struct hsp_nccl_env_opts *o, struct hsp_buf *made)
{
    struct hsp_buf b;
    uint32_t n = 0;
    hsp_buf_init(&b, VALUE_MAX);
    if (o->own < o->n_cards && o->card[o->own].here) {
        hsp_buf_printf(&b, "NCCL_SOCKET_IFNAME==%s", o->card[o->own].name);
        add_made(l, &b, "NCCL_SOCKET_IFNAME", made);
    }
    for (uint32_t i = 0; i < o->n_cards; i++) {
        for (uint32_t k = 0; k < o->card[i].n_rdma; k++) {
            hsp_buf_printf(&b, "%s%s", n++ == 0 ? "NCCL_IB_HCA==" : ",", o->card[i].rdma[k]);
        }
    }
    if (n > 0) {
        add_made(l, &b, "NCCL_IB_HCA", made);
    }
    hsp_buf_fini(&b);
}

enum hsp_status hsp_nccl_env_make(const struct hsp_nccl_env_opts *o, struct hsp_arena *arena,
                                  char *const **ret, const char **ret_made, struct hsp_err *err)
{
    static const char *const always[] = {"NCCL_NET_DISABLE_INTRA=1", "NCCL_ENV_PLUGIN=none"};
    struct list l = {.arena = arena, .v = hsp_arena_array(arena, HSP_NCCL_ENV_MAX, sizeof *l.v)};
    struct hsp_buf made;
    if (l.v == NULL) {
        return hsp_err_nomem(err, "an environment");
    }
    while (o->env[l.n] != NULL) {
        if (l.n + 8 == HSP_NCCL_ENV_MAX) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "more than %u variables", HSP_NCCL_ENV_MAX - 8);
        }
        l.v[l.n] = o->env[l.n];
        l.n++;
    }
    add_file(&l, o->conf[0]);
    add_file(&l, o->conf[1]);
    hsp_buf_init(&made, 2 * VALUE_MAX);
    add_cards(&l, o, &made);
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        (void)add(&l, always[i], strlen(always[i]));
    }
    l.v[l.n] = NULL;
    const char *text = hsp_arena_strdup(arena, hsp_buf_cstr(&made));
    bool good = !l.failed && !made.failed && text != NULL;
    hsp_buf_fini(&made);
    if (l.full) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "more than %u variables with those of NCCL's files",
                           HSP_NCCL_ENV_MAX - 1);
    }
    if (!good) {
        return hsp_err_nomem(err, "an environment");
    }
    *ret = l.v;
    *ret_made = text;
    return HSP_OK;
}
