/* Tests hashes and sums of state on a backend, against their definitions. */
#ifndef HSP_HASH_SUITE_H
#define HSP_HASH_SUITE_H
#include "worker/backend/backend.h"

/* Tests hashes, on both queues: first of random parts of tensors of up to four dims, also empty
 * parts, of both types, several at once; then of long rows and columns of a large matrix; then the
 * refusal of a type that has no hash. */
void hash_suite(struct hsp_backend *b);
/* Tests updates of both optimizers and both types that sum the words that they read and write, each
 * update alone and several at once. The results have the bits of updates without sums, and the sums
 * differ after damage between two updates. */
void sums_suite(struct hsp_backend *b);

#endif
