/* Records of TensorBoard's event files: TFRecord framing around the protobuf message Event.
 *
 * Role:   tensorboard_file.c writes them.
 * Purity: pure.
 * Format: u64 length, u32 masked CRC-32C of it, the bytes, u32 masked CRC-32C of them; all little
 *         endian (tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto).
 */
#ifndef HSP_TENSORBOARD_EVENT_H
#define HSP_TENSORBOARD_EVENT_H
#include "proto/base/buf.h"
#include "proto/wire/msg.h"

/* Castagnoli's CRC, as in iSCSI: of "123456789" it is 0xe3069283. */
uint32_t hsp_crc32c(const void *data, size_t len);

/* The first record of a file. */
void hsp_tb_put_version(struct hsp_buf *out, double unix_s);
/* The scalars of a step: train/loss, train/grad_norm, train/lr, train/step_seconds,
 * train/tokens_per_second, plan/epoch, and val/loss when it validated. */
void hsp_tb_put_step(struct hsp_buf *out, double unix_s, const struct hsp_m_step *s,
                     uint64_t epoch);

#endif
