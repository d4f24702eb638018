#include "worker/executor/epoch_sources.h"

#include <stdlib.h>

#include "worker/executor/epoch_damage.h"
#include "worker/state/segment_dir.h"
#include "worker/state/segment_name.h"

static void close_all(struct hsp_epoch_sources *s)
{
    for (size_t i = 0; i < s->shards.n; i++) {
        (void)hsp_segment_close(s->seg[i]);
    }
    s->shards.n = 0;
}

void hsp_epoch_sources_free(void *sources)
{
    close_all(sources);
    free(sources);
}

/* Opens the file @i of the folder if it is a sealed segment of layout @plan at the wanted version.
 * Deletes the file if its head is damaged. */
static enum hsp_status take(struct hsp_ex_epoch *e, const struct hsp_segment_info *i, uint64_t plan,
                            struct hsp_epoch_sources *s, struct hsp_err *err)
{
    struct hsp_segname name;
    if (!hsp_segname_parse(&i->key, &name) || name.job != e->p->job ||
        name.device != e->env->device || name.plan != plan) {
        return HSP_OK;
    }
    if (i->status == HSP_EDIGEST) {
        hsp_epoch_tell_damaged(e, &name, HSP_NO_VERSION, false, "the head");
        return hsp_segment_remove(e->env->state_dir, &i->key, err);
    }
    if (i->status != HSP_OK || i->version != s->shards.version ||
        s->shards.n == HSP_EPOCH_SOURCES) {
        return HSP_OK;
    }
    enum hsp_status st =
        hsp_segment_open(e->env->state_dir, &i->key, false, &s->seg[s->shards.n], err);
    s->shards.n += st == HSP_OK;
    return st;
}

enum hsp_status hsp_epoch_sources_open(struct hsp_ex_epoch *e, uint64_t plan, uint64_t version,
                                       struct hsp_epoch_sources *s, struct hsp_err *err)
{
    struct hsp_segment_info *info = NULL;
    size_t n = 0;
    s->shards = (struct hsp_shards){.seg = (const struct hsp_state_segment *const *)s->seg,
                                    .version = version};
    enum hsp_status st = hsp_segment_scan(e->env->state_dir, &info, &n, err);
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        st = take(e, &info[i], plan, s, err);
    }
    free(info);
    if (st != HSP_OK) {
        close_all(s);
    }
    return st;
}
