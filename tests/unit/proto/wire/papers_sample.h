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

#endif
