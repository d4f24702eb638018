/* Checks programs before they run, so that a program from the network cannot make the interpreter
 * or a kernel leave its memory.
 *
 * Purity: pure. */
#ifndef HSP_PROGRAM_CHECK_H
#define HSP_PROGRAM_CHECK_H
#include "proto/program/program.h"

/* The checks that need only the template. */
enum hsp_status hsp_template_check(const struct hsp_template *t, struct hsp_err *err);
/* The checks of a binding against its template. */
enum hsp_status hsp_binding_check(const struct hsp_template *t, const struct hsp_binding *b,
                                  struct hsp_err *err);
/* Whether the program computes in bf16. */
bool hsp_program_low(const struct hsp_program *p);
/* The most bytes that the bf16 operands of one op take in fp32. A backend without kernels for bf16
 * needs them beside the program's memory. */
int64_t hsp_program_wide(const struct hsp_program *p);
/* All invariants of a program: indices, and offsets inside memory. That no two live tensors of one
 * schedule overlap is the compiler's own test. */
enum hsp_status hsp_program_check(const struct hsp_program *p, struct hsp_err *err);

#endif
