/* Parses IP addresses, and the networks of an administrator: "10.0.0.0/8", "fd00::/8".
 *
 * Role:   trusted_network of hspmdd.yaml, which travels to executors as one text: "10.0.0.0/8,
 *         fd00::/8".
 * Purity: pure. */
#ifndef HSP_IP_NET_H
#define HSP_IP_NET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/err.h"

#define HSP_IPNETS      8u   /* in one list: a cluster has a few networks */
#define HSP_IPNETS_TEXT 416u /* of a list in words: 8 times 45 letters, "/128" and ", " */

struct hsp_ip {
    bool v6;
    uint8_t b[16]; /* IPv4: the first four, the others 0 */
};
struct hsp_ipnet {
    struct hsp_ip ip; /* behind `bits` all bits are 0 */
    uint8_t bits;
};
struct hsp_ipnets {
    uint32_t n;
    struct hsp_ipnet net[HSP_IPNETS];
};

/* "10.0.0.0/8". HSP_EINVAL names the text: no address, no number of bits that it can have, or an
 * address behind the prefix, for which the message gives the network that was meant. */
enum hsp_status hsp_ipnet_parse(const char *s, struct hsp_ipnet *ret, struct hsp_err *err);
/* A list as hsp_ipnets_text writes it; "" has none. HSP_EINVAL; HSP_ELIMIT: more than
 * HSP_IPNETS. */
enum hsp_status hsp_ipnets_parse(const char *s, struct hsp_ipnets *ret, struct hsp_err *err);
/* In canonical form. */
void hsp_ipnets_text(const struct hsp_ipnets *n, char ret[HSP_IPNETS_TEXT]);

/* Whether one of the networks has the address. */
bool hsp_ipnets_have(const struct hsp_ipnets *n, const struct hsp_ip *ip);
void hsp_ip_text(const struct hsp_ip *ip, char ret[46]);
/* fe80::/10: it says nothing of the network. */
bool hsp_ip_is_link_local6(const struct hsp_ip *ip);

#endif
