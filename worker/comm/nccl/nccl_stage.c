#include "worker/comm/nccl/nccl_stage.h"

#include <stdlib.h>

#define STAGE_ROUND ((size_t)64 << 10) /* so that sizes that differ a little share memory */

static void release(struct hsp_nccl_comm *c, struct hsp_nccl_stage **at)
{
    struct hsp_backend *b = hsp_nccl_backend_of(c);
    struct hsp_nccl_stage *s = *at;
    *at = s->next;
    b->release(b, HSP_MEM_DEVICE, s->data);
    free(s);
}

void hsp_nccl_stages_free(struct hsp_nccl_comm *c)
{
    while (c->stages != NULL) {
        release(c, &c->stages);
    }
}

bool hsp_nccl_stages_rest(struct hsp_nccl_comm *c)
{
    struct hsp_backend *b = hsp_nccl_backend_of(c);
    bool all = true;
    for (struct hsp_nccl_stage **at = &c->stages; *at != NULL;) {
        if (!(*at)->taken && b->reached(b, (*at)->q, (*at)->ticket)) {
            release(c, at);
        } else {
            all = all && (*at)->taken;
            at = &(*at)->next;
        }
    }
    return all;
}

/* Takes the smallest free stage that is large enough, or a new one; HSP_DEVQ_COMM touches it next.
 * Memory stays until the epoch is left: a release might wait for the device, and the device for a
 * peer. */
enum hsp_status hsp_nccl_stage_take(struct hsp_nccl_comm *c, size_t bytes,
                                    struct hsp_nccl_stage **ret, struct hsp_err *err)
{
    struct hsp_backend *b = hsp_nccl_backend_of(c);
    struct hsp_nccl_stage *best = NULL;
    for (struct hsp_nccl_stage *s = c->stages; s != NULL; s = s->next) {
        if (!s->taken && s->bytes >= bytes && (best == NULL || s->bytes < best->bytes) &&
            (s->q == HSP_DEVQ_COMM || b->reached(b, s->q, s->ticket))) {
            best = s;
        }
    }
    if (best == NULL) {
        best = calloc(1, sizeof *best);
        if (best == NULL) {
            return hsp_err_nomem(err, "a message");
        }
        best->bytes = (bytes + STAGE_ROUND - 1) / STAGE_ROUND * STAGE_ROUND;
        if (b->alloc(b, HSP_MEM_DEVICE, best->bytes, &best->data, err) != HSP_OK) {
            free(best);
            return hsp_err_wrap(err, "a message of %zu bytes", bytes);
        }
        best->next = c->stages;
        c->stages = best;
    }
    best->taken = true;
    *ret = best;
    return HSP_OK;
}
