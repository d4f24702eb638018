#include "worker/data/synthetic.h"

#include <inttypes.h> /* PRIu64 */
#include <stdlib.h>
#include <string.h>

#include "proto/base/le.h"
#include "proto/base/rng.h"
#include "worker/data/dataset.h"

enum { TOKEN = 4, DOCUMENT = 13, MEGATRON_I32 = 4 }; /* bytes; tokens; type code */

/* Letters, each of which narrows the next; where separators make documents, one token in 16. */
static void fill(const struct hsp_data_bind *d, uint64_t n, uint8_t *p)
{
    bool separated = d->packing == HSP_PACKING_START || d->packing == HSP_PACKING_END;
    uint64_t letters = d->vocab < 256 ? d->vocab : 256, c = 0;
    uint64_t text = hsp_hash_str("text"), ends = hsp_hash_str("documents");
    for (uint64_t i = 0; i < n; i++) {
        c = (5 * c + 3 + hsp_rng_below(4, d->seed, text, i, 0)) % letters;
        bool end = separated && hsp_rng_below(16, d->seed, ends, i, 0) == 0;
        hsp_le_put(p + TOKEN * i, end ? d->separator : c, TOKEN);
    }
}

/* A Megatron index of documents of 13 tokens, each one sequence; the last may be shorter. */
static uint8_t *make_index(uint64_t n, size_t *ret_len)
{
    uint64_t docs = (n + DOCUMENT - 1) / DOCUMENT;
    *ret_len = (size_t)(34 + 12 * docs + 8 * (docs + 1));
    uint8_t *x = calloc(1, *ret_len);
    if (x == NULL) {
        return NULL;
    }
    uint8_t *pointers = x + 34 + 4 * docs, *documents = pointers + 8 * docs;
    memcpy(x, "MMIDIDX", 7);
    hsp_le_put(x + 9, 1, 8);
    x[17] = MEGATRON_I32;
    hsp_le_put(x + 18, docs, 8);
    hsp_le_put(x + 26, docs + 1, 8);
    for (uint64_t i = 0; i <= docs; i++) {
        hsp_le_put(documents + 8 * i, i, 8);
        if (i < docs) {
            hsp_le_put(x + 34 + 4 * i, i + 1 < docs ? DOCUMENT : n - DOCUMENT * i, 4);
            hsp_le_put(pointers + 8 * i, TOKEN * DOCUMENT * i, 8);
        }
    }
    return x;
}

enum hsp_status hsp_dataset_synthetic(const struct hsp_data_bind *d, uint64_t n_tokens,
                                      struct hsp_dataset *ret, struct hsp_err *err)
{
    if (n_tokens == 0 || n_tokens > HSP_MAX_DATA_BYTES / 64 || d->vocab == 0) {
        return hsp_err_set(err, HSP_EINVAL, 0, "made-up data of %" PRIu64 " tokens", n_tokens);
    }
    bool indexed = d->packing == HSP_PACKING_INDEX;
    size_t bytes = TOKEN * (size_t)n_tokens, idx_bytes = 0;
    uint8_t *p = malloc(bytes), *idx = indexed ? make_index(n_tokens, &idx_bytes) : NULL;
    struct hsp_data_file *f = calloc(1, sizeof(*f));
    char *name = strdup("made-up data");
    if (p == NULL || f == NULL || name == NULL || (indexed && idx == NULL)) {
        free(p);
        free(idx);
        free(f);
        free(name);
        return hsp_err_nomem(err, "%" PRIu64 " tokens", n_tokens);
    }
    fill(d, n_tokens, p);
    *f = (struct hsp_data_file){.name = name,
                                .all = {.data = p, .n = bytes},
                                .idx = {.data = idx, .n = idx_bytes},
                                .tokens = {.type = HSP_TOKEN_I32, .n = n_tokens}};
    *ret = (struct hsp_dataset){
        .file = f, .n_files = 1, .n_tokens = n_tokens, .n_bytes = bytes + idx_bytes};
    return indexed ? hsp_megatron_parse(idx, idx_bytes, bytes, &f->index, err) : HSP_OK;
}
