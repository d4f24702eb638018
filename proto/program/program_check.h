/* @@SENTENCE@@ program_check: purpose to be written.
 *
 * Purity:     pure.
 */
#ifndef HSP_PROGRAM_CHECK_H
#define HSP_PROGRAM_CHECK_H
#include "proto/program/program.h"

/* Checks that need only the template, and the template with one binding (program_check.c). */
enum hsp_status hsp_template_check(const struct hsp_template *t, struct hsp_err *err);
enum hsp_status hsp_binding_check(const struct hsp_template *t, const struct hsp_binding *b,
                                  struct hsp_err *err);
/* Whether it computes in bf16. */
bool hsp_program_low(const struct hsp_program *p);
/* Bytes that the bf16 operands of an op take in fp32, of the op where they take most: what a backend
 * needs beside the program's memory when it has no kernels for bf16. */
int64_t hsp_program_wide(const struct hsp_program *p);
/* All invariants of a program: indices, offsets inside memory, no two live tensors of one schedule
 * overlapping is the compiler's own test. */
enum hsp_status hsp_program_check(const struct hsp_program *p, struct hsp_err *err);

#endif
