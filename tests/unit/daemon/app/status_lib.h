/* An hspmdd with nodes and a job, and its status document. */
#ifndef HSP_STATUS_LIB_H
#define HSP_STATUS_LIB_H
#include <cjson/cJSON.h>

#include "daemon/app/docs/status_doc.h"
#include "daemon/app/state/app_state.h"
#include "tests/lib/testlib.h"

double status_number(const cJSON *o, const char *key);
const char *status_text(const cJSON *o, const char *key);
/* An hspmdd with the first @n of nodes a, b and c, of a device each. */
struct hsp_app *status_app(uint32_t n);
void status_app_end(struct hsp_app *a);
/* @j is its only job, and @told the steps of it. */
void status_knows(struct hsp_app *a, struct hsp_job *j, struct hsp_app_job *told);
/* The document about @of, "": about all; the caller's to delete. */
cJSON *status_of(struct hsp_app *a, const char *of);
/* The part of the only job; @ret: the whole document, the caller's to delete. */
cJSON *status_job(struct hsp_app *a, cJSON **ret);

#endif
