/* Decides which of the callers that are not known yet must go when another one comes.
 *
 * A source may have a quarter of the places. A caller from a source with fewer takes a free place,
 * or that of the oldest of all; one from a source with so many takes that of the oldest from there.
 * Callers that have proved a key go last, and never while the proof is new: the newer caller is
 * sent away instead, and may call again. Without that rule a crowd of agents that comes back at
 * once throws itself out for ever, each in the middle of its handshake. Example: 1024 places; 2000
 * callers of one host connect and say nothing. They hold 256 places. An agent of that host
 * connects: the oldest of them goes.
 *
 * Role:   proto/net for its listeners, daemon/app/http for its own.
 * Purity: pure.
 */
#ifndef HSP_STRANGERS_H
#define HSP_STRANGERS_H
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define HSP_NO_STRANGER UINT32_MAX
#define HSP_NEWCOMER    (UINT32_MAX - 1)

/* Where callers come from, as far as they cannot choose it: an IPv4 address, the first 64 bits of
 * an IPv6 address (a host has them all), a user of this host. */
struct hsp_source {
    uint8_t kind; /* 4, 6, 'u'; 0: not known */
    uint8_t b[8];
};
struct hsp_stranger {
    struct hsp_source from;
    uint64_t since;     /* order of arrival */
    uint64_t proved_ms; /* when it proved that it holds a key; 0: not yet */
};

struct hsp_source hsp_source_of_ip(const struct sockaddr *sa);
struct hsp_source hsp_source_of_user(uint32_t uid);
/* Another number for each source; 0: not known. */
uint64_t hsp_source_number(const struct hsp_source *s);

/* Most places of one source. */
uint32_t hsp_strangers_share(uint32_t places);
/* The index of the stranger whose place a caller @from takes; HSP_NO_STRANGER: there is room;
 * HSP_NEWCOMER: every candidate proved a key after @new_ms, and the caller itself has to go.
 * @n > 0 or @places > 0. */
uint32_t hsp_strangers_victim(const struct hsp_stranger *s, uint32_t n, uint32_t places,
                              const struct hsp_source *from, uint64_t new_ms);

#endif
