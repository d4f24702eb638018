/* Encodes TensorBoard records: protobuf fields framed by their length and two masked CRCs. */
#include "daemon/app/store/tensorboard_event.h"

#include <math.h>
#include <string.h>

#define EVENT_MAX 4096u

/* protobuf: field number * 8 + wire type (0 varint, 1 eight bytes, 2 length, 5 four bytes) */
enum {
    EVENT_WALL_TIME = 1 * 8 + 1,
    EVENT_STEP = 2 * 8,
    EVENT_FILE_VERSION = 3 * 8 + 2,
    EVENT_SUMMARY = 5 * 8 + 2,
    SUMMARY_VALUE = 1 * 8 + 2,
    VALUE_TAG = 1 * 8 + 2,
    VALUE_SIMPLE = 2 * 8 + 5
};

uint32_t hsp_crc32c(const void *data, size_t len)
{
    const uint8_t *p = data;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < len; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) { /* a record has 300 bytes: no table is needed */
            crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

static uint32_t masked(const void *data, size_t len)
{
    uint32_t crc = hsp_crc32c(data, len);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static void varint(struct hsp_buf *b, uint64_t v)
{
    while (v >= 0x80) {
        hsp_buf_u8(b, (uint8_t)(v | 0x80));
        v >>= 7;
    }
    hsp_buf_u8(b, (uint8_t)v);
}

static void bytes(struct hsp_buf *b, uint8_t key, const void *p, size_t n)
{
    hsp_buf_u8(b, key);
    varint(b, n);
    hsp_buf_append(b, p, n);
}

static void record(struct hsp_buf *out, struct hsp_buf *event)
{
    struct hsp_buf head;
    hsp_buf_init(&head, 64);
    hsp_buf_u64(&head, event->len);
    if (event->failed || head.failed) {
        out->failed = true;
    } else {
        hsp_buf_append(out, head.data, head.len);
        hsp_buf_u32(out, masked(head.data, head.len));
        hsp_buf_append(out, event->data, event->len);
        hsp_buf_u32(out, masked(event->data, event->len));
    }
    hsp_buf_fini(&head);
}

void hsp_tb_put_version(struct hsp_buf *out, double unix_s)
{
    static const char version[] = "brain.Event:2";
    struct hsp_buf event;
    hsp_buf_init(&event, EVENT_MAX);
    hsp_buf_u8(&event, EVENT_WALL_TIME);
    hsp_buf_f64(&event, unix_s);
    bytes(&event, EVENT_FILE_VERSION, version, sizeof version - 1);
    record(out, &event);
    hsp_buf_fini(&event);
}

static void scalar(struct hsp_buf *summary, const char *tag, double v)
{
    struct hsp_buf b;
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    hsp_buf_init(&b, 256);
    bytes(&b, VALUE_TAG, tag, strlen(tag));
    hsp_buf_u8(&b, VALUE_SIMPLE);
    hsp_buf_u32(&b, bits);
    if (b.failed) {
        summary->failed = true;
    } else {
        bytes(summary, SUMMARY_VALUE, b.data, b.len);
    }
    hsp_buf_fini(&b);
}

void hsp_tb_put_step(struct hsp_buf *out, double unix_s, const struct hsp_m_step *s, uint64_t epoch)
{
    struct hsp_buf event, summary;
    hsp_buf_init(&event, EVENT_MAX);
    hsp_buf_init(&summary, EVENT_MAX);
    scalar(&summary, "train/loss", s->loss);
    scalar(&summary, "train/grad_norm", s->grad_norm);
    scalar(&summary, "train/lr", s->lr);
    if (s->seconds > 0) { /* earlier executors do not know that of the first step of an epoch */
        scalar(&summary, "train/step_seconds", s->seconds);
        scalar(&summary, "train/tokens_per_second", (double)s->tokens / s->seconds);
    }
    scalar(&summary, "plan/epoch", (double)epoch);
    if (!isnan(s->val_loss)) {
        scalar(&summary, "val/loss", s->val_loss);
    }
    hsp_buf_u8(&event, EVENT_WALL_TIME);
    hsp_buf_f64(&event, unix_s);
    hsp_buf_u8(&event, EVENT_STEP);
    varint(&event, s->step);
    if (summary.failed) {
        event.failed = true;
    } else {
        bytes(&event, EVENT_SUMMARY, summary.data, summary.len);
    }
    record(out, &event);
    hsp_buf_fini(&summary);
    hsp_buf_fini(&event);
}
