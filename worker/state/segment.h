/* Keeps the training state of one device and version slot in a file on tmpfs, a state segment.
 *
 * Role:       the executor computes in segments (mmap shared). Segments outlive executor and agent,
 *             which offer them again after a restart. A copy for another device names its owner.
 * Purity:     shell (files under the state directory).
 * Threads:    one writer; a sealed segment may be read by anyone. No lock is shared between
 *             processes.
 * Ownership:  hsp_segment_close unmaps; the file stays until hsp_segment_remove or _sweep.
 * Bounds:     HSP_SEGMENT_MAX_ROWS; file sizes are checked against the table before any use.
 * Invariants: (I1) rows lie inside the area, 64-aligned, without overlap; boxes lie inside the
 *                  tensors.
 *             (I2) sealed => every row's bytes have the row's hash and belong to one version.
 *             (I3) an unsealed segment has no version: it is never a source.
 * Format:     fixed head, seal record, table of rows, hashes of the rows, area; host byte order
 *             (tmpfs does not leave the machine). The head and the table are covered by a hash, the
 *             seal by a check word.
 */
#ifndef HSP_SEGMENT_H
#define HSP_SEGMENT_H
#include "proto/base/hash.h"
#include "proto/layout/cover.h"
#include "proto/wire/identity.h"
#include "worker/state/segment_free.h"
#include "worker/state/segment_key.h"
#include "worker/state/segment_spare.h"

#define HSP_SEGMENT_MAX_ROWS 262144 /* 4 kinds of 65536 tensors */
#define HSP_NO_VERSION       UINT64_MAX

struct hsp_segment_row {
    uint32_t tensor; /* number of the parameter in the single-device graph */
    uint8_t kind;    /* enum hsp_state_kind */
    enum hsp_dtype dtype;
    int64_t full[HSP_MAX_RANK]; /* extents of the whole tensor */
    struct hsp_box box;
    int64_t offset; /* bytes in the area, 64-aligned */
};

struct hsp_state_segment; /* opaque */

/* Makes the file with all its space, unsealed, contents zero; nobody sees it half made.
 * @stop is asked before each HSP_ROOM_PIECE bytes (segment_room.h); NULL: nobody is. HSP_ECANCELED:
 * @stop has said so, and all room is given back. HSP_EEXIST: there is a segment of this key.
 * HSP_ENOSPC: the message says how many bytes did not fit. HSP_ELIMIT: the file would be longer
 * than a file may be. HSP_EINVAL: a row breaks I1, or no file can have the name. HSP_EIO,
 * HSP_EPERM, HSP_ENOMEM. */
enum hsp_status hsp_segment_create(const char *dir, const struct hsp_segment_key *key,
                                   const struct hsp_whose *whose,
                                   const struct hsp_segment_row *rows, uint32_t n,
                                   int64_t area_bytes, const struct hsp_segment_stop *stop,
                                   struct hsp_state_segment **ret, struct hsp_err *err);

enum hsp_status hsp_segment_open_path(const char *path, bool writable,
                                      struct hsp_state_segment **ret, struct hsp_err *err);

/* Maps a segment after checking all but the contents, which hsp_segment_verify checks. HSP_ENOENT;
 * HSP_EVERSION: format of another program version; HSP_EDIGEST: damaged; HSP_EINVAL: a copy of
 * another segment has this name. After HSP_EIO, HSP_EPERM and HSP_ENOMEM (want of memory or of
 * descriptors) nothing is known of the segment. */
enum hsp_status hsp_segment_open(const char *dir, const struct hsp_segment_key *key, bool writable,
                                 struct hsp_state_segment **ret, struct hsp_err *err);
/* Maps all pages of a writable segment now, as create does. HSP_ECANCELED: @stop has said
 * so. */
enum hsp_status hsp_segment_populate(struct hsp_state_segment *s,
                                     const struct hsp_segment_stop *stop, struct hsp_err *err);
/* Checks an open segment again, as far as hsp_segment_open does. HSP_EDIGEST, HSP_ENOMEM. */
enum hsp_status hsp_segment_check(struct hsp_state_segment *s, struct hsp_err *err);

/* ---- spares (segment_spare.h) ---- */

