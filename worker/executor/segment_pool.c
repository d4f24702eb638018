/* Another process may free the pages of a spare at any moment. So this file never reads those
 * pages: struct hsp_pooled has all that is needed about a spare. */
#include "worker/executor/segment_pool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/executor/epoch.h"
#include "worker/state/segment_name.h"
#include "worker/state/segment_room.h"

struct hsp_pooled {
    struct hsp_pooled *next;
    struct hsp_pinned_segment p;
    struct hsp_segment_key key;
    size_t bytes;
    bool spare;
    char path[HSP_SEGMENT_PATH]; /* path of the file, if it is a spare */
};

size_t hsp_pool_piece(const struct hsp_exec_env *env)
{
    return env->pin_piece > 0 ? env->pin_piece : HSP_ROOM_PIECE;
}

static void put(struct hsp_exec_env *env, struct hsp_pooled **list, struct hsp_pooled *x)
{
    (void)pthread_mutex_lock(&env->segments.lock);
    x->next = *list;
    *list = x;
    (void)pthread_mutex_unlock(&env->segments.lock);
}

/* ---- out ---- */

/* The next trim of the device unpins @x. */
static void put_out(struct hsp_exec_env *env, struct hsp_pooled *x)
{
    put(env, &env->segments.out, x);
    atomic_store(&env->untrimmed, true);
}

/* Unpins the pieces of @p. Returns false if a piece is still pinned. */
static bool unpin(struct hsp_exec_env *env, const struct hsp_pinned_segment *p)
{
    struct hsp_backend *b = env->backend;
    uint8_t *map = p->pinned > 0 ? hsp_segment_map(p->s) : NULL;
    bool gone = true;
    for (size_t at = 0; at < p->pinned; at += hsp_pool_piece(env)) {
        gone = b->unpin(b, map + at) && gone;
    }
    return gone;
}

void hsp_pool_unpin(struct hsp_exec_env *env)
{
    (void)pthread_mutex_lock(&env->segments.lock);
    struct hsp_pooled *list = env->segments.out;
    env->segments.out = NULL;
    (void)pthread_mutex_unlock(&env->segments.lock);
    while (list != NULL) {
        struct hsp_pooled *x = list;
        list = x->next;
        if (unpin(env, &x->p)) {
            (void)hsp_segment_close(x->p.s);
            free(x);
        } else { /* a transport has begun to work since the trim */
            put_out(env, x);
        }
    }
}

bool hsp_pool_has_out(struct hsp_exec_env *env)
{
    (void)pthread_mutex_lock(&env->segments.lock);
    bool any = env->segments.out != NULL;
    (void)pthread_mutex_unlock(&env->segments.lock);
    return any;
}

/* Closes the segment, and deletes the name of a spare. */
static void close_note(struct hsp_exec_env *env, struct hsp_pooled *x)
{
    if (x->spare) {
        (void)hsp_segment_unlink(env->state_dir, x->path);
    }
    if (x->p.pinned == 0) {
        (void)hsp_segment_close_behind(env->state_dir, x->p.s);
        free(x);
        return;
    }
    put_out(env, x);
}

void hsp_pool_close(struct hsp_exec_env *env, struct hsp_pinned_segment p)
{
    struct hsp_pooled *x = p.pinned > 0 ? calloc(1, sizeof *x) : NULL;
    if (x != NULL) {
        x->p = p;
        close_note(env, x);
    } else if (p.pinned == 0) {
        (void)hsp_segment_close_behind(env->state_dir, p.s);
    } /* else the segment stays mapped until the process ends */
}

/* ---- idle ---- */

void hsp_pool_give(struct hsp_exec_env *env, struct hsp_pinned_segment p, bool spare)
{
    struct hsp_pooled *x = p.s != NULL ? calloc(1, sizeof *x) : NULL;
    char path[HSP_SEGMENT_PATH];
    if (x == NULL) {
        if (p.s != NULL && spare && hsp_segment_make_spare(env->state_dir, p.s, path)) {
            (void)hsp_segment_unlink(env->state_dir, path);
        }
        hsp_pool_close(env, p);
        return;
    }
    x->p = p;
    x->key = *hsp_segment_key_of(p.s);
    x->bytes = hsp_segment_bytes(p.s);
    x->spare = spare && hsp_segment_make_spare(env->state_dir, p.s, x->path);
    if (spare && !x->spare) {
        close_note(env, x);
    } else {
        put(env, &env->segments.idle, x);
    }
}

