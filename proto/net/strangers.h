/* Decides which of the callers that are not known yet must go when another one comes.
 *
 * A source may have a quarter of the places. A caller from a source with fewer takes a free place,
 * or that of the oldest of all; one from a source with so many takes that of the oldest from there.
 * Whoever has proved a key goes last. Example: 1024 places; 2000 callers of one host connect and
 * say nothing. They hold 256 places. An agent of that host connects: the oldest of them goes.
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

/* Where callers come from, as far as they cannot choose it: an IPv4 address, the first 64 bits of
 * an IPv6 address (a host has them all), a user of this host. */
struct hsp_source {
    uint8_t kind; /* 4, 6, 'u'; 0: not known */
    uint8_t b[8];
};
struct hsp_stranger {
    struct hsp_source from;
    bool proved;    /* holds a key */
    uint64_t since; /* order of arrival */
};

struct hsp_source hsp_source_of_ip(const struct sockaddr *sa);
struct hsp_source hsp_source_of_user(uint32_t uid);
/* Another number for each source; 0: not known. */
uint64_t hsp_source_number(const struct hsp_source *s);

/* Most places of one source. */
uint32_t hsp_strangers_share(uint32_t places);
/* The index of the stranger whose place a caller @from takes; HSP_NO_STRANGER: there is room.
 * @n > 0 or @places > 0. */
uint32_t hsp_strangers_victim(const struct hsp_stranger *s, uint32_t n, uint32_t places,
                              const struct hsp_source *from);

#endif
