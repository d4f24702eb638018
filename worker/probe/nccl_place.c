#include "worker/probe/nccl_place.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "proto/base/str.h"
#include "worker/probe/nccl_trust.h"

#define PLUGIN "libnccl-net.so" /* NCCL's choice when it is not told of another */

static const char *or_else(const char *given, const char *dflt)
{
    return given != NULL ? given : dflt;
}

/* ---- addresses ---- */

/* Returns false if the address is of another family, or is the loopback of IPv6, which NCCL
 * ignores. */
static bool ip_of(const struct sockaddr *a, struct hsp_ip *ret)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    *ret = (struct hsp_ip){0};
    if (a != NULL && a->sa_family == AF_INET) {
        memcpy(&v4, a, sizeof v4);
        memcpy(ret->b, &v4.sin_addr, 4);
        return true;
    }
    if (a != NULL && a->sa_family == AF_INET6) {
        memcpy(&v6, a, sizeof v6);
        memcpy(ret->b, &v6.sin6_addr, 16);
        ret->v6 = true;
        return !IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
    }
    return false;
}

static void too_many(struct hsp_host_net *h)
{
    hsp_str_printf(h->unseen, sizeof h->unseen,
                   "this host has more than %u addresses, %u RDMA devices or %u interfaces of one: "
                   "too many to look at",
                   HSP_HOST_ADDRESSES, HSP_HOST_RDMA, HSP_RDMA_CARDS);
}

static void unreadable(struct hsp_host_net *h, const char *what, int e)
{
    hsp_str_printf(h->unseen, sizeof h->unseen, "%.120s cannot be read: %s", what, strerror(e));
}

static void find_addresses(struct hsp_host_net *h)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) {
        unreadable(h, "the list of network interfaces", errno);
        return;
    }
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        struct hsp_host_address a;
        if ((i->ifa_flags & IFF_UP) == 0 || !ip_of(i->ifa_addr, &a.ip)) {
            continue;
        }
        hsp_str_printf(a.card, sizeof a.card, "%s", i->ifa_name);
        if (h->n_addresses < HSP_HOST_ADDRESSES) {
            h->address[h->n_addresses++] = a;
        } else {
            too_many(h);
        }
    }
    freeifaddrs(all);
}

/* ---- RDMA devices ---- */

/* Calls @take for each entry of a folder, "." and ".." left out. A folder that is not there has
 * none. */
static void each_entry(struct hsp_host_net *h, const char *folder,
                       void (*take)(struct hsp_host_net *h, const char *name, void *ctx), void *ctx)
{
    DIR *d = opendir(folder);
    struct dirent *e = NULL;
    if (d == NULL) {
        if (errno != ENOENT && errno != ENOTDIR) {
            unreadable(h, folder, errno);
        }
        return;
    }
    while ((errno = 0, e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.') {
            take(h, e->d_name, ctx);
        }
    }
    if (errno != 0) {
        unreadable(h, folder, errno);
    }
    (void)closedir(d); /* read only */
}

static void add_card(struct hsp_host_net *h, const char *name, void *ctx)
{
    struct hsp_host_rdma *r = ctx;
    if (r->n_cards == HSP_RDMA_CARDS || strlen(name) >= sizeof r->card[0]) {
        too_many(h);
        return;
    }
    hsp_str_printf(r->card[r->n_cards++], sizeof r->card[0], "%s", name);
}

static void add_upper(struct hsp_host_net *h, const char *name, void *ctx)
{
    if (strncmp(name, "upper_", 6) == 0) {
        add_card(h, name + 6, ctx);
    }
}

static void add_rdma(struct hsp_host_net *h, const char *name, void *ctx)
{
    (void)ctx;
    if (h->n_rdma == HSP_HOST_RDMA || strlen(name) > HSP_RDMA_NAME) {
        too_many(h);
        return;
    }
    struct hsp_host_rdma *r = &h->rdma[h->n_rdma++];
    *r = (struct hsp_host_rdma){0};
    hsp_str_printf(r->name, sizeof r->name, "%s", name);
}

static void find_rdma(struct hsp_host_net *h, const char *infiniband, const char *net)
{
    char path[PATH_MAX];
    each_entry(h, infiniband, add_rdma, NULL);
    for (uint32_t i = 0; i < h->n_rdma; i++) {
        struct hsp_host_rdma *r = &h->rdma[i];
        hsp_str_printf(path, sizeof path, "%s/%s/device/net", infiniband, r->name);
        each_entry(h, path, add_card, r);
        for (uint32_t k = 0; k < r->n_cards; k++) { /* bonds, VLANs, and interfaces on them */
            hsp_str_printf(path, sizeof path, "%s/%s", net, r->card[k]);
            each_entry(h, path, add_upper, r);
        }
    }
}

