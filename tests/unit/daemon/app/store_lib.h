/* Makes a store in a folder of its own, for the tests of daemon/app/store. */
#ifndef HSP_STORE_LIB_H
#define HSP_STORE_LIB_H
#include "daemon/app/store/store.h"

extern char sl_path[4200]; /* of the store: state.db in the folder *state */

int sl_setup(void **state);
int sl_teardown(void **state);

struct sl_collected {
    char text[1024];
};
/* Callbacks that append "key=value;" and "number:line;". */
enum hsp_status sl_collect_row(void *arg, const char *key, const void *value, size_t len);
void sl_collect_line(void *arg, uint64_t number, uint64_t epoch, const char *json);

/* These functions fail the test on an error. */
struct hsp_store *sl_open(void);
struct sl_collected sl_metrics_of(struct hsp_store *s, uint32_t job);
/* Runs @sql as another program, or a disk, would. */
void sl_behind_its_back(const char *sql);
/* The store is refused, and @text is in the reason. */
void sl_assert_damaged(const char *text);
uint8_t *sl_contents(const char *file, size_t *ret_len); /* the caller's */

#endif
