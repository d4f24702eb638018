/* The shell of ncclplace.h: asks the kernel. */
#include "worker/app/ncclplace.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "proto/base/str.h"

#define PLUGIN "libnccl-net.so" /* what NCCL looks for when it is not told which */

static const char *or_else(const char *given, const char *dflt)
{
    return given != NULL ? given : dflt;
}

/* ---- addresses ---- */

/* False: of another family, or IPv6's loopback, which NCCL passes over. */
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

static void find_addresses(struct hsp_host_net *h)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) {
        h->cut = true; /* nothing can be said of it */
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
            h->cut = true;
        }
    }
    freeifaddrs(all);
}

/* ---- RDMA devices ---- */

/* False: there is no room. */
static bool add_card(struct hsp_host_rdma *r, const char *name)
{
    if (r->n_cards == HSP_RDMA_CARDS || strlen(name) >= sizeof r->card[0]) {
        return false;
    }
    hsp_str_printf(r->card[r->n_cards++], sizeof r->card[0], "%s", name);
    return true;
}

/* Interfaces named by entries of @folder that begin with @prefix. */
static bool add_cards(struct hsp_host_rdma *r, const char *folder, const char *prefix)
{
    DIR *d = opendir(folder);
    bool room = true;
    for (struct dirent *e; d != NULL && room && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] != '.' && strncmp(e->d_name, prefix, strlen(prefix)) == 0) {
            room = add_card(r, e->d_name + strlen(prefix));
        }
    }
    if (d != NULL) {
        (void)closedir(d); /* read only */
    }
    return room;
}

/* Its interfaces, what is stacked on them (bonds, VLANs), and on that. */
static bool find_cards(const char *infiniband, const char *net, struct hsp_host_rdma *r)
{
    char path[PATH_MAX];
    hsp_str_printf(path, sizeof path, "%s/%s/device/net", infiniband, r->name);
    bool room = add_cards(r, path, "");
    for (uint32_t k = 0; k < r->n_cards && room; k++) {
        hsp_str_printf(path, sizeof path, "%s/%s", net, r->card[k]);
        room = add_cards(r, path, "upper_");
    }
    return room;
}

static void find_rdma(struct hsp_host_net *h, const char *infiniband, const char *net)
{
    DIR *d = opendir(infiniband);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') {
            continue;
        }
        if (h->n_rdma == HSP_HOST_RDMA || strlen(e->d_name) > HSP_RDMA_NAME) {
            h->cut = true;
            continue;
        }
        struct hsp_host_rdma *r = &h->rdma[h->n_rdma++];
        *r = (struct hsp_host_rdma){0};
        hsp_str_printf(r->name, sizeof r->name, "%s", e->d_name);
        h->cut = !find_cards(infiniband, net, r) || h->cut;
    }
    if (d != NULL) {
        (void)closedir(d);
    }
}

/* NCCL would load it, too. */
static bool has_plugin(void)
{
    void *p = dlopen(PLUGIN, RTLD_LAZY | RTLD_LOCAL);
    if (p != NULL) {
        (void)dlclose(p); /* nothing follows from that */
    }
    return p != NULL;
}

/* ---- the host's identity ---- */

static uint64_t node_of(const char *path, uint64_t h)
{
    struct stat st;
    const uint64_t id[2] = {stat(path, &st) == 0 ? st.st_dev : 0,
                            stat(path, &st) == 0 ? st.st_ino : 0};
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
    struct hsp_nccl_place p = {.secret = true};
    char within[HSP_NCCL_WHY];
    l = l != NULL ? l : &kernel;
    if (h == NULL) {
        hsp_str_printf(why_not, HSP_NCCL_WHY, "out of memory");
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
    } else if (!p.trusted) {
        hsp_str_printf(why_not, HSP_NCCL_WHY, "%s", l->apart ? "transport is tcp" : within);
    }
    free(h);
    *ret = p;
}
