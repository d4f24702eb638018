/* Makes and upgrades the tables of the store in SQLite.
 *
 * Role:      the store opens its file with it; older tables are changed, all of them or none.
 * Purity:    shell (files).
 * Threads:   of the caller, which has the connection alone.
 * Ownership: the connection is the caller's.
 */
#ifndef HSP_STORE_SCHEMA_H
#define HSP_STORE_SCHEMA_H
#include <sqlite3.h>
#include <stddef.h>

#include "daemon/app/store/store.h"
#include "proto/base/err.h"

/* Journal, functions of SQL and tables. HSP_EIO: of a newer program; HSP_EVERSION: a
 * row is of a form that is read no more, and nothing is changed; HSP_EDIGEST: pages of an older
 * version are damaged, and nothing is changed; HSP_ENOSPC, HSP_ENOMEM. */
enum hsp_status hsp_store_set_up(sqlite3 *db, struct hsp_err *err);

/* The row @key of a file that is not open and has no journal, none when it is not there; the file
 * is only read, under any schema. HSP_EIO, HSP_ENOMEM. */
enum hsp_status hsp_store_peek(const char *path, const char *key, hsp_store_row_fn *fn, void *arg,
                               struct hsp_err *err);

/* The hash of a row of the core, which SQL knows as kv_sum(KEY, VALUE). */
sqlite3_int64 hsp_store_sum(const char *key, const void *value, size_t len);

/* The last error of the connection, behind @what: HSP_ENOSPC, HSP_ENOMEM, HSP_EDIGEST of damaged
 * pages, HSP_EIO. */
enum hsp_status hsp_db_error(sqlite3 *db, struct hsp_err *err, const char *what);
/* Runs statements without a result. Errors as above. */
enum hsp_status hsp_db_exec(sqlite3 *db, const char *sql, struct hsp_err *err);
/* Checks pages by @pragma, an integrity_check. HSP_EDIGEST: one is damaged; else errors as
 * above. */
enum hsp_status hsp_db_pages(sqlite3 *db, const char *pragma, struct hsp_err *err);

#endif
