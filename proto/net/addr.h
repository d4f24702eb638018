/* Parses addresses of the control plane as people write them.
 *
 * Forms:  "host:port", "host" (with a default port), "[v6]:port", "/path" or "unix:/path".
 * Purity: pure. */
#ifndef HSP_ADDR_H
#define HSP_ADDR_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

#define HSP_PORT 7071 /* of hspmdd */

struct hsp_addr {
    bool local;     /* a Unix socket */
    char path[108]; /* of it; fits sockaddr_un with its NUL */
    char host[256];
    uint16_t port;
};

/* HSP_EINVAL names the mistake. @port: used when none is written; 0 is written as it is. */
enum hsp_status hsp_addr_parse(const char *s, uint16_t port, struct hsp_addr *ret,
                               struct hsp_err *err);

/* True when the host is this machine, independent of resolvers: 127.0.0.0/8, ::1, "localhost". */
bool hsp_addr_is_loopback(const struct hsp_addr *a);

/* "0.0.0.0", "::": good for listening only. */
bool hsp_addr_is_any(const struct hsp_addr *a);

/* True when the host is a number, or "localhost": an address to listen on. */
bool hsp_addr_is_number(const struct hsp_addr *a);

/* Whether the host is written as names and numbers are: letters, digits and ".-_:%". */
bool hsp_addr_is_plain(const struct hsp_addr *a);

#endif
