/* Makes a part of a trace that has at least one item of each kind. The part is never freed. */
#ifndef HSP_PART_SAMPLE_H
#define HSP_PART_SAMPLE_H
#include "proto/wire/trace_part.h"

struct hsp_trace_part part_sample(void);

#endif
