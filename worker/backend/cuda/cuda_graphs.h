/* Keeps the graphs of each queue by key, so that repeated work is started as one graph.
 *
 * Role:    cuda_replay.c captures and starts graphs; cuda_memory.c says which memory is gone.
 * Threads: any, under the lock of graphs (hsp_cuda_graphs_lock), which the functions about a single
 *          graph or queue leave to their caller.
 * Bounds:  HSP_CUDA_MAX_GRAPHS for each queue; the least recently used one goes.
 */
#ifndef HSP_CUDA_GRAPHS_H
#define HSP_CUDA_GRAPHS_H
#include "worker/backend/cuda/cuda.h"
#include "worker/backend/cuda/cuda_host.h"

void hsp_cuda_graphs_lock(struct hsp_cuda *g);
void hsp_cuda_graphs_unlock(struct hsp_cuda *g);

/* Destroys the executable of the graph, and empties its place. Locked. */
void hsp_cuda_graph_destroy(struct hsp_cuda_graph *x);
/* Whether the graph may touch the block of memory. */
bool hsp_cuda_graph_names(const struct hsp_cuda_graph *x, const void *block);
/* The graph of a key that is not stale, or NULL. Locked. */
struct hsp_cuda_graph *hsp_cuda_graph_find(struct hsp_cuda_queue *u, const struct hsp_digest *key);
/* A free place; where there is none, the least recently used of the stale graphs, or else of all
 * graphs, is destroyed. Locked. */
struct hsp_cuda_graph *hsp_cuda_graph_room(struct hsp_cuda_queue *u);
/* Whether there is a place without a graph that may still be started. Locked. */
bool hsp_cuda_graph_has_room(const struct hsp_cuda_queue *u);
/* A stale graph of the same calls as @now, which can be brought up to date; or NULL. Locked. */
struct hsp_cuda_graph *hsp_cuda_graph_pattern(struct hsp_cuda_queue *u,
                                              const struct hsp_cuda_graph *now);

/* Graphs that name the block are not replayed any more. Takes the lock. */
void hsp_cuda_forget_block(struct hsp_cuda *g, const void *block);
/* Destroys the graphs of @q. Takes the lock. */
void hsp_cuda_graphs_drop(struct hsp_cuda *g, enum hsp_devq q);

#endif
