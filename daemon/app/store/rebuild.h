/* Opens the store, and writes its file anew where pages of it are damaged.
 *
 * Purity:  shell (files).
 * Example: a bit in the header of a page makes 400 lines of metrics vanish without a word. PRAGMA
 *          integrity_check finds it at the start. The readable rows go into a new file, which
 *          takes the place of the old one; that one stays beside it, as
 *          state.db.replaced-SECONDS.N-damaged. Lines written into the damaged file might lie over
 *          its rows.
 * Crash:   before the names are exchanged the old store is in place, after that the new one.
 */
#ifndef HSP_REBUILD_H
#define HSP_REBUILD_H
#include "daemon/app/store/state_folder.h"
#include "daemon/app/store/store.h"
#include "proto/base/err.h"
#include "proto/wire/msg.h"

struct hsp_rebuilt {
    char text[HSP_TEXT_MAX]; /* the damage and the mend; "": nothing */
    bool failed; /* the damaged file is open: it could not be written anew, as the text says */
};

/* Opens state.db in @dir, whose lock @f is taken anew with the file. HSP_EDIGEST: a row of the core
 * is damaged or missing, and nothing is changed; else errors of hsp_store_open. */
enum hsp_status hsp_store_open_whole(const char *dir, struct hsp_state_folder *f,
                                     struct hsp_store **ret, struct hsp_rebuilt *ret_done,
                                     struct hsp_err *err);

#endif
