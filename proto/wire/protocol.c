#include "proto/wire/protocol.h"

#include "proto/base/str.h"

const struct hsp_protocol hsp_protocol = {HSP_PROTO_OLDEST, HSP_PROTO_VERSION};

/* "18", "14 to 18". */
static void range_text(uint32_t oldest, uint32_t newest, char *ret, size_t size)
{
    if (oldest < newest) {
        hsp_str_printf(ret, size, "%u to %u", oldest, newest);
    } else {
        hsp_str_printf(ret, size, "%u", newest);
    }
}

enum hsp_status hsp_protocol_agree(uint32_t oldest, uint32_t newest, const char *there,
                                   const char *here, uint32_t *ret, struct hsp_err *err)
{
    const struct hsp_protocol *own = &hsp_protocol;
    uint32_t common = newest < own->newest ? newest : own->newest;
    if (common >= oldest && common >= own->oldest) {
        *ret = common;
        return HSP_OK;
    }
    char theirs[32], ours[32];
    range_text(oldest, newest, theirs, sizeof theirs);
    range_text(own->oldest, own->newest, ours, sizeof ours);
    return hsp_err_set(err, HSP_EVERSION, 0, "%s speaks protocol %s, %s protocol %s: upgrade %s",
                       there, theirs, here, ours, newest < own->oldest ? there : here);
}
