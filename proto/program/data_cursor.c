#include "proto/program/data_cursor.h"

#include <inttypes.h> /* PRIu64 */

#include "proto/base/size.h"
#include "proto/program/corpus.h"

static const char *const formats[] = {"text", "llm.c", "nanogpt", "megatron"};
static const char *const packings[] = {"none", "start", "end", "index"};
static const char *const units[] = {"windows", "documents"};

const char *hsp_data_format_name(unsigned format)
{
    return format < HSP_ARRAY_LEN(formats) ? formats[format] : NULL;
}

const char *hsp_packing_name(unsigned packing)
{
    return packing < HSP_ARRAY_LEN(packings) ? packings[packing] : NULL;
}

const char *hsp_samples_name(unsigned samples)
{
    return samples < HSP_ARRAY_LEN(units) ? units[samples] : NULL;
}

void hsp_data_cursor_init(const struct hsp_data_bind *d, const struct hsp_corpus *c,
                          struct hsp_digest digest, uint64_t bytes, uint64_t step,
                          struct hsp_data_cursor *ret)
{
    bool documents = d->samples == HSP_SAMPLES_DOCUMENTS;
    *ret = (struct hsp_data_cursor){.digest = digest,
                                    .bytes = bytes,
                                    .n_tokens = c->n_tokens,
                                    .seed = d->seed,
                                    .pass_samples = c->n_train,
                                    .pass_tokens = documents ? hsp_corpus_tokens(c) : 0,
                                    .samples = step * d->global_batch,
                                    .sequence = documents ? d->longest : d->sequence,
                                    .separator = d->separator,
                                    .format = d->format,
                                    .packing = d->packing,
                                    .unit = d->samples};
}

uint64_t hsp_data_cursor_pass(const struct hsp_data_cursor *c)
{
    return c->samples / c->pass_samples;
}

uint64_t hsp_data_cursor_sample(const struct hsp_data_cursor *c)
{
    return c->samples % c->pass_samples;
}

uint64_t hsp_data_cursor_tokens(const struct hsp_data_cursor *c)
{
    if (c->unit == HSP_SAMPLES_WINDOWS) {
        return c->samples * c->sequence;
    }
    double mean = (double)c->pass_tokens / (double)c->pass_samples;
    return hsp_data_cursor_pass(c) * c->pass_tokens +
           (uint64_t)(mean * (double)hsp_data_cursor_sample(c));
}

uint64_t hsp_data_cursor_mark(const struct hsp_data_cursor *c)
{
    const uint64_t all[] = {c->digest.hi,    c->digest.lo, c->bytes,      c->n_tokens,  c->seed,
                            c->pass_samples, c->samples,   c->sequence,   c->separator, c->format,
                            c->packing,      c->unit,      c->pass_tokens};
    uint64_t h = 0;
    for (size_t i = 0; i < HSP_ARRAY_LEN(all); i++) {
        h = hsp_mix64(h ^ hsp_mix64(all[i] + i));
    }
    return h;
}

/* The same files, read otherwise. */
static enum hsp_status other_order(const struct hsp_data_cursor *was,
                                   const struct hsp_data_cursor *now, struct hsp_err *err)
{
    const struct {
        const char *what;
        uint64_t was, now;
    } all[] = {{"tokens in the files", was->n_tokens, now->n_tokens},
               {"train.seed", was->seed, now->seed},
               {"kind of data.samples", was->unit, now->unit},
               {"model.sequence", was->sequence, now->sequence},
               {"kind of data.format", was->format, now->format},
               {"kind of data.packing", was->packing, now->packing},
               {"separator of documents", was->separator, now->separator},
               {"samples of a pass", was->pass_samples, now->pass_samples},
               {"samples used up", was->samples, now->samples}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(all); i++) {
        if (all[i].was != all[i].now) {
            return hsp_err_set(err, HSP_ESTATE, 0,
                               "other order of samples: %s: %" PRIu64 " there, %" PRIu64
                               " in this job; resume the job it is of, or submit this one again",
                               all[i].what, all[i].was, all[i].now);
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_data_cursor_match(const struct hsp_data_cursor *was,
                                      const struct hsp_data_cursor *now, struct hsp_err *err)
{
    char there[HSP_DIGEST_HEX], here[HSP_DIGEST_HEX];
    if (was->bytes == now->bytes && hsp_digest_equal(was->digest, now->digest)) {
        return other_order(was, now, err);
    }
    hsp_digest_hex(was->digest, there);
    hsp_digest_hex(now->digest, here);
    return hsp_err_set(err, HSP_ESTATE, 0,
                       "trained on other data: %" PRIu64 " bytes, digest %.12s..; data.path has "
                       "%" PRIu64 " bytes, digest %.12s..; bring the old files back, or submit "
                       "the job again",
                       was->bytes, there, now->bytes, here);
}
