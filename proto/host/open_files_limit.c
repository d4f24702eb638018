#include "proto/host/open_files_limit.h"

#include <sys/resource.h>

uint64_t hsp_nofile_raise(uint64_t want)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) != 0) {
        return UINT64_MAX; /* cannot fail with this limit */
    }
    rlim_t soft = l.rlim_cur;
    if (soft < want) { /* RLIM_INFINITY is the greatest number */
        l.rlim_cur = want < l.rlim_max ? want : l.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &l) != 0) {
            l.rlim_cur = soft;
        }
    }
    return l.rlim_cur == RLIM_INFINITY ? UINT64_MAX : l.rlim_cur;
}
