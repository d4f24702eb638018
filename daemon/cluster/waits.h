/* Finds the link or the thread that all others of a job wait for, in their wait-for graph.
 *
 * The idea is the wait-for graph of deadlock detection, in the model where a process waits for one
 * other at a time (R. C. Holt, Some deadlock properties of computer systems, 1972; E. Knapp,
 * Deadlock detection in distributed databases, 1987, "single-resource model"). Every vertex has one
 * edge at most, so each way through the graph ends in one *sink*: a vertex that waits for nobody,
 * or a circle. To these comes a third kind, the *link*: a thread whose message has been sent and
 * has not arrived waits for the link, and not for the sender. The sink with the most vertices on
 * their way to it is the culprit.
 *
 * Example: thread 0 waits for 1, 1 for 2, 3 for 2; 2 is known to have sent the message for 1. The
 * sinks are the link 1-2 (waited for by 0 and 1) and thread 2 (by 3): the link is the culprit.
 *
 * Links are links of nodes: all waits between two nodes count for one link.
 *
 * Purity:  pure.
 * Bounds:  O(n log n) for n vertices. */
#ifndef HSP_WAITS_H
#define HSP_WAITS_H
#include <stdbool.h>
#include <stdint.h>

#define HSP_WAITS_NOBODY UINT32_MAX

struct hsp_wait {      /* a vertex: a thread of a rank */
    uint32_t on;       /* vertex that it waits for, or HSP_WAITS_NOBODY */
    bool link;         /* the message is under way; the nodes of the two vertices differ */
    uint32_t node;     /* where it runs */
    uint64_t since_ms; /* how long its wait or its work lasts */
};

enum hsp_culprit_kind {
    HSP_CULPRIT_LINK,
    HSP_CULPRIT_CIRCLE, /* each waits for the next, and no message is seen under way */
    HSP_CULPRIT_THREAD
};

struct hsp_culprit {
    enum hsp_culprit_kind kind;
    uint32_t at;      /* THREAD: the vertex; else the one that waits the longest, by an edge */
    uint32_t on;      /* of the link or of the circle; THREAD: HSP_WAITS_NOBODY */
    uint32_t waiters; /* vertices that wait for it, at least 1 */
};

struct hsp_waits_place { /* scratch of one vertex */
    uint32_t sink, waiters;
    uint64_t link;
    uint8_t state;
};

/* Finds the sink with the most waiters; of several the one that lasts the longest, then by kind in
 * the order above, then the lowest vertex.
 *
 * @w, @n    vertices; each `on` is below @n.
 * @scratch  [n].
 *
 * Returns false, and leaves *ret alone, when nobody waits. */
bool hsp_waits_culprit(const struct hsp_wait *w, uint32_t n, struct hsp_waits_place *scratch,
                       struct hsp_culprit *ret);

#endif