/* ---- a network plugin ---- */

static pthread_once_t looked = PTHREAD_ONCE_INIT;
static bool there;

static void look_for_plugin(void)
{
    void *p = dlopen(PLUGIN, RTLD_LAZY | RTLD_LOCAL);
    there = p != NULL;
    if (p != NULL) {
        (void)dlclose(p); /* nothing follows from that */
    }
}

/* Returns true if NCCL would load a network plugin without being told. */
static bool has_plugin(void)
{
    bool told = getenv("NCCL_NET") != NULL || getenv("NCCL_NET_PLUGIN") != NULL;
    return !told && pthread_once(&looked, look_for_plugin) == 0 && there;
}

/* ---- the host's identity ---- */

static uint64_t node_of(const char *path, uint64_t h)
{
    struct stat st = {0};
    bool known = stat(path, &st) == 0;
    const uint64_t id[2] = {known ? st.st_dev : 0, known ? st.st_ino : 0};
    return hsp_hash64(id, sizeof id, h);
}

/* 0: it cannot be told. */
static uint64_t host_of(const struct hsp_nccl_look *l, const struct hsp_host_net *net)
{
    char text[256] = "";
    FILE *f = fopen(or_else(l->boot_id, "/proc/sys/kernel/random/boot_id"), "re");
    bool known = f != NULL && fgets(text, 64, f) != NULL && text[0] != '\0';
    uint64_t addresses = 0;
    if (f != NULL) {
        (void)fclose(f);
    }
    if (!known) {
        return 0;
    }
    uint64_t h = hsp_hash_str(text);
    text[0] = '\0';
    (void)gethostname(text, sizeof text - 1); /* else it has none: NCCL says the same */
    h = hsp_hash64(text, strlen(text), h);
    const char *id = or_else(getenv("NCCL_HOSTID"), "");
    h = hsp_hash64(id, strlen(id), h);
    h = node_of("/proc/self/ns/net", h);
    h = node_of(or_else(l->shm, "/dev/shm"), h);
    for (uint32_t i = 0; i < net->n_addresses; i++) { /* in any order */
        const struct hsp_ip *ip = &net->address[i].ip;
        addresses += hsp_ip_is_link_local6(ip) ? 0 : hsp_hash64(ip->b, sizeof ip->b, 1 + ip->v6);
    }
    return hsp_mix64(h ^ addresses) | 1;
}

static const char *own_env(const char *name)
{
    return getenv(name);
}

void hsp_nccl_place_find(const struct hsp_nccl_look *l, const struct hsp_ipnets *nets,
                         struct hsp_nccl_place *ret, char why_not[HSP_NCCL_WHY])
{
    static const struct hsp_nccl_look kernel = {0};
    struct hsp_host_net *h = calloc(1, sizeof *h);
    struct hsp_nccl_place p = {.tls = true};
    char within[HSP_NCCL_WHY];
    l = l != NULL ? l : &kernel;
    if (h == NULL || l->unknown || !hsp_nccl_known(own_env, within)) {
        hsp_str_printf(why_not, HSP_NCCL_WHY, "%s",
                       h == NULL    ? "out of memory"
                       : l->unknown ? "NCCL's settings are not all known; the agent's log says why"
                                    : within);
        free(h);
        *ret = p;
        return;
    }
    find_addresses(h);
    find_rdma(h, or_else(l->infiniband, "/sys/class/infiniband"),
              or_else(l->net, "/sys/class/net"));
    h->plugin = has_plugin();
    p.trusted = hsp_nccl_trusts(h, own_env, nets, why_not);
    if (!l->apart && hsp_nccl_stays(h, own_env, within)) {
        p.host = host_of(l, h);
    } else if (p.trusted == 0 && l->apart) {
        size_t n = strlen(why_not);
        hsp_str_printf(why_not + n, HSP_NCCL_WHY - n,
                       "; with transport: tcp devices of this host count as of other hosts");
    } else if (p.trusted == 0) {
        hsp_str_printf(why_not, HSP_NCCL_WHY, "%s", within);
    }
    free(h);
    *ret = p;
}
