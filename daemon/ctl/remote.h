/* Sends requests to hspmdd, and receives the answers.
 *
 * Purity:    shell (blocking network calls with the run's --timeout).
 * Ownership: answers live in the run's arena. Failures are one line for people:
 *            subject: why; remedy. */
#ifndef HSP_REMOTE_H
#define HSP_REMOTE_H
#include <cjson/cJSON.h>

#include "daemon/ctl/command.h"
#include "proto/wire/msg.h"

#define HSP_DEFAULT_SOCKET "/run/hspmd/hspmdd.sock"
#define HSP_DEFAULT_KEY    HSP_SYSCONFDIR "/hspmd/admin.key"

/* Whether an operand is the name of a job at hspmdd: a name without such a file, and not of one
 * (.yaml). */
bool hsp_is_job(const char *word);

struct hsp_remote; /* opaque */

/* Connects to --address, else $HSPMD_ADDRESS, else the socket. HSP_ECLOSED: cannot be reached (exit
 * code 5); HSP_EAUTH, HSP_EPERM. */
enum hsp_status hsp_remote_open(struct hsp_ctl *ctl, struct hsp_remote **ret, struct hsp_err *err);
bool hsp_remote_keyless(const struct hsp_remote *r);       /* by TCP without a key: it is refused */
struct hsp_remote *hsp_remote_close(struct hsp_remote *r); /* NULL allowed; returns NULL */

/* Sends a request; its number is chosen here. */
enum hsp_status hsp_remote_send(struct hsp_remote *r, struct hsp_msg *m, struct hsp_err *err);
/* The next reply to the last request: its text in *ret (never NULL) and whether more follow.
 * A reply that refuses is returned as its status with its message, with *ret set as well.
 * @wait_ms: in place of --timeout; UINT32_MAX: for ever. */
enum hsp_status hsp_remote_recv(struct hsp_remote *r, uint32_t wait_ms, const char **ret,
                                size_t *ret_len, bool *ret_more, struct hsp_err *err);

/* The same for an answer that is no text: appends its bytes to @out as they are. Only for a file;
 * they are never shown. */
enum hsp_status hsp_remote_recv_bytes(struct hsp_remote *r, uint32_t wait_ms, struct hsp_buf *out,
                                      struct hsp_err *err);

/* Connect, ask, one answer, close. */
enum hsp_status hsp_remote_ask(struct hsp_ctl *ctl, struct hsp_msg *m, const char **ret,
                               size_t *ret_len, struct hsp_err *err);
/* The answer as JSON; cJSON_Delete. */
enum hsp_status hsp_remote_ask_json(struct hsp_ctl *ctl, struct hsp_msg *m, const char **ret_text,
                                    cJSON **ret, struct hsp_err *err);

/* cJSON_Delete. HSP_EPROTO, HSP_ENOMEM: *ret is NULL. */
enum hsp_status hsp_doc_parse(const char *text, size_t len, cJSON **ret, struct hsp_err *err);
/* Reading documents: "" and 0 when absent. */
const char *hsp_doc_text(const cJSON *o, const char *key);
double hsp_doc_number(const cJSON *o, const char *key);
bool hsp_doc_has(const cJSON *o, const char *key);

#endif
