/* Checks programs before they run, so that a program from the network cannot make the interpreter
 * or a kernel leave its memory.
 *
 * Purity: pure. */
#ifndef HSP_PROGRAM_CHECK_H
#define HSP_PROGRAM_CHECK_H
#include "proto/program/program.h"

/* Makes the checks that need only the template. */
enum hsp_status hsp_template_check(const struct hsp_template *t, struct hsp_err *err);
/* Checks a binding against its template. */
enum hsp_status hsp_binding_check(const struct hsp_template *t, const struct hsp_binding *b,
                                  struct hsp_err *err);
/* Returns whether the program computes in bf16. */
bool hsp_program_low(const struct hsp_program *p);
/* Returns the most bytes that the bf16 operands of one op take in fp32. A backend without kernels
 * for bf16 needs so many bytes in addition to the program's memory. */
int64_t hsp_program_wide(const struct hsp_program *p);
/* Checks all invariants of a program: indices, and offsets inside memory. The compiler itself tests
 * that no two live tensors of one schedule overlap. */
enum hsp_status hsp_program_check(const struct hsp_program *p, struct hsp_err *err);

#endif
