#include "worker/agent/gpu_health.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/base/str.h"

struct xid {
    uint16_t number;
    uint8_t verdict;
    const char *words;
};

static const struct xid xids[] = {
    /* the application's: its executor ends, the GPU goes on */
    {8, HSP_GPU_WARN, "work was stopped"},
    {11, HSP_GPU_WARN, "invalid commands"},
    {13, HSP_GPU_WARN, "exception in a kernel"},
    {31, HSP_GPU_WARN, "page fault of a kernel"},
    {43, HSP_GPU_WARN, "a channel was stopped"},
    {45, HSP_GPU_WARN, "channels were taken down"},
    {68, HSP_GPU_WARN, "exception of the video engine"},
    {94, HSP_GPU_WARN, "memory error, contained in one application"},
    {109, HSP_GPU_WARN, "context switch timed out"},
    {137, HSP_GPU_WARN, "fault of a peer's access over NVLink"},
    /* memory that is being repaired */
    {63, HSP_GPU_WARN, "a row of memory will be replaced"},
    {92, HSP_GPU_WARN, "many corrected memory errors"},
    {38, HSP_GPU_WARN, "error of the driver's firmware"},
    {121, HSP_GPU_WARN, "error of the link to the processor"},
    /* the GPU wants a reset, or a look at the hardware */
    {46, HSP_GPU_CORDON, "the GPU stopped computing"},
    {48, HSP_GPU_CORDON, "uncorrectable memory error"},
    {61, HSP_GPU_CORDON, "breakpoint of the internal controller"},
    {62, HSP_GPU_CORDON, "the internal controller halted"},
    {64, HSP_GPU_CORDON, "a row of memory could not be replaced"},
    {74, HSP_GPU_CORDON, "NVLink error"},
    {95, HSP_GPU_CORDON, "memory error that was not contained"},
    {110, HSP_GPU_CORDON, "security fault"},
    {140, HSP_GPU_CORDON, "memory error that was not recovered"},
    {158, HSP_GPU_CORDON, "fatal time-out of the GPU"},
    /* not there any more */
    {79, HSP_GPU_LOST, "fallen off the bus"},
    {119, HSP_GPU_LOST, "the system processor does not answer"},
    {120, HSP_GPU_LOST, "error of the system processor"},
};

static const char *const names[] = {"fine", "warn", "cordon", "lost"};
_Static_assert(sizeof names / sizeof names[0] == HSP_N_GPU_VERDICTS, "a name for each");

const char *hsp_gpu_verdict_name(enum hsp_gpu_verdict v)
{
    return names[v];
}

enum hsp_gpu_verdict hsp_gpu_xid(uint64_t xid, const char **ret_words)
{
    for (size_t k = 0; k < sizeof xids / sizeof xids[0]; k++) {
        if (xids[k].number == xid) {
            *ret_words = xids[k].words;
            return (enum hsp_gpu_verdict)xids[k].verdict;
        }
    }
    *ret_words = "not one we know";
    return HSP_GPU_WARN;
}

void hsp_gpu_health_init(struct hsp_gpu_health *h)
{
    *h = (struct hsp_gpu_health){.verdict = HSP_GPU_FINE};
}

/* A worse verdict, or another warning. */
static bool find(struct hsp_gpu_health *h, enum hsp_gpu_verdict v, uint64_t now_ms, const char *why)
{
    bool lasting = v == HSP_GPU_CORDON && h->ends; /* in the place of one that ends */
    if (v < h->verdict || (v == h->verdict && v != HSP_GPU_WARN && !lasting)) {
        return false;
    }
    h->verdict = v;
    h->ends = false;
    h->warned_ms = now_ms;
    h->slow_warned = false;
    hsp_str_printf(h->why, sizeof h->why, "%s", why);
    return true;
}

static bool on_xid(struct hsp_gpu_health *h, uint64_t xid, uint64_t now_ms)
{
    const char *words;
    char why[HSP_GPU_WHY];
    enum hsp_gpu_verdict v = hsp_gpu_xid(xid, &words);
    hsp_str_printf(why, sizeof why, "XID %" PRIu64 ": %s", xid, words);
    return find(h, v, now_ms, why);
}

/* Counts only grow; a smaller one is that of a driver that was loaded anew. */
static uint64_t more_errors(struct hsp_gpu_health *h, bool uncorrected, uint64_t count)
{
    uint64_t before =
        h->knows_ecc[uncorrected] && count >= h->ecc[uncorrected] ? h->ecc[uncorrected] : count;
    h->knows_ecc[uncorrected] = true;
    h->ecc[uncorrected] = count;
    return count - before;
}

