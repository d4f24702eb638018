#include "worker/probe/gpu_locality.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/str.h"

int hsp_gpu_numa(const char *sys, const char *pci)
{
    char path[PATH_MAX];
    int node = -1;
    hsp_str_printf(path, sizeof path, "%s/bus/pci/devices/%s/numa_node", sys, pci);
    FILE *f = fopen(path, "re");
    if (f != NULL) {
        if (fscanf(f, "%d", &node) != 1) {
            node = -1;
        }
        (void)fclose(f); /* read only */
    }
    return node;
}

void hsp_gpu_cpus(const char *sys, const char *pci, char *ret, size_t size)
{
    char path[PATH_MAX];
    hsp_str_printf(path, sizeof path, "%s/bus/pci/devices/%s/local_cpulist", sys, pci);
    FILE *f = fopen(path, "re");
    ret[0] = '\0';
    if (f != NULL && fgets(ret, (int)size, f) != NULL) {
        size_t n = strcspn(ret, "\n");
        ret[ret[n] == '\n' ? n : 0] = '\0'; /* a part of the list would be another one */
    }
    if (f != NULL) {
        (void)fclose(f); /* read only */
    }
}

/* Slashes two paths have in common from @skip on, up to which they are the same. */
static unsigned shared_folders(const char *a, const char *b, size_t skip)
{
    unsigned n = 0;
    for (size_t k = skip; a[k] != '\0' && a[k] == b[k]; k++) {
        n += a[k] == '/';
    }
    return n;
}

/* The folder of a device itself; its length behind ".../devices". 0: there is none. */
static size_t real_folder(const char *path, char ret[PATH_MAX])
{
    if (realpath(path, ret) == NULL) {
        return 0;
    }
    const char *at = strstr(ret, "/devices/");
    return at != NULL ? (size_t)(at - ret) + strlen("/devices") : 0;
}

void hsp_gpu_card(const char *sys, const char *pci, char *ret, size_t size)
{
    char path[PATH_MAX], gpu[PATH_MAX], card[PATH_MAX];
    unsigned best = 1; /* the slash in front of the root is every device's */
    ret[0] = '\0';
    hsp_str_printf(path, sizeof path, "%s/bus/pci/devices/%s", sys, pci);
    size_t skip = real_folder(path, gpu);
    hsp_str_printf(path, sizeof path, "%s/class/net", sys);
    DIR *d = skip > 0 ? opendir(path) : NULL;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        hsp_str_printf(path, sizeof path, "%s/class/net/%s/device", sys, e->d_name);
        if (e->d_name[0] == '.' || strlen(e->d_name) >= size || real_folder(path, card) != skip ||
            strncmp(card, gpu, skip) != 0) {
            continue;
        }
        unsigned n = shared_folders(gpu, card, skip);
        if (n > best || (n == best && n > 1 && strcmp(e->d_name, ret) < 0)) {
            best = n;
            hsp_str_printf(ret, size, "%s", e->d_name);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
}
