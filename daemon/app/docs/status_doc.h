/* Makes the status document (apiVersion hspmd/v1) and the line for the service manager.
 *
 * Purity: pure, but for the time of the day.
 */
#ifndef HSP_STATUS_DOC_H
#define HSP_STATUS_DOC_H
#include <stddef.h>

struct hsp_app;

/* The status document; @name: one job, by name or number, or one node; "" all. NULL without memory;
 * cJSON_free. */
char *hsp_app_status(struct hsp_app *a, const char *name);
/* One line for the service manager. */
void hsp_app_status_line(struct hsp_app *a, char *ret, size_t size);

#endif
