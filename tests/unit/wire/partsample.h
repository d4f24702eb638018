/* A part of a trace that has some of everything; lives for ever. */
#ifndef HSP_PARTSAMPLE_H
#define HSP_PARTSAMPLE_H
#include "proto/wire/trace_part.h"

struct hsp_trace_part part_sample(void);

#endif
