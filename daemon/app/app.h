/* Starts, steps and ends the shell of hspmdd: the roof over all its parts.
 *
 * Role:      hspmdd.c opens and closes it. Its callbacks of the loop give posted events to the core
 *            (daemon/cluster, contract W1-W8 of cluster.h) and perform the core's actions.
 * Purity:    shell (libuv, SQLite, clock).
 * Threads:   the loop thread.
 */
#ifndef HSP_APP_H
#define HSP_APP_H
#include "daemon/app/state/app_state.h"

struct hsp_app_start { /* all borrowed, cfg and log as long as the app lives */
    const struct hsp_daemon_config *cfg;
    const struct hsp_net_keys *keys;
    struct hsp_logger *log;
    bool init;           /* --init: a new cluster (store/state_folder.h) */
    const char *service; /* $STATE_DIRECTORY, NULL none */
};

/* Listens, opens the store, loads the core. @loop runs it. HSP_ENOENT: no store; HSP_EIO,
 * HSP_EPERM, HSP_EPARSE, ... with one line. *ret is set, and to be closed and freed, also on
 * failure, unless it is NULL. */
enum hsp_status hsp_app_open(uv_loop_t *loop, const struct hsp_app_start *start,
                             struct hsp_app **ret, struct hsp_err *err);
/* Stops cleanly: queued rows are written, connections are flushed. Then @on_closed,
 * from the loop; after it hsp_app_free. Training goes on without us. */
void hsp_app_close(struct hsp_app *a, void (*on_closed)(struct hsp_app *a));
struct hsp_app *hsp_app_free(struct hsp_app *a); /* NULL allowed; returns NULL */

/* The configuration behind a->cfg has changed: tells the core, the log and the feed. The texts say
 * name the changes and the settings that need a restart, "" nothing. */
void hsp_app_reconfigure(struct hsp_app *a, const char *applied, const char *restart);
/* A new configuration was refused. */
void hsp_app_reconfigure_failed(struct hsp_app *a, const struct hsp_err *why);
void hsp_app_dump(struct hsp_app *a); /* to the log */

#endif