/* Removes the first idle segment for which @which is true from the pool, and returns it. Returns
 * NULL if there is none. */
static struct hsp_pooled *take_out(struct hsp_exec_env *env,
                                   bool (*which)(const struct hsp_exec_env *env,
                                                 const struct hsp_pooled *x, const void *of),
                                   const void *of)
{
    (void)pthread_mutex_lock(&env->segments.lock);
    struct hsp_pooled **at = &env->segments.idle;
    while (*at != NULL && !which(env, *at, of)) {
        at = &(*at)->next;
    }
    struct hsp_pooled *x = *at;
    if (x != NULL) {
        *at = x->next;
    }
    (void)pthread_mutex_unlock(&env->segments.lock);
    return x;
}

static struct hsp_pinned_segment open_note(struct hsp_pooled *x)
{
    struct hsp_pinned_segment p = {0};
    if (x != NULL) {
        p = x->p;
        free(x);
    }
    return p;
}

static bool has_key(const struct hsp_exec_env *env, const struct hsp_pooled *x, const void *key)
{
    const struct hsp_segment_key *k = key;
    return !x->spare && memcmp(&x->key, k, sizeof *k) == 0 &&
           hsp_segment_is_named(env->state_dir, x->p.s);
}

struct hsp_pinned_segment hsp_pool_take(struct hsp_exec_env *env, const struct hsp_segment_key *key)
{
    struct hsp_segment_key normal;
    /* If the folder has become read-only, the pool gives nothing: the epoch then opens the file and
     * finds the fault. */
    return access(env->state_dir, W_OK | X_OK) == 0 &&
                   hsp_segment_normal_key(key, &normal, NULL) == HSP_OK
               ? open_note(take_out(env, has_key, &normal))
               : (struct hsp_pinned_segment){0};
}

static bool is_best(const struct hsp_exec_env *env, const struct hsp_pooled *x, const void *bytes)
{
    const uint64_t want = *(const uint64_t *)bytes;
    bool best = x->spare && x->bytes >= want;
    for (const struct hsp_pooled *y = env->segments.idle; best && y != NULL; y = y->next) {
        best = !y->spare || y->bytes < want || y->bytes >= x->bytes;
    }
    return best;
}

struct hsp_pinned_segment hsp_pool_take_spare(struct hsp_exec_env *env, uint64_t bytes,
                                              char ret_path[HSP_SEGMENT_PATH])
{
    struct hsp_pooled *x = take_out(env, is_best, &bytes);
    if (x != NULL) {
        memcpy(ret_path, x->path, sizeof x->path);
    }
    return open_note(x);
}

struct released {
    uint32_t job;
    uint64_t keep_plan;
};

static bool is_released(const struct hsp_exec_env *env, const struct hsp_pooled *x, const void *of)
{
    const struct released *r = of;
    struct hsp_segname name;
    (void)env;
    return !x->spare && hsp_segname_parse(&x->key, &name) && name.job == r->job &&
           name.plan < r->keep_plan;
}

void hsp_pool_release(struct hsp_exec_env *env, uint32_t job, uint64_t keep_plan)
{
    const struct released r = {job, keep_plan};
    struct hsp_pooled *x;
    while ((x = take_out(env, is_released, &r)) != NULL) {
        hsp_pool_give(env, open_note(x), true);
    }
}

static bool is_useless(const struct hsp_exec_env *env, const struct hsp_pooled *x, const void *of)
{
    (void)of;
    return x->spare || !hsp_segment_is_named(env->state_dir, x->p.s);
}

void hsp_pool_tidy(struct hsp_exec_env *env)
{
    struct hsp_pooled *x;
    while ((x = take_out(env, is_useless, NULL)) != NULL) {
        close_note(env, x);
    }
}

static bool is_any(const struct hsp_exec_env *env, const struct hsp_pooled *x, const void *of)
{
    (void)env;
    (void)x;
    (void)of;
    return true;
}

void hsp_pool_empty(struct hsp_exec_env *env)
{
    struct hsp_pooled *x;
    while ((x = take_out(env, is_any, NULL)) != NULL) {
        close_note(env, x);
    }
}
