#include "worker/backend/cuda/cuda_graphs.h"

#include <string.h>

#include "worker/backend/cuda/cuda_host.h"

void hsp_cuda_graphs_lock(struct hsp_cuda *g)
{
    (void)pthread_mutex_lock(g->graphs_lock);
}

void hsp_cuda_graphs_unlock(struct hsp_cuda *g)
{
    (void)pthread_mutex_unlock(g->graphs_lock);
}

void hsp_cuda_graph_destroy(struct hsp_cuda_graph *x)
{
    if (x->exec != NULL && cudaGraphExecDestroy(x->exec) != cudaSuccess) {
        (void)cudaGetLastError(); /* the device is lost, and its graphs with it */
    }
    memset(x, 0, sizeof(*x));
}

void hsp_cuda_graphs_drop(struct hsp_cuda *g, enum hsp_devq q)
{
    struct hsp_cuda_queue *u = &g->queue[q];
    if (u->graph == NULL) {
        return;
    }
    hsp_cuda_graphs_lock(g);
    for (int i = 0; i < HSP_CUDA_MAX_GRAPHS; i++) {
        hsp_cuda_graph_destroy(&u->graph[i]);
    }
    hsp_cuda_graphs_unlock(g);
}

bool hsp_cuda_graph_names(const struct hsp_cuda_graph *x, const void *block)
{
    bool found = x->n_blocks > HSP_CUDA_MAX_BLOCKS;
    for (uint8_t i = 0; !found && i < x->n_blocks; i++) {
        found = x->block[i] == block;
    }
    return found;
}

void hsp_cuda_forget_block(struct hsp_cuda *g, const void *block)
{
    hsp_cuda_graphs_lock(g);
    for (unsigned q = 0; q < HSP_N_DEVQ; q++) {
        struct hsp_cuda_graph *x = g->queue[q].graph;
        for (int i = 0; x != NULL && i < HSP_CUDA_MAX_GRAPHS; i++) {
            x[i].stale = x[i].stale ||
                         (x[i].state == HSP_CUDA_GRAPH_READY && hsp_cuda_graph_names(&x[i], block));
        }
    }
    hsp_cuda_graphs_unlock(g);
}

struct hsp_cuda_graph *hsp_cuda_graph_find(struct hsp_cuda_queue *u, const struct hsp_digest *key)
{
    for (int i = 0; i < HSP_CUDA_MAX_GRAPHS; i++) {
        struct hsp_cuda_graph *x = &u->graph[i];
        if (x->state != HSP_CUDA_GRAPH_FREE && !x->stale && x->key.hi == key->hi &&
            x->key.lo == key->lo) {
            return x;
        }
    }
    return NULL;
}

struct hsp_cuda_graph *hsp_cuda_graph_room(struct hsp_cuda_queue *u)
{
    struct hsp_cuda_graph *best = NULL;
    for (int i = 0; i < HSP_CUDA_MAX_GRAPHS; i++) {
        struct hsp_cuda_graph *x = &u->graph[i];
        if (x->state == HSP_CUDA_GRAPH_FREE) {
            return x;
        }
        if (best == NULL || x->stale > best->stale ||
            (x->stale == best->stale && x->used < best->used)) {
            best = x;
        }
    }
    hsp_cuda_graph_destroy(best);
    return best;
}

bool hsp_cuda_graph_has_room(const struct hsp_cuda_queue *u)
{
    for (int i = 0; i < HSP_CUDA_MAX_GRAPHS; i++) {
        if (u->graph[i].state == HSP_CUDA_GRAPH_FREE || u->graph[i].stale) {
            return true;
        }
    }
    return false;
}

struct hsp_cuda_graph *hsp_cuda_graph_pattern(struct hsp_cuda_queue *u,
                                              const struct hsp_cuda_graph *now)
{
    for (int i = 0; i < HSP_CUDA_MAX_GRAPHS; i++) {
        struct hsp_cuda_graph *x = &u->graph[i];
        if (x->state == HSP_CUDA_GRAPH_READY && x->stale && x->signature == now->signature &&
            x->n_calls == now->n_calls) {
            return x;
        }
    }
    return NULL;
}
