#include "daemon/planner/figure.h"

#include <stdint.h>
#include <stdio.h>

struct hsp_figure hsp_bytes_figure(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    struct hsp_figure f;
    uint32_t u = 0;
    while (u < 5 && bytes >= 1024) {
        bytes /= 1024;
        u++;
    }
    (void)snprintf(f.text, sizeof f.text, u == 0 ? "%.0f %s" : "%.1f %s", bytes, units[u]);
    return f;
}

struct hsp_figure hsp_time_figure(double us)
{
    struct hsp_figure f;
    if (us >= 1e6) {
        (void)snprintf(f.text, sizeof f.text, "%.2f s", us / 1e6);
    } else if (us >= 1e3) {
        (void)snprintf(f.text, sizeof f.text, "%.1f ms", us / 1e3);
    } else {
        (void)snprintf(f.text, sizeof f.text, "%.0f us", us);
    }
    return f;
}