/* Returns true if the file of @s still has its name in @dir. */
bool hsp_segment_is_named(const char *dir, const struct hsp_state_segment *s);
/* Unseals @s and makes its file a spare. Only hsp_segment_reuse and hsp_segment_close may touch @s
 * from here on. Returns false if another file has its name, or no file has; then only close may. */
bool hsp_segment_make_spare(const char *dir, struct hsp_state_segment *s,
                            char ret_path[HSP_SEGMENT_PATH]);
/* As hsp_segment_create, out of @s, whose file is the spare @spare and has hsp_segment_file_bytes
 * or more: no page is new, and the area has its old contents. HSP_ENOENT: the file was cut, or its
 * table is longer than the new file; @s is left to hsp_segment_close. The same after any other
 * error. */
enum hsp_status hsp_segment_reuse(const char *dir, const char *spare,
                                  const struct hsp_segment_key *key, const struct hsp_whose *whose,
                                  const struct hsp_segment_row *rows, uint32_t n,
                                  int64_t area_bytes, struct hsp_state_segment *s,
                                  struct hsp_err *err);
uint64_t hsp_segment_file_bytes(uint32_t n, int64_t area_bytes); /* UINT64_MAX: too many */
size_t hsp_segment_bytes(const struct hsp_state_segment *s);     /* of its file */

struct hsp_state_segment *hsp_segment_close(
    struct hsp_state_segment *s); /* NULL allowed; returns NULL */
/* As hsp_segment_close, for a segment in @dir that is given up: a thread of its own unmaps 64 MiB
 * and more, which takes seconds where tens of GiB are mapped. A process that lacks room in @dir
 * waits for it. */
struct hsp_state_segment *hsp_segment_close_behind(const char *dir, struct hsp_state_segment *s);
/* The mapping, of its file from the first byte: to be pinned. */
void *hsp_segment_map(const struct hsp_state_segment *s);

const struct hsp_segment_key *hsp_segment_key_of(const struct hsp_state_segment *s);
/* No cluster: written by a program that knew of none. */
struct hsp_whose hsp_segment_whose(const struct hsp_state_segment *s);
uint32_t hsp_segment_n(const struct hsp_state_segment *s);
const struct hsp_segment_row *hsp_segment_row_at(const struct hsp_state_segment *s, uint32_t i);
/* Hash of a row's box at the sealed version; meaningless while unsealed. */
uint64_t hsp_segment_row_hash(const struct hsp_state_segment *s, uint32_t i);
/* Returns true if the data of the row still has the hash of the row. */
bool hsp_segment_row_fits(const struct hsp_state_segment *s, uint32_t i);
void *hsp_segment_area(const struct hsp_state_segment *s); /* writable only when opened so */
int64_t hsp_segment_area_bytes(const struct hsp_state_segment *s);
/* The row of (tensor, kind) that has all of @box, or UINT32_MAX: there may be several rows. */
uint32_t hsp_segment_find(const struct hsp_state_segment *s, uint32_t tensor, uint8_t kind,
                          const struct hsp_box *box);

/* The sealed version, or HSP_NO_VERSION. */
uint64_t hsp_segment_version(const struct hsp_state_segment *s);
/* Sum of the hashes of all rows at the sealed version. */
uint64_t hsp_segment_content(const struct hsp_state_segment *s);

/* To be called before the first write to the area: from here on the segment is no source. */
void hsp_segment_unseal(struct hsp_state_segment *s);
/* Hashes every row after all writes, then seals as @version (not HSP_NO_VERSION). A reader that
 * sees the seal sees the contents. */
void hsp_segment_seal(struct hsp_state_segment *s, uint64_t version);
/* Seals with the hashes @hash [hsp_segment_n] of all rows, which the caller has checked. */
void hsp_segment_seal_known(struct hsp_state_segment *s, uint64_t version, const uint64_t *hash);
/* Compares contents with the hashes of a sealed segment. HSP_ESTATE: unsealed; HSP_EDIGEST: the
 * seal is damaged, or the tensor and kind that the message names. */
enum hsp_status hsp_segment_verify(const struct hsp_state_segment *s, struct hsp_err *err);

#endif
