/* Walks each field in both directions from one description: encoder and decoder cannot disagree.
 *
 * Role:       internal to proto/program.
 * Purity:     pure.
 * Threads:    confined.
 * Invariants: (I1) exactly one of out and in is set.
 *             (I2) once failed, every decoded value is 0.
 */
#ifndef HSP_PROGRAM_IO_H
#define HSP_PROGRAM_IO_H
#include "proto/program/program.h"

struct hsp_pio {
    struct hsp_buf *out;     /* encoding */
    struct hsp_cursor *in;   /* decoding */
    struct hsp_arena *arena; /* of decoded arrays */
    const char *what;        /* first field that failed, NULL while all is well */
    bool nomem;              /* ... for want of memory */
};

/* The functions on single fields are in the header to be inlined: a program has millions of
 * fields. */
static inline bool hsp_pio_ok(const struct hsp_pio *io)
{
    return !io->what && (io->in ? !io->in->failed : !io->out->failed);
}

static inline void hsp_pio_u8(struct hsp_pio *io, uint8_t *v)
{
    if (io->out) {
        hsp_buf_u8(io->out, *v);
    } else {
        *v = hsp_cur_u8(io->in);
    }
}

static inline void hsp_pio_u32(struct hsp_pio *io, uint32_t *v)
{
    if (io->out) {
        hsp_buf_u32(io->out, *v);
    } else {
        *v = hsp_cur_u32(io->in);
    }
}

static inline void hsp_pio_u64(struct hsp_pio *io, uint64_t *v)
{
    if (io->out) {
        hsp_buf_u64(io->out, *v);
    } else {
        *v = hsp_cur_u64(io->in);
    }
}

static inline void hsp_pio_i64(struct hsp_pio *io, int64_t *v)
{
    if (io->out) {
        hsp_buf_i64(io->out, *v);
    } else {
        *v = hsp_cur_i64(io->in);
    }
}

/* Walks @n u32 at once, which is quicker: most of a package are ranks of moves. */
void hsp_pio_u32s(struct hsp_pio *io, uint32_t *v, size_t n);
void hsp_pio_bool(struct hsp_pio *io, bool *v);
void hsp_pio_f64(struct hsp_pio *io, double *v);
void hsp_pio_digest(struct hsp_pio *io, struct hsp_digest *d);
void hsp_pio_box(struct hsp_pio *io, struct hsp_box *b);
void hsp_pio_str(struct hsp_pio *io, const char **s, size_t max, const char *what);

/* Walks the count of an array and, when decoding, allocates the array: *n elements of @elem bytes,
 * at most @max, each of which takes at least @min_bytes of the input. Returns the array (when
 * encoding, @array). Returns NULL on failure or when *n is 0. */
void *hsp_pio_array(struct hsp_pio *io, uint32_t *n, void *array, size_t elem, uint32_t max,
                    size_t min_bytes, const char *what);

/* Records a failure at the field @what, if none was recorded before. */
void hsp_pio_fail(struct hsp_pio *io, const char *what);

/* Walks the magic, and a version that the caller judges. */
void hsp_pio_magic(struct hsp_pio *io, uint32_t magic, uint32_t *version, const char *what);
/* Walks the magic and the only version that there is. */
void hsp_pio_header(struct hsp_pio *io, uint32_t magic, uint32_t version, const char *what);

/* Returns the status of a finished walk. When decoding, all bytes must have been read. */
enum hsp_status hsp_pio_end(struct hsp_pio *io, const char *what, struct hsp_err *err);

#endif
