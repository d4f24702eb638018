#include "worker/probe/nccl_trust.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/str.h"
#include "worker/probe/nccl_place.h"

#define LIST_MAX 16  /* names of a list that NCCL reads; of devices 32 */
#define BECAUSE  100 /* an interface, an address and some words */

/* ---- NCCL's lists ---- */

bool hsp_nccl_names(const char *list, const char *name, bool ports)
{
    bool without = list[0] == '^', match = false;
    list += without;
    bool exact = list[0] == '=';
    list += exact;
    size_t n = 0;
    while (*list != '\0' && !(without && n == LIST_MAX)) {
        size_t len = strcspn(list, ",:"), whole = strcspn(list, ",");
        bool counts = len > 0 && !(without && ports && len < whole);
        bool same = strncmp(list, name, len) == 0 && (!exact || name[len] == '\0');
        match = match || (counts && same);
        n += len > 0;
        list += whole + (list[whole] == ',');
    }
    return (match || n == 0) != without;
}

static long long number(hsp_getenv get, const char *name)
{
    const char *v = get(name);
    errno = 0;
    long long n = v != NULL ? strtoll(v, NULL, 0) : 0;
    return errno == 0 ? n : 0; /* as NCCL reads its numbers */
}

/* ---- the networks that NCCL may use ---- */

/* By this list; NULL: NCCL chooses by itself. NCCL passes over a list of one letter. */
static const char *sockets_list(hsp_getenv get)
{
    const char *list = get("NCCL_SOCKET_IFNAME");
    return list != NULL && strlen(list) > 1 ? list : NULL;
}

static bool is_net(hsp_getenv get, const char *name)
{
    const char *net = get("NCCL_NET");
    return net != NULL && strcasecmp(net, name) == 0;
}

static bool takes_rdma(hsp_getenv get, const struct hsp_host_rdma *r)
{
    const char *list = get("NCCL_IB_HCA");
    return number(get, "NCCL_IB_DISABLE") == 0 && !is_net(get, "Socket") &&
           (list == NULL || hsp_nccl_names(list, r->name, true));
}

/* A network of its own, by a plugin: neither the library's sockets nor its RDMA. */
static bool takes_plugin(const struct hsp_host_net *h, hsp_getenv get)
{
    const char *net = get("NCCL_NET"), *plugin = get("NCCL_NET_PLUGIN");
    if (is_net(get, "Socket") || is_net(get, "IB")) {
        return false;
    }
    return net != NULL || (plugin != NULL ? strcasecmp(plugin, "none") != 0 : h->plugin);
}

bool hsp_nccl_known(hsp_getenv get, char why[HSP_NCCL_WHY])
{
    const char *plugin = get("NCCL_ENV_PLUGIN");
    why[0] = '\0';
    if (plugin == NULL || strcasecmp(plugin, "none") != 0) {
        hsp_str_printf(why, HSP_NCCL_WHY,
                       "NCCL_ENV_PLUGIN is %.100s, so NCCL may have settings that cannot be seen; "
                       "unset it in the agent's environment",
                       plugin != NULL ? plugin : "not set");
    } else if (get("NCCL_COMM_ID") != NULL) {
        hsp_str_printf(why, HSP_NCCL_WHY,
                       "NCCL_COMM_ID is %.100s, where NCCL's ranks meet regardless of "
                       "trusted_network; unset it in the agent's environment",
                       get("NCCL_COMM_ID"));
    }
    return why[0] == '\0';
}

/* ---- within this host ---- */

bool hsp_nccl_stays(const struct hsp_host_net *h, hsp_getenv get, char why[HSP_NCCL_WHY])
{
    static const struct {
        const char *name;
        long long want;
    } v[] = {{"NCCL_SHM_DISABLE", 0}, {"NCCL_NET_DISABLE_INTRA", 1}, {"NCCL_OOB_NET_ENABLE", 0}};
    bool devices = h->unseen[0] != '\0' || takes_plugin(h, get);
    why[0] = '\0';
    for (uint32_t i = 0; i < h->n_rdma && !devices; i++) {
        devices = takes_rdma(get, &h->rdma[i]);
    }
    for (size_t i = 0; devices && i < sizeof v / sizeof v[0]; i++) {
        if (number(get, v[i].name) != v[i].want) {
            hsp_str_printf(
                why, HSP_NCCL_WHY,
                "%s is %lld in the agent's environment, so devices of this host may talk "
                "by its network; unset it",
                v[i].name, number(get, v[i].name));
            return false;
        }
    }
    return true;
}

/* ---- to other hosts ---- */

/* The addresses of one interface. */
struct of_card {
    const char *name;
    bool labels;   /* "eth0:1" is one of eth0's */
    bool loopback; /* 127.0.0.0/8 counts */
};

static bool is_loopback(const struct hsp_ip *ip)
{
    return !ip->v6 && ip->b[0] == 127; /* IPv6's is never among them */
}

static bool counts(const struct of_card *c, const struct hsp_host_address *a)
{
    size_t n = c->labels ? strcspn(a->card, ":") : strlen(a->card);
    return n == strlen(c->name) && strncmp(a->card, c->name, n) == 0 &&
           !hsp_ip_is_link_local6(&a->ip) && (c->loopback || !is_loopback(&a->ip));
}

/* The networks that have it, as bits. */
static uint8_t networks_of(const struct hsp_ip *ip, const struct hsp_ipnets *nets)
{
    unsigned mask = 0;
    for (uint32_t k = 0; k < nets->n; k++) {
        const struct hsp_ipnets one = {.n = 1, .net = {nets->net[k]}};
        mask |= hsp_ipnets_have(&one, ip) ? 1u << k : 0;
    }
    return (uint8_t)mask;
}

