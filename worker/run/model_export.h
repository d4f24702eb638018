/* Puts whole tensors together from the parts of all ranks, and writes the model's files.
 *
 * Ownership: a set owns its arrays.
 * Threads:   adding is locked by the caller.
 */
#ifndef HSP_MODEL_EXPORT_H
#define HSP_MODEL_EXPORT_H
#include "worker/exec/state_init.h"

/* One array per parameter of the model, in the order of the single-device graph. */
struct hsp_whole {
    char *name;
    struct hsp_cell_view v; /* box: the whole tensor; data owned */
};
struct hsp_whole_set {
    uint32_t n;
    struct hsp_whole *t; /* by tensor_id; name NULL: no such parameter */
};

/* Zeroed arrays for every parameter that any of the programs holds. */
enum hsp_status hsp_whole_init(const struct hsp_program *p, uint32_t n, struct hsp_whole_set *ret,
                               struct hsp_err *err);
void hsp_whole_fini(struct hsp_whole_set *s);

/* Copies a rank's part: the parameters in @state. */
void hsp_whole_add_state(struct hsp_whole_set *s, const struct hsp_program *p, void *state);
/* Copies one part; any part of another tensor is ignored. */
void hsp_whole_add(struct hsp_whole_set *s, uint32_t tensor_id, const struct hsp_cell_view *part);
void hsp_whole_scale(struct hsp_whole_set *s, double scale);

/* Writes all of them as one safetensors file. */
enum hsp_status hsp_whole_write(const struct hsp_whole_set *s, const char *path,
                                struct hsp_err *err);
/* mkdir -p */
enum hsp_status hsp_make_folders(const char *path, struct hsp_err *err);

#endif
