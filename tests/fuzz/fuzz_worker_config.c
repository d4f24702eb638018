/* Reads hspmd-worker.yaml; fuzzconfig.h has the property. */
#include "tests/fuzz/fuzzconfig.h"
#include "worker/app/worker_config.h"

static enum hsp_status load(const struct hsp_layers *l, struct hsp_arena *arena, void *ret,
                            struct hsp_err *err)
{
    return hsp_worker_config_load(l, arena, ret, err);
}

static void print(const void *c, struct hsp_buf *out)
{
    hsp_worker_config_print(c, out);
}

static const struct hsp_fuzz_config kind = {sizeof(struct hsp_worker_config), load, print};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    hsp_fuzz_config_one(&kind, data, len);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    static const char devices[] =
        "coordinator: head:7071\nnode: a\ndevices: [{kind: cpu, speed: 0.5, memory: 2GiB, "
        "threads: 2}, {kind: cpu}]\n";
    static const char network[] = "devices: [{}, {}]\nnetwork: [{name: eth0, gbit_per_s: 25, "
                                  "address: 10.0.0.1, devices: [1]}, "
                                  "{name: ib0}]\n";
    static const char json[] =
        "{\"node\": \"b\", \"devices\": [], \"local_transport\": \"tcp\"}\0listen=::1";
    if (i == 0) {
        hsp_fuzz_config_defaults(&kind, out);
    } else if (i == 1) {
        hsp_buf_puts(out, devices);
    } else if (i == 2) {
        hsp_buf_puts(out, network);
    } else {
        hsp_buf_append(out, json, sizeof json - 1);
    }
    return i < 4;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "worker_config", .seed = seed};