static bool on_uncorrected(struct hsp_gpu_health *h, uint64_t count, uint64_t now_ms)
{
    char why[HSP_GPU_WHY];
    uint64_t n = more_errors(h, true, count);
    hsp_str_printf(why, sizeof why, "%" PRIu64 " uncorrectable memory errors", n);
    return n > 0 && find(h, HSP_GPU_CORDON, now_ms, why);
}

/* The count of an hour is begun anew when the hour is over. */
static bool on_corrected(struct hsp_gpu_health *h, uint64_t count, uint64_t now_ms)
{
    char why[HSP_GPU_WHY];
    bool over = !h->knows_ecc[0] || count < h->ecc[0] || now_ms - h->ecc_ms >= HSP_GPU_ECC_MS;
    uint64_t n = over ? 0 : count - h->ecc[0];
    bool burst = n >= HSP_GPU_ECC_BURST;
    if (over || burst) {
        (void)more_errors(h, false, count);
        h->ecc_ms = now_ms;
    }
    hsp_str_printf(why, sizeof why, "%" PRIu64 " corrected memory errors within an hour", n);
    return burst && find(h, HSP_GPU_WARN, now_ms, why);
}

static bool on_slowed(struct hsp_gpu_health *h, bool slowed, uint64_t now_ms)
{
    if (slowed && !h->slowed) {
        h->slowed_ms = now_ms;
    }
    h->slowed = slowed;
    if (!slowed && h->verdict == HSP_GPU_WARN && h->slow_warned) {
        h->verdict = HSP_GPU_FINE;
        h->slow_warned = false;
        h->why[0] = '\0';
        return true;
    }
    return hsp_gpu_health_tick(h, now_ms);
}

/* Memory that goes bad once a day is not worth a processor; it shows soon whether it does. */
static bool on_damage(struct hsp_gpu_health *h, uint64_t now_ms)
{
    if (++h->damages < HSP_GPU_DAMAGES) {
        return find(h, HSP_GPU_WARN, now_ms, "state went bad while a job ran");
    }
    bool worse = h->verdict < HSP_GPU_CORDON &&
                 find(h, HSP_GPU_CORDON, now_ms,
                      "state went bad while a job ran, again; it is tried again after a day");
    h->ends = h->ends || worse;
    return worse;
}

bool hsp_gpu_health_sign(struct hsp_gpu_health *h, const struct hsp_gpu_sign *s, uint64_t now_ms)
{
    switch (s->kind) {
    case HSP_SIGN_XID: return on_xid(h, s->value, now_ms);
    case HSP_SIGN_ECC_UNCORRECTED: return on_uncorrected(h, s->value, now_ms);
    case HSP_SIGN_ECC_CORRECTED: return on_corrected(h, s->value, now_ms);
    case HSP_SIGN_REMAP_PENDING:
        return s->value != 0 && h->verdict == HSP_GPU_FINE &&
               find(h, HSP_GPU_WARN, now_ms, "rows of memory wait for a reset to be replaced");
    case HSP_SIGN_REMAP_FAILED:
        return s->value != 0 && find(h, HSP_GPU_CORDON, now_ms, "no spare rows of memory are left");
    case HSP_SIGN_SLOWED: return on_slowed(h, s->value != 0, now_ms);
    case HSP_SIGN_GONE: return find(h, HSP_GPU_LOST, now_ms, "the driver does not reach it");
    case HSP_SIGN_DAMAGE: return on_damage(h, now_ms);
    }
    return false;
}

bool hsp_gpu_health_tick(struct hsp_gpu_health *h, uint64_t now_ms)
{
    if (h->slowed && h->verdict == HSP_GPU_FINE && now_ms - h->slowed_ms >= HSP_GPU_SLOW_MS) {
        (void)find(h, HSP_GPU_WARN, now_ms, "its clocks are down for heat or power");
        h->slow_warned = true;
        return true;
    }
    bool ends = h->ends || (h->verdict == HSP_GPU_WARN && !h->slow_warned);
    if (ends && now_ms - h->warned_ms >= HSP_GPU_WARN_MS) {
        h->verdict = HSP_GPU_FINE;
        h->ends = false;
        h->damages = h->damages < HSP_GPU_DAMAGES ? h->damages : HSP_GPU_DAMAGES - 1;
        h->why[0] = '\0';
        return true;
    }
    return false;
}
