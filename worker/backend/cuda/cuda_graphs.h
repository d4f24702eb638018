/* Keeps the graphs of each queue by key, so that repeated work is started as one graph. A graph is
 * stale if memory that it names has been released: it is never started again.
 *
 * Role:    cuda_replay.c captures and starts graphs; cuda_memory.c reports released memory.
 * Threads: any thread, under the lock of graphs (hsp_cuda_graphs_lock). Functions marked "Locked"
 *          are called with the lock held.
 * Bounds:  HSP_CUDA_MAX_GRAPHS for each queue; a further one replaces the least recently used. */
#ifndef HSP_CUDA_GRAPHS_H
#define HSP_CUDA_GRAPHS_H
#include "worker/backend/cuda/cuda.h"
#include "worker/backend/cuda/cuda_host.h"

void hsp_cuda_graphs_lock(struct hsp_cuda *g);
void hsp_cuda_graphs_unlock(struct hsp_cuda *g);

/* Destroys the executable of the graph, and frees its place. Locked. */
void hsp_cuda_graph_destroy(struct hsp_cuda_graph *x);
/* Returns whether the graph may touch the block of memory. */
bool hsp_cuda_graph_names(const struct hsp_cuda_graph *x, const void *block);
/* Returns the graph of a key unless it is stale, or NULL. Locked. */
struct hsp_cuda_graph *hsp_cuda_graph_find(struct hsp_cuda_queue *u, const struct hsp_digest *key);
/* Returns a free place. If there is none, destroys the least recently used of the stale graphs, or,
 * if no graph is stale, of all graphs. Locked. */
struct hsp_cuda_graph *hsp_cuda_graph_room(struct hsp_cuda_queue *u);
/* Returns whether some place is free or has a stale graph. Locked. */
bool hsp_cuda_graph_has_room(const struct hsp_cuda_queue *u);
/* Returns a stale graph of the same calls as @now, which can be updated in place; or NULL.
 * Locked. */
struct hsp_cuda_graph *hsp_cuda_graph_pattern(struct hsp_cuda_queue *u,
                                              const struct hsp_cuda_graph *now);

/* Makes graphs that name the block stale. Takes the lock. */
void hsp_cuda_forget_block(struct hsp_cuda *g, const void *block);
/* Destroys the graphs of queue @q. Takes the lock. */
void hsp_cuda_graphs_drop(struct hsp_cuda *g, enum hsp_devq q);

#endif
