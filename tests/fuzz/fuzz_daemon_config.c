/* Reads hspmdd.yaml; fuzzconfig.h has the property. */
#include "daemon/app/state/daemon_config.h"
#include "tests/fuzz/fuzzconfig.h"

static enum hsp_status load(const struct hsp_layers *l, struct hsp_arena *arena, void *ret,
                            struct hsp_err *err)
{
    return hsp_daemon_config_load(l, arena, ret, err);
}

static void print(const void *c, struct hsp_buf *out)
{
    hsp_daemon_config_print(c, out);
}

static const struct hsp_fuzz_config kind = {sizeof(struct hsp_daemon_config), load, print};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    hsp_fuzz_config_one(&kind, data, len);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    static const char set[] = "max_nodes: 4\nlisten: ''\n\0heartbeat=1s\0failure_detection=1m";
    if (i == 0) {
        hsp_fuzz_config_defaults(&kind, out);
    } else {
        hsp_buf_append(out, set, sizeof set - 1);
    }
    return i < 2;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "daemon_config", .seed = seed};
