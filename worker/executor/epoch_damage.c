#include "worker/executor/epoch_damage.h"

#include <inttypes.h>

#include "proto/base/buf.h"
#include "worker/executor/epoch_report.h"

#define PART_MAX 512 /* most bytes of the name of a part */

static const char *const kinds[HSP_N_STATE_KINDS] = {
    [HSP_STATE_PARAM] = "param",
    [HSP_STATE_M] = "m",
    [HSP_STATE_V] = "v",
    [HSP_STATE_MOMENTUM] = "momentum",
};

/* Writes "wte.weight (m) [0:8, 4:8]" and @where to @out. */
static const char *name_part(const struct hsp_ex_epoch *e, const struct hsp_segment_row *r,
                             const char *where, struct hsp_buf *out)
{
    if (r->tensor < e->pkg.n_params) {
        hsp_buf_puts(out, e->pkg.params[r->tensor].name);
    } else {
        hsp_buf_printf(out, "tensor %" PRIu32, r->tensor);
    }
    hsp_buf_printf(out, " (%s) [", r->kind < HSP_N_STATE_KINDS ? kinds[r->kind] : "?");
    for (uint8_t d = 0; d < r->box.rank; d++) {
        hsp_buf_printf(out, "%s%" PRId64 ":%" PRId64, d > 0 ? ", " : "", r->box.lo[d],
                       r->box.hi[d]);
    }
    hsp_buf_printf(out, "]%s", where);
    return out->failed ? "a part with a long name" : hsp_buf_cstr(out);
}

static void tell(struct hsp_ex_epoch *e, struct hsp_m_damaged m)
{
    struct hsp_msg msg = {.type = HSP_MSG_STATE_DAMAGED, .u.damaged = m};
    hsp_epoch_send_msg(e, &msg); /* the agent logs the damage */
}

void hsp_epoch_tell_damaged(struct hsp_ex_epoch *e, const struct hsp_segname *piece,
                            uint64_t version, bool live, const char *part)
{
    tell(e, (struct hsp_m_damaged){.job = piece->job,
                                   .device = piece->device,
                                   .plan = piece->plan,
                                   .rank = piece->rank,
                                   .owner = piece->owner,
                                   .version = version,
                                   .live = live,
                                   .part = part});
}

void hsp_epoch_tell_given_up(struct hsp_ex_epoch *e, uint64_t version, const char *why)
{
    tell(e, (struct hsp_m_damaged){.job = e->p->job,
                                   .device = e->env->device,
                                   .plan = e->p->plan,
                                   .rank = e->p->rank,
                                   .owner = e->p->rank,
                                   .version = version,
                                   .live = true,
                                   .given_up_in = e->number,
                                   .part = why});
}

static void tell_row(struct hsp_ex_epoch *e, const struct hsp_state_segment *s, uint64_t version,
                     bool live, const char *part)
{
    struct hsp_segname piece;
    if (hsp_segname_parse(hsp_segment_key_of(s), &piece)) {
        hsp_epoch_tell_damaged(e, &piece, version, live, part);
    }
}

void hsp_epoch_tell_damaged_row(struct hsp_ex_epoch *e, const struct hsp_state_segment *s,
                                uint32_t row, uint64_t version, bool live)
{
    struct hsp_buf part;
    hsp_buf_init(&part, PART_MAX);
    tell_row(e, s, version, live, name_part(e, hsp_segment_row_at(s, row), "", &part));
    hsp_buf_fini(&part);
}

/* Reports row @row of @version, laid out as in @s, as damaged; @where is added to the name of the
 * part. Returns HSP_EDIGEST. */
static enum hsp_status tell_live(struct hsp_ex_epoch *e, const struct hsp_state_segment *s,
                                 uint32_t row, uint64_t version, const char *where,
                                 struct hsp_err *err)
{
    struct hsp_buf buf;
    hsp_buf_init(&buf, PART_MAX);
    const char *part = name_part(e, hsp_segment_row_at(s, row), where, &buf);
    tell_row(e, s, version, true, part);
    (void)hsp_err_set(err, HSP_EDIGEST, 0, "version %" PRIu64 " here is damaged: %s", version,
                      part);
    hsp_buf_fini(&buf);
    return HSP_EDIGEST;
}

enum hsp_status hsp_epoch_disown(struct hsp_ex_epoch *e, struct hsp_state_segment *s, uint32_t row,
                                 struct hsp_err *err)
{
    enum hsp_status st = tell_live(e, s, row, hsp_segment_version(s), "", err);
    hsp_segment_unseal(s);
    return st;
}

static const char *memory_of(const struct hsp_ex_epoch *e)
{
    return e->env->backend->device ? " in GPU memory" : " in main memory";
}

enum hsp_status hsp_epoch_disown_unsealed(struct hsp_ex_epoch *e, const struct hsp_state_segment *s,
                                          uint32_t row, uint64_t version, bool in_use,
                                          struct hsp_err *err)
{
    return tell_live(e, s, row, version, in_use ? memory_of(e) : "", err);
}

enum hsp_status hsp_epoch_disown_read(struct hsp_ex_epoch *e, struct hsp_state_segment *s,
                                      uint32_t row, struct hsp_err *err)
{
    return hsp_segment_row_fits(s, row)
               ? tell_live(e, s, row, hsp_segment_version(s), memory_of(e), err)
               : hsp_epoch_disown(e, s, row, err);
}
