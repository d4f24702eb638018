#include "worker/exec/dry_transport.h"

static enum hsp_status all_reduce(struct hsp_comm *c, const struct hsp_group *g, uint32_t channel,
                                  enum hsp_dtype t, enum hsp_reduce how, void *buf, size_t count,
                                  struct hsp_err *err)
{
    (void)c, (void)g, (void)channel, (void)t, (void)how, (void)buf, (void)count, (void)err;
    return HSP_OK;
}

static enum hsp_status reduce_scatter(struct hsp_comm *c, const struct hsp_group *g,
                                      uint32_t channel, enum hsp_dtype t, enum hsp_reduce how,
                                      const void *in, const size_t *count, void *out,
                                      struct hsp_err *err)
{
    (void)c, (void)g, (void)channel, (void)t, (void)how, (void)in, (void)count, (void)out;
    (void)err;
    return HSP_OK;
}

static enum hsp_status all_gather(struct hsp_comm *c, const struct hsp_group *g, uint32_t channel,
                                  enum hsp_dtype t, const void *in, const size_t *count, void *out,
                                  struct hsp_err *err)
{
    (void)c, (void)g, (void)channel, (void)t, (void)in, (void)count, (void)out, (void)err;
    return HSP_OK;
}

static enum hsp_status dry_send(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                                const void *buf, size_t bytes, struct hsp_err *err)
{
    (void)c, (void)peer, (void)channel, (void)buf, (void)bytes, (void)err;
    return HSP_OK;
}

static enum hsp_status dry_irecv(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                                 struct hsp_runs data, struct hsp_comm_req *req,
                                 struct hsp_err *err)
{
    (void)c, (void)peer, (void)channel, (void)data, (void)req, (void)err;
    return HSP_OK;
}

static enum hsp_status dry_wait(struct hsp_comm *c, struct hsp_comm_req *req, struct hsp_err *err)
{
    (void)c, (void)req, (void)err;
    return HSP_OK;
}

static const struct hsp_collect_ops collect = {
    .all_reduce = all_reduce, .reduce_scatter = reduce_scatter, .all_gather = all_gather};
const struct hsp_comm_ops hsp_dry_ops = {
    .name = "dry", .collect = &collect, .send = dry_send, .irecv = dry_irecv, .wait = dry_wait};
