#include "proto/wire/msg_frame.h"

struct hsp_frame_header hsp_msg_head(const struct hsp_msg *m, size_t body_len)
{
    return (struct hsp_frame_header){.version = hsp_protocol.newest,
                                     .oldest = hsp_protocol.oldest,
                                     .type = m->type,
                                     .request = m->request,
                                     .epoch = m->epoch,
                                     .body_len = (uint32_t)body_len,
                                     .blob_len = m->blob_len};
}

enum hsp_status hsp_msg_read(const struct hsp_frame *f, struct hsp_arena *arena,
                             struct hsp_msg *ret, struct hsp_err *err)
{
    const struct hsp_msg head = {.type = f->head.type,
                                 .version = f->head.version,
                                 .request = f->head.request,
                                 .epoch = f->head.epoch,
                                 .blob = f->blob,
                                 .blob_len = f->head.blob_len};
    return hsp_msg_decode(&head, f->body, f->head.body_len, arena, ret, err);
}
