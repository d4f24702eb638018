#include "worker/data/datacache.h"

#include <pthread.h>
#include <stdlib.h>

struct entry {
    struct hsp_held_data held; /* first: what is given out */
    enum hsp_data_format format;
    uint32_t vocab; /* all tokens are below it */
    uint32_t users; /* the cache is one of them while it is `last` */
};

struct hsp_data_cache {
    pthread_mutex_t lock; /* all of it */
    struct entry *last;   /* NULL: none */
};

struct hsp_data_cache *hsp_data_cache_new(void)
{
    struct hsp_data_cache *c = calloc(1, sizeof(*c));
    if (c != NULL) {
        (void)pthread_mutex_init(&c->lock, NULL); /* cannot fail on Linux */
    }
    return c;
}

static void let_go(struct entry *x)
{
    if (x != NULL && --x->users == 0) {
        hsp_dataset_close(&x->held.set);
        free(x);
    }
}

struct hsp_data_cache *hsp_data_cache_free(struct hsp_data_cache *c)
{
    if (c != NULL) {
        let_go(c->last);
        (void)pthread_mutex_destroy(&c->lock);
        free(c);
    }
    return NULL;
}

/* Opens and reads everything. */
static enum hsp_status read_all(const char *path, enum hsp_data_format format, uint32_t vocab,
                                struct entry **ret, struct hsp_err *err)
{
    struct entry *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no memory for the data set %s", path);
    }
    enum hsp_status st = hsp_dataset_open(path, format, &x->held.set, err);
    if (st != HSP_OK) {
        free(x);
        return st;
    }
    x->format = format;
    x->vocab = vocab;
    x->users = 1;
    st = hsp_dataset_check(&x->held.set, vocab, err);
    if (st == HSP_OK && hsp_dataset_digest(&x->held.set, &x->held.digest) != HSP_OK) {
        st = hsp_err_set(err, HSP_ENOMEM, 0, "no memory for the digest of %s", path);
    }
    if (st != HSP_OK) {
        let_go(x);
        return st;
    }
    *ret = x;
    return HSP_OK;
}

/* The last data set is @path as it is now, and its tokens are known to be below @vocab. */
static bool is_last(const struct hsp_data_cache *c, const char *path, enum hsp_data_format format,
                    uint32_t vocab)
{
    const struct entry *x = c->last;
    return x != NULL && x->format == format && vocab >= x->vocab &&
           hsp_dataset_is(&x->held.set, path, format);
}

enum hsp_status hsp_data_cache_get(struct hsp_data_cache *c, const char *path,
                                   enum hsp_data_format format, uint32_t vocab,
                                   const struct hsp_held_data **ret, struct hsp_err *err)
{
    struct entry *fresh = NULL;
    enum hsp_status st = HSP_OK;
    (void)pthread_mutex_lock(&c->lock);
    if (!is_last(c, path, format, vocab)) {
        st = read_all(path, format, vocab, &fresh, err);
        if (st == HSP_OK) {
            let_go(c->last);
            c->last = fresh;
        }
    }
    if (st == HSP_OK) {
        c->last->users++;
        *ret = &c->last->held;
    }
    (void)pthread_mutex_unlock(&c->lock);
    return st;
}

const struct hsp_held_data *hsp_data_cache_put(struct hsp_data_cache *c,
                                               const struct hsp_held_data *d)
{
    if (d != NULL) {
        (void)pthread_mutex_lock(&c->lock);
        let_go((struct entry *)(uintptr_t)d);
        (void)pthread_mutex_unlock(&c->lock);
    }
    return NULL;
}
