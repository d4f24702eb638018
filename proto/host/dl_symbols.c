#include "proto/host/dl_symbols.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

/* dlsym returns an object pointer; POSIX guarantees that it has the bits of the function pointer.
 */
enum hsp_status hsp_dlsyms_find(void *handle, const char *name, const struct hsp_dlsym *symbols,
                                size_t n, void *table, struct hsp_err *err)
{
    for (size_t k = 0; k < n; k++) {
        void *p = dlsym(handle, symbols[k].name);
        if (p == NULL && !symbols[k].optional) {
            return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s has no %s", name, symbols[k].name);
        }
        memcpy((uint8_t *)table + symbols[k].at, &p, sizeof p);
    }
    return HSP_OK;
}
