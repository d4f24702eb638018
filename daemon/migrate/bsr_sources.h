/* @@SENTENCE@@ bsr_sources: purpose to be written. */
#ifndef HSP_BSR_SOURCES_H
#define HSP_BSR_SOURCES_H
#include "daemon/migrate/bsr_impl.h"

/* From which island each chunk enters the islands that lack it. */
enum hsp_status hsp_bsr_legs(struct hsp_bsr_work *w, struct hsp_err *err);

#endif
