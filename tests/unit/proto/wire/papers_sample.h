/* Papers of job mist, for tests. */
#ifndef HSP_PAPERS_SAMPLE_H
#define HSP_PAPERS_SAMPLE_H
#include "proto/wire/papers.h"

/* All that it points to is static. */
static inline struct hsp_papers papers_sample(void)
{
    static const struct hsp_papers_row row[] = {
        {"node/0", "a", 1}, {"job/7", "\0\1x", 3}, {"plan/7/3", "", 0}};
    return (struct hsp_papers){.job = 7,
                               .name = "mist",
                               .whose = {{11, 22}, UINT64_C(0x100000021)},
                               .epoch = 9,
                               .n = 3,
                               .row = row};
}

/* Appends @p to @out, which is empty, in the form that programs wrote before lz.h. */
static inline void papers_plain(const struct hsp_papers *p, struct hsp_buf *out)
{
    struct hsp_buf rest;
    hsp_buf_init(&rest, out->max);
    hsp_buf_u32(&rest, p->job);
    hsp_buf_str(&rest, p->name);
    hsp_buf_u64(&rest, p->whose.cluster.hi);
    hsp_buf_u64(&rest, p->whose.cluster.lo);
    hsp_buf_u64(&rest, p->whose.generation);
    hsp_buf_u64(&rest, p->epoch);
    hsp_buf_u32(&rest, p->n);
    for (uint32_t i = 0; i < p->n; i++) {
        hsp_buf_str(&rest, p->row[i].key);
        hsp_buf_blob(&rest, p->row[i].value, p->row[i].len);
    }
    struct hsp_digest d = hsp_hash128(rest.data, rest.len);
    hsp_buf_puts(out, "HSPMDJOB");
    hsp_buf_u32(out, 1);
    hsp_buf_u64(out, rest.len);
    hsp_buf_u64(out, d.hi);
    hsp_buf_u64(out, d.lo);
    hsp_buf_append(out, rest.data, rest.len);
    hsp_buf_fini(&rest);
}

#endif
