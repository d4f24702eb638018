#include "worker/backend/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/hash.h"

/* Reports the error of dlopen in one line. */
static enum hsp_status refuse(struct hsp_err *err, const char *what)
{
    const char *why = dlerror();
    return hsp_err_set(err, HSP_ENODEV, 0, "no GPU: %s: %s", what, why != NULL ? why : "no reason");
}

/* Finds the file of the plugin: in $HSPMD_PLUGINS, else in the folder of the program (as built, or
 * unpacked), else where the plugin was installed. */
static bool find(char path[PATH_MAX])
{
    const char *own = getenv("HSPMD_PLUGINS");
    if (own != NULL) {
        (void)snprintf(path, PATH_MAX, "%s/%s", own, HSP_PLUGIN_FILE);
        return true;
    }
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - sizeof(HSP_PLUGIN_FILE) - 1);
    while (n > 0 && path[n - 1] != '/') {
        n--;
    }
    if (n > 0) {
        memcpy(path + n, HSP_PLUGIN_FILE, sizeof(HSP_PLUGIN_FILE));
        if (access(path, R_OK) == 0) {
            return true;
        }
    }
    (void)snprintf(path, PATH_MAX, "%s/%s", HSP_PKGLIBDIR, HSP_PLUGIN_FILE);
    return access(path, R_OK) == 0;
}

/* Loads the library at @path. The library stays loaded if it is the plugin of this build. */
static enum hsp_status take(const char *path, const struct hsp_device_plugin **ret,
                            struct hsp_err *err)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct hsp_device_plugin *found =
        library != NULL ? dlsym(library, HSP_PLUGIN_SYMBOL) : NULL;
    enum hsp_status st = HSP_OK;
    if (found == NULL) {
        st = refuse(err, HSP_PLUGIN_FILE);
    } else if (found->abi != HSP_BACKEND_ABI) {
        st = hsp_err_set(err, HSP_ENODEV, 0, "no GPU: %s has interface %u, not %u", path,
                         found->abi, HSP_BACKEND_ABI);
    }
    if (st == HSP_OK) {
        *ret = found;
    } else if (library != NULL) {
        (void)dlclose(library);
    }
    return st;
}

enum hsp_status hsp_plugin_load(const struct hsp_plugin_paths *p,
                                const struct hsp_device_plugin **ret, struct hsp_err *err)
{
    static const struct hsp_plugin_paths usual = {.driver = NULL};
    char path[PATH_MAX];
    p = p != NULL ? p : &usual;
    /* if they cannot be set, the device is slower at worst */
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (dlopen(p->driver != NULL ? p->driver : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == NULL) {
        return refuse(err, "no driver");
    }
    if (p->plugin != NULL) {
        (void)snprintf(path, sizeof(path), "%s", p->plugin);
    } else if (!find(path)) {
        return hsp_err_set(err, HSP_ENODEV, 0, "no GPU: this build has no %s", HSP_PLUGIN_FILE);
    }
    return take(path, ret, err);
}

enum hsp_status hsp_backend_device_open(int device, const struct hsp_device_opts *o,
                                        struct hsp_backend **ret, struct hsp_err *err)
{
    const struct hsp_device_plugin *p;
    int n = 0;
    enum hsp_status st = hsp_plugin_load(NULL, &p, err);
    if (st == HSP_OK) {
        st = p->count(&n, err);
    }
    if (st == HSP_OK && (device < 0 || device >= n)) {
        st = hsp_err_set(err, HSP_ENODEV, 0, "no GPU %d: there are %d", device, n);
    }
    return st == HSP_OK ? p->open(device, o, ret, err) : st;
}

uint64_t hsp_device_identity(const struct hsp_plugin_paths *paths, int device)
{
    static const uint8_t none[16]; /* the uuid that a driver reports if it does not know it */
    const struct hsp_device_plugin *p;
    struct hsp_device_info info;
    bool known = hsp_plugin_load(paths, &p, NULL) == HSP_OK &&
                 p->describe(device, &info, NULL) == HSP_OK &&
                 memcmp(info.uuid, none, sizeof none) != 0;
    return known ? hsp_hash64(info.uuid, sizeof info.uuid, 0) | 1 : 0;
}
