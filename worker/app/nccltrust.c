/* The pure half of ncclplace.h: what follows from addresses, devices and variables. */
#include <stdlib.h>
#include <string.h>

#include "proto/base/str.h"
#include "worker/app/ncclplace.h"

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
    return v != NULL ? strtoll(v, NULL, 0) : 0; /* as NCCL reads its numbers */
}

/* ---- what NCCL may use ---- */

/* NCCL tries the first kind that there is when it is not told which. */
static int kind_of(const char *card)
{
    return strncmp(card, "ib", 2) == 0       ? 0
           : strncmp(card, "docker", 6) == 0 ? 2
           : strncmp(card, "lo", 2) == 0     ? 3
                                             : 1;
}

static bool opens_sockets(const struct hsp_host_net *h, hsp_getenv get, const char *card)
{
    const char *list = get("NCCL_SOCKET_IFNAME");
    if (list != NULL && strlen(list) > 1) {
        return hsp_nccl_names(list, card, false);
    }
    int best = kind_of(card);
    for (uint32_t i = 0; i < h->n_addresses; i++) {
        int k = kind_of(h->address[i].card);
        best = k < best ? k : best;
    }
    return kind_of(card) == best;
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
    return net != NULL || (plugin != NULL ? strcmp(plugin, "none") != 0 : h->plugin);
}

/* ---- within this host ---- */

bool hsp_nccl_stays(const struct hsp_host_net *h, hsp_getenv get, char why[HSP_NCCL_WHY])
{
    static const struct {
        const char *name;
        long long want;
    } v[] = {{"NCCL_SHM_DISABLE", 0}, {"NCCL_NET_DISABLE_INTRA", 1}, {"NCCL_OOB_NET_ENABLE", 0}};
    bool devices = h->cut || takes_plugin(h, get);
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

/* Whether this interface has an address in a trusted network, and no routable one elsewhere. */
static bool is_trusted(const struct hsp_host_net *h, const struct hsp_ipnets *nets,
                       const char *card, char because[BECAUSE])
{
    bool any = false;
    for (uint32_t i = 0; i < h->n_addresses; i++) {
        const struct hsp_host_address *a = &h->address[i];
        char ip[46];
        if (strcmp(a->card, card) != 0 || hsp_ip_is_link_local6(&a->ip)) {
            continue;
        }
        if (!hsp_ipnets_have(nets, &a->ip)) {
            hsp_ip_text(&a->ip, ip);
            hsp_str_printf(because, BECAUSE, "%s has %s, which is in none of them", card, ip);
            return false;
        }
        any = true;
    }
    if (!any) {
        hsp_str_printf(because, BECAUSE, "%s has no address in one of them", card);
    }
    return any;
}

static bool sockets_trusted(const struct hsp_host_net *h, hsp_getenv get,
                            const struct hsp_ipnets *nets, char why[HSP_NCCL_WHY])
{
    bool any = false;
    for (uint32_t i = 0; i < h->n_addresses; i++) {
        const char *card = h->address[i].card;
        char because[BECAUSE];
        if (!opens_sockets(h, get, card)) {
            continue;
        }
        any = true;
        if (!is_trusted(h, nets, card, because)) {
            hsp_str_printf(why, HSP_NCCL_WHY,
                           "interface %s; NCCL keeps off it when network: of hspmd-worker.yaml "
                           "names the cards of a trusted network, or NCCL_SOCKET_IFNAME in the "
                           "agent's environment",
                           because);
            return false;
        }
    }
    if (!any) {
        const char *list = get("NCCL_SOCKET_IFNAME");
        hsp_str_printf(why, HSP_NCCL_WHY,
                       "no interface that NCCL may use (NCCL_SOCKET_IFNAME %s) has an address",
                       list != NULL ? list : "is not set");
    }
    return any;
}

/* Every address it may be reached by is trusted, and there is one. */
static bool rdma_trusted(const struct hsp_host_net *h, const struct hsp_ipnets *nets,
                         const struct hsp_host_rdma *r, char why[HSP_NCCL_WHY])
{
    char because[BECAUSE] = "it has no interface here";
    bool any = false, all = true;
    for (uint32_t k = 0; k < r->n_cards && all; k++) {
        bool routable = false;
        for (uint32_t i = 0; i < h->n_addresses; i++) {
            routable = routable || (strcmp(h->address[i].card, r->card[k]) == 0 &&
                                    !hsp_ip_is_link_local6(&h->address[i].ip));
        }
        bool good = is_trusted(h, nets, r->card[k], because);
        any = any || good;
        all = good || !routable; /* a bond's cards have none: the bond has */
    }
    if (!any || !all) {
        hsp_str_printf(why, HSP_NCCL_WHY,
                       "RDMA device %s may be used and %s; NCCL keeps off it when network: of "
                       "hspmd-worker.yaml names the cards of a trusted network, or NCCL_IB_HCA or "
                       "NCCL_IB_DISABLE=1 in the agent's environment",
                       r->name, because);
    }
    return any && all;
}

bool hsp_nccl_trusts(const struct hsp_host_net *h, hsp_getenv get, const struct hsp_ipnets *nets,
                     char why[HSP_NCCL_WHY])
{
    why[0] = '\0';
    if (nets->n == 0) {
        hsp_str_printf(why, HSP_NCCL_WHY, "hspmdd.yaml names no trusted_network");
        return false;
    }
    if (h->cut) {
        hsp_str_printf(why, HSP_NCCL_WHY,
                       "this host has more than %u addresses or %u RDMA devices: too many to look "
                       "at",
                       HSP_HOST_ADDRESSES, HSP_HOST_RDMA);
        return false;
    }
    if (takes_plugin(h, get)) {
        hsp_str_printf(why, HSP_NCCL_WHY,
                       "NCCL may talk by a network plugin, whose networks cannot be seen; "
                       "NCCL_NET_PLUGIN=none in the agent's environment keeps it from that");
        return false;
    }
    bool good = sockets_trusted(h, get, nets, why);
    for (uint32_t i = 0; i < h->n_rdma && good; i++) {
        good = !takes_rdma(get, &h->rdma[i]) || rdma_trusted(h, nets, &h->rdma[i], why);
    }
    return good;
}
