/* Writes and reads the manifest, which makes the shards of one step a checkpoint and says how far
 * the job was in its data.
 *
 * Purity:  hsp_ckpt_manifest_text is pure; the rest reads files.
 * Format:  JSON. The last member is a digest of the others.
 */
#ifndef HSP_CKPT_MANIFEST_H
#define HSP_CKPT_MANIFEST_H
#include "worker/state/ckpt_files.h"

/* The text of a manifest, cJSON_free(); NULL without memory. */
char *hsp_ckpt_manifest_text(const struct hsp_ckpt_info *info, const struct hsp_ckpt_shard *s,
                             const struct hsp_data_cursor *data, const char *config);
/* Fills @err for a file of another format: names the program that can read it. Returns
 * HSP_EVERSION. */
enum hsp_status hsp_ckpt_other_format(const struct hsp_folder *step, const char *name,
                                      uint32_t format, struct hsp_err *err);
/* Reads the manifest of a step into info, data and config of @c, and *ret (cJSON_Delete).
 * HSP_EDIGEST, HSP_EVERSION, HSP_ENOMEM; errors of reading a file. */
enum hsp_status hsp_ckpt_manifest_read(const struct hsp_folder *step, struct hsp_ckpt *c,
                                       cJSON **ret, struct hsp_err *err);

#endif
