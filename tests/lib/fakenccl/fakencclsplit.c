/* Plays ncclCommSplit: the result is there when all members have called, and put where they
 * said. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fakenccl/fakencclint.h"

static void *need(void *p)
{
    if (p == NULL) {
        abort();
    }
    return p;
}

static struct parting *parting_of(struct clique *q, uint64_t number)
{
    for (struct parting *p = q->partings; p != NULL; p = p->next) {
        if (p->number == number) {
            return p;
        }
    }
    struct parting *p = need(calloc(1, sizeof *p));
    *p = (struct parting){.next = q->partings,
                          .number = number,
                          .color = need(calloc((size_t)q->n, sizeof(int))),
                          .key = need(calloc((size_t)q->n, sizeof(int))),
                          .ret = need(calloc((size_t)q->n, sizeof(struct nccl_comm **)))};
    q->partings = p;
    return p;
}

/* True when member @a comes before @b in their new communicator. */
static bool before(const struct parting *p, int a, int b)
{
    return p->key[a] != p->key[b] ? p->key[a] < p->key[b] : a < b;
}

static void make(struct clique *q, const struct parting *p, int member)
{
    struct nccl_id id = q->id;
    int n = 0, me = 0;
    size_t at = strlen(id.internal);
    for (int k = 0; k < q->n; k++) {
        bool mate = p->color[k] == p->color[member];
        n += mate;
        me += mate && before(p, k, member);
    }
    (void)snprintf(id.internal + at, sizeof id.internal - at, "/%u.%d", (unsigned)p->number,
                   p->color[member]);
    *p->ret[member] = fake_join(fake_clique(&id, n), me, q->member[member]->process);
}

enum nccl_result fake_split(struct nccl_comm *c, int color, int key, struct nccl_comm **ret)
{
    struct clique *q = c->q;
    struct parting *p = parting_of(q, c->n_split++);
    p->color[c->me] = color;
    p->key[c->me] = key;
    p->ret[c->me] = ret;
    *ret = NULL;
    c->parting = p;
    p->n_here++;
    for (int k = 0; p->n_here == q->n && !p->dead && k < q->n; k++) {
        if (p->color[k] >= 0) {
            make(q, p, k);
        }
    }
    (void)pthread_cond_broadcast(&fake.cond);
    return NCCL_SUCCESS; /* which says nothing: the parent is in progress */
}

bool fake_splitting(const struct nccl_comm *c)
{
    return c->parting != NULL && (c->parting->dead || c->parting->n_here < c->q->n);
}

void fake_partings_leave(struct nccl_comm *c)
{
    if (fake_splitting(c)) {
        c->parting->dead = true;
    }
}

void fake_partings_free(struct clique *q)
{
    while (q->partings != NULL) {
        struct parting *p = q->partings;
        q->partings = p->next;
        free(p->color);
        free(p->key);
        free(p->ret);
        free(p);
    }
}
