/* Lists in the status document the known failures because of which plans avoid a device, a node or
 * a link, or count less memory on a device: the place, the reason, since when and until when.
 *
 * Example: n1/0 had no memory for job mist ten seconds ago:
 *   {"kind": "out-of-memory", "job": "mist", "node": "n1", "device": 0,
 *    "reason": "no memory for ...",
 *    "since": "2026-11-27T10:00:00.000Z", "seconds": 10, "until": "2026-11-27T10:10:00.000Z",
 *    "left_seconds": 590}
 *
 * Purity: pure.
 */
#ifndef HSP_FACTS_DOC_H
#define HSP_FACTS_DOC_H
#include <cjson/cJSON.h>
#include <stdint.h>

#include "daemon/cluster/cluster_state.h"

/* Adds the list "facts" to @o: the facts of @job, or, if @job is NULL, those of node @node ("": of
 * all nodes). A fact whose time is over is left out. @now_ms is the time of the core's clock, and
 * @unix_ms the same moment as Unix time. If only an event ends a fact, "until" and "left_seconds"
 * are missing, and "ends" names the event. */
void hsp_facts_put(cJSON *o, const struct hsp_cluster *c, const struct hsp_job *job,
                   const char *node, hsp_msec now_ms, int64_t unix_ms);

#endif
