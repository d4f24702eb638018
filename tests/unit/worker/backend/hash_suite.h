/* Tests hashes and sums of state on a backend, against their definitions. */
#ifndef HSP_HASH_SUITE_H
#define HSP_HASH_SUITE_H
#include "worker/backend/backend.h"

/* Random parts of tensors of up to four dims, empty ones too, of both types, several at once; then
 * long rows and columns of a large matrix; then a type that has no hash. On both queues. */
void hash_suite(struct hsp_backend *b);
/* Updates of both optimizers and types that sum what they read and write, each alone and several at
 * once: the bits are those of updates without sums, and damage between two updates is seen. */
void sums_suite(struct hsp_backend *b);

#endif
