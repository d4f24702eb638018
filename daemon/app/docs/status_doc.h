/* Makes the status document (apiVersion hspmd/v1) and the line for the service manager.
 *
 * Purity: pure, but for the time of the day.
 */
#ifndef HSP_STATUS_DOC_H
#define HSP_STATUS_DOC_H
#include <stddef.h>

struct hsp_app;

/* Returns the status document of one job (@name is its name or number), of one node, or of all
 * (""). Returns NULL without memory. The caller frees the text with cJSON_free. */
char *hsp_app_status(struct hsp_app *a, const char *name);
/* Writes the line that the service manager shows. */
void hsp_app_status_line(struct hsp_app *a, char *ret, size_t size);

#endif
