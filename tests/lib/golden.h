/* Compares the output of a test with a table that is checked in, in tests/golden.
 *
 * HSPMD_GOLDEN=write writes them anew instead; the difference is then read and committed by a
 * person. */
#ifndef HSP_GOLDEN_H
#define HSP_GOLDEN_H
#include "proto/base/buf.h"

/* @name: below tests/golden. Fails the running test and shows the first lines that differ. */
void hsp_golden_check(const char *name, struct hsp_buf *text);

#endif