/* The trusted networks in which it has addresses; 0: an address is elsewhere, or (*ret_any) there
 * is none. */
static uint8_t networks_of_card(const struct hsp_host_net *h, const struct hsp_ipnets *nets,
                                const struct of_card *c, bool *ret_any, char because[BECAUSE])
{
    uint8_t mask = 0;
    *ret_any = false;
    for (uint32_t i = 0; i < h->n_addresses; i++) {
        const struct hsp_ip *ip = &h->address[i].ip;
        char text[46];
        if (!counts(c, &h->address[i])) {
            continue;
        }
        uint8_t in = networks_of(ip, nets);
        *ret_any = true;
        mask |= in;
        if (in == 0) {
            hsp_ip_text(ip, text);
            hsp_str_printf(because, BECAUSE, "%s has %s, outside of trusted_network", c->name,
                           text);
            return 0;
        }
    }
    if (mask == 0) {
        hsp_str_printf(because, BECAUSE, "%s has no address in trusted_network", c->name);
    }
    return mask;
}

/* Takes from @mask the networks that one of the interfaces with sockets of NCCL has not. False: one
 * is elsewhere. */
static bool sockets_trusted(const struct hsp_host_net *h, hsp_getenv get,
                            const struct hsp_ipnets *nets, uint8_t *mask, char why[HSP_NCCL_WHY])
{
    const char *list = sockets_list(get);
    bool any = false, ignored;
    for (uint32_t i = 0; i < h->n_addresses; i++) {
        const struct hsp_host_address *a = &h->address[i];
        const struct of_card c = {.name = a->card, .loopback = list != NULL};
        char because[BECAUSE];
        if (list != NULL ? !hsp_nccl_names(list, a->card, false) : is_loopback(&a->ip)) {
            continue;
        }
        any = true;
        uint8_t in = networks_of_card(h, nets, &c, &ignored, because);
        *mask &= in;
        if (in == 0) {
            hsp_str_printf(why, HSP_NCCL_WHY,
                           "interface %s; NCCL keeps off it when network: of hspmd-worker.yaml "
                           "names the cards of a trusted network, or NCCL_SOCKET_IFNAME in the "
                           "agent's environment",
                           because);
            return false;
        }
    }
    if (!any) {
        hsp_str_printf(why, HSP_NCCL_WHY,
                       "no interface that NCCL may use (NCCL_SOCKET_IFNAME %s) has an address",
                       list != NULL ? list : "is not set");
    }
    return any;
}

/* The same for the interfaces of an RDMA device. */
static bool device_trusted(const struct hsp_host_net *h, const struct hsp_ipnets *nets,
                           const struct hsp_host_rdma *r, uint8_t *mask, char because[BECAUSE])
{
    bool any = false;
    hsp_str_printf(because, BECAUSE, "it has no interface here");
    for (uint32_t k = 0; k < r->n_cards; k++) {
        const struct of_card c = {.name = r->card[k], .labels = true, .loopback = true};
        bool routable = false;
        uint8_t in = networks_of_card(h, nets, &c, &routable, because);
        if (!routable) {
            continue; /* a bond's cards have none: the bond has */
        }
        any = true;
        *mask &= in;
        if (in == 0) {
            return false;
        }
    }
    return any;
}

static bool rdma_trusted(const struct hsp_host_net *h, const struct hsp_ipnets *nets,
                         const struct hsp_host_rdma *r, uint8_t *mask, char why[HSP_NCCL_WHY])
{
    char because[BECAUSE], ignored[BECAUSE];
    bool other = false; /* `network:` names RDMA devices only through their cards */
    if (device_trusted(h, nets, r, mask, because)) {
        return true;
    }
    for (uint32_t i = 0; i < h->n_rdma; i++) {
        uint8_t m = UINT8_MAX;
        other = other || device_trusted(h, nets, &h->rdma[i], &m, ignored);
    }
    hsp_str_printf(why, HSP_NCCL_WHY,
                   "RDMA device %s may be used and %s; NCCL keeps off it with NCCL_IB_HCA or "
                   "NCCL_IB_DISABLE=1 in the agent's environment%s",
                   r->name, because,
                   other ? ", or when network: of hspmd-worker.yaml names the cards of a trusted "
                           "network"
                         : "");
    return false;
}

uint8_t hsp_nccl_trusts(const struct hsp_host_net *h, hsp_getenv get, const struct hsp_ipnets *nets,
                        char why[HSP_NCCL_WHY])
{
    uint8_t mask = UINT8_MAX;
    why[0] = '\0';
    if (nets->n == 0) {
        hsp_str_printf(why, HSP_NCCL_WHY, "hspmdd.yaml names no trusted_network");
        return 0;
    }
    if (h->unseen[0] != '\0') {
        hsp_str_printf(why, HSP_NCCL_WHY, "%s", h->unseen);
        return 0;
    }
    if (takes_plugin(h, get)) {
        hsp_str_printf(why, HSP_NCCL_WHY,
                       "NCCL may talk by a network plugin, whose networks cannot be seen; "
                       "NCCL_NET_PLUGIN=none in the agent's environment keeps it from that");
        return 0;
    }
    bool good = sockets_trusted(h, get, nets, &mask, why);
    for (uint32_t i = 0; i < h->n_rdma && good; i++) {
        good = !takes_rdma(get, &h->rdma[i]) || rdma_trusted(h, nets, &h->rdma[i], &mask, why);
    }
    if (good && mask == 0) {
        hsp_str_printf(why, HSP_NCCL_WHY,
                       "the interfaces and RDMA devices that NCCL may use have no trusted_network "
                       "in common; NCCL_SOCKET_IFNAME, and NCCL_IB_HCA or NCCL_IB_DISABLE=1, in "
                       "the agent's environment choose among them");
    }
    return good ? mask : 0;
}
