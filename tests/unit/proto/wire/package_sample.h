/* Makes a package of an epoch with something of everything but a gather table; all it points to
 * lives for ever. */
#ifndef HSP_PACKAGE_SAMPLE_H
#define HSP_PACKAGE_SAMPLE_H
#include "proto/wire/msg_blob.h"

struct hsp_package pkg_sample(void);

/* With its binding. HSP_ELIMIT: over a limit or the buffer's maximum; HSP_ENOMEM. */
enum hsp_status pkg_encode(const struct hsp_package *p, struct hsp_buf *out, struct hsp_err *err);

#endif
