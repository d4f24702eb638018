#include "worker/probe/nic.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/str.h"

#define STACKED 4 /* a VLAN on a bond is two deep */

_Static_assert(HSP_CARD_NAME + 1 == IFNAMSIZ, "a name of the kernel's fits");

/* Writes the numeric form of an interface's address. Returns false if the address is of another
 * family. */
static bool text_of(const struct sockaddr *a, char ret[INET6_ADDRSTRLEN])
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (a != NULL && a->sa_family == AF_INET) {
        memcpy(&v4, a, sizeof v4);
        return inet_ntop(AF_INET, &v4.sin_addr, ret, INET6_ADDRSTRLEN) != NULL;
    }
    if (a != NULL && a->sa_family == AF_INET6) {
        memcpy(&v6, a, sizeof v6);
        return inet_ntop(AF_INET6, &v6.sin6_addr, ret, INET6_ADDRSTRLEN) != NULL;
    }
    return false;
}

static bool find_name(const char *address, char ret[HSP_CARD_NAME + 1])
{
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all) != 0) {
        return false;
    }
    for (const struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next) {
        char text[INET6_ADDRSTRLEN];
        found = text_of(i->ifa_addr, text) && strcmp(text, address) == 0 &&
                strlen(i->ifa_name) <= HSP_CARD_NAME;
        if (found) {
            hsp_str_printf(ret, HSP_CARD_NAME + 1, "%s", i->ifa_name);
        }
    }
    freeifaddrs(all);
    return found;
}

/* The first word of a file of the interface. */
static bool read_word(const char *sys, const char *name, const char *file, char ret[32])
{
    char path[PATH_MAX];
    hsp_str_printf(path, sizeof path, "%s/%s/%s", sys, name, file);
    FILE *f = fopen(path, "re");
    bool ok = f != NULL && fscanf(f, "%31s", ret) == 1;
    if (f != NULL) {
        (void)fclose(f); /* read only */
    }
    return ok;
}

bool hsp_netcard_find(const char *sys, const char *address, struct hsp_netcard *ret)
{
    struct hsp_netcard c = {0};
    char path[PATH_MAX], word[32];
    if (!find_name(address, c.name)) {
        return false;
    }
    hsp_str_printf(path, sizeof path, "%s/%s/device", sys, c.name);
    if (access(path, F_OK) != 0 || !read_word(sys, c.name, "operstate", word) ||
        strcmp(word, "up") != 0) {
        return false;
    }
    uint64_t mbit = 0; /* a card without a speed says -1, or nothing */
    if (read_word(sys, c.name, "speed", word) && hsp_parse_u64(word, &mbit) &&
        mbit < (uint64_t)1 << 32) {
        c.gbit_per_s = (double)mbit * 1e-3;
    }
    *ret = c;
    return true;
}

/* RDMA devices of an interface's own hardware. */
static void add_rdma(const char *interface, struct hsp_nccl_card *c)
{
    char path[PATH_MAX];
    hsp_str_printf(path, sizeof path, "%s/device/infiniband", interface);
    DIR *d = opendir(path);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        bool known = e->d_name[0] == '.' || strlen(e->d_name) >= sizeof c->rdma[0];
        for (uint32_t i = 0; i < c->n_rdma && !known; i++) {
            known = strcmp(c->rdma[i], e->d_name) == 0; /* both ports of one */
        }
        if (!known && c->n_rdma < HSP_NCCL_CARD_RDMA) {
            hsp_str_printf(c->rdma[c->n_rdma++], sizeof c->rdma[0], "%s", e->d_name);
        }
    }
    if (d != NULL) {
        (void)closedir(d); /* read only */
    }
}

/* Does the same for the interfaces below a stacked one (bonds, VLANs), @depth deep. Returns false
 * if there is none. */
static bool add_lower(const char *interface, unsigned depth, struct hsp_nccl_card *c)
{
    char lower[PATH_MAX];
    DIR *d = opendir(interface);
    add_rdma(interface, c);
    for (struct dirent *e; d != NULL && depth > 0 && (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, "lower_", 6) == 0) {
            hsp_str_printf(lower, sizeof lower, "%s/%s", interface, e->d_name);
            (void)add_lower(lower, depth - 1, c);
        }
    }
    if (d != NULL) {
        (void)closedir(d); /* read only */
    }
    return d != NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

void hsp_netcard_rdma(const char *sys, const char *name, struct hsp_nccl_card *ret)
{
    struct hsp_nccl_card c = {.n_rdma = 0};
    char path[PATH_MAX];
    hsp_str_printf(c.name, sizeof c.name, "%s", name);
    hsp_str_printf(path, sizeof path, "%s/%s", sys, name);
    c.here = add_lower(path, STACKED, &c);
    qsort(c.rdma, c.n_rdma, sizeof c.rdma[0], by_name); /* folders have no order */
    *ret = c;
}
