/* GPUs of a node from the driver's library to the agent's machine. */
#include "worker/probe/gpu_monitor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/fakenvml/fakenvml.h"
#include "tests/lib/testlib.h"
#include "worker/agent/agent.h"

static const struct hsp_fakenvml *fake;
static char library[512];

static int load(void **state)
{
    const char *build = getenv("HSPMD_BUILD");
    (void)state;
    (void)snprintf(library, sizeof library, "%s/%s", build != NULL ? build : ".",
                   HSP_FAKENVML_FILE);
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    fake = handle != NULL ? dlsym(handle, "hsp_fakenvml") : NULL;
    return fake != NULL ? 0 : -1;
}

/* CUDA counts them in another order; device 1 is a CPU, device 3 a part of a GPU, device 4 the GPU
 * of device 0 again. */
static const struct hsp_gpu_wanted wanted[] = {{true, "GPU-fake-2", "0000:3d:00.0"},
                                               {.gpu = false},
                                               {true, "GPU-fake-0", ""},
                                               {true, "MIG-1", "0000:3c:00.0"},
                                               {true, "GPU-fake-2", ""},
                                               {true, "GPU-other", "0000:aa:00.0"}};
enum { WANTED = sizeof wanted / sizeof wanted[0] };

static struct hsp_gpuwatch *open_all(void)
{
    struct hsp_gpuwatch *g = NULL;
    struct hsp_err err;
    assert_ok(hsp_gpuwatch_open(library, "/nowhere", wanted, WANTED, &g, &err), &err);
    return g;
}

static void each_is_found(void **state)
{
    static const char *const uuid[] = {"GPU-fake-2", NULL,         "GPU-fake-0",
                                       "GPU-fake-1", "GPU-fake-2", NULL};
    (void)state;
    fake->reset(3);
    struct hsp_gpuwatch *g = open_all();
    for (uint32_t i = 0; i < WANTED; i++) {
        const struct hsp_gpu *u = hsp_gpuwatch_gpu(g, i);
        assert_int_equal(u != NULL, uuid[i] != NULL);
        assert_true(u == NULL || strcmp(u->uuid, uuid[i]) == 0);
    }
    struct hsp_m_device m = {.model = "", .uuid = ""};
    hsp_gpuwatch_describe(g, 1, &m);
    assert_string_equal(m.model, "");
    hsp_gpuwatch_describe(g, 0, &m);
    assert_string_equal(m.model, "NVIDIA Fake");
    assert_string_equal(m.uuid, "GPU-fake-2");
    assert_int_equal(m.sm, 90);
    assert_null(hsp_gpuwatch_gpu(NULL, 0));
    (void)hsp_gpuwatch_close(g);
    assert_int_equal(fake->open(), 0);
}

/* In the numbers of the node's devices; two devices that are one GPU have no path. */
static void paths_between_devices(void **state)
{
    struct hsp_m_path p[HSP_NODE_PATHS];
    (void)state;
    fake->reset(3);
    fake->gpu(0)->link[0] = fake->gpu(0)->link[1] = 3; /* two links to GPU 2 */
    fake->gpu(2)->link[0] = fake->gpu(2)->link[1] = 1;
    struct hsp_gpuwatch *g = open_all();
    assert_int_equal(hsp_gpuwatch_paths(g, p), 5);
    assert_true(p[0].a == 0 && p[0].b == 2);
    assert_int_equal(p[0].kind, HSP_PATH_NVLINK);
    assert_int_equal(p[0].links, 2);
    assert_near(p[0].bytes_per_s, 40e9, 1);
    assert_true(p[1].a == 0 && p[1].b == 3);
    assert_int_equal(p[1].kind, HSP_PATH_SYSTEM);
    assert_true(p[2].a == 2 && p[2].b == 3);
    assert_int_equal(p[2].kind, HSP_PATH_PCI_SWITCH);
    assert_true(p[3].a == 2 && p[3].b == 4 && p[3].kind == HSP_PATH_NVLINK);
    assert_int_equal(hsp_gpuwatch_paths(NULL, p), 0);
    (void)hsp_gpuwatch_close(g);
}

static void hosts_without(void **state)
{
    struct hsp_gpuwatch *g = NULL;
    struct hsp_err err;
    (void)state;
    assert_status(hsp_gpuwatch_open("libnot-there.so", NULL, wanted, WANTED, &g, &err),
                  HSP_EUNSUPPORTED);
    fake->reset(0);
    assert_status(hsp_gpuwatch_open(library, NULL, wanted, WANTED, &g, &err), HSP_ENODEV);
    assert_err(&err, HSP_ENODEV, "NVML knows none of the GPUs");
    assert_null(g);
    assert_int_equal(fake->open(), 0);
}

static void names_of_gpus(void **state)
{
    const uint8_t b[16] = {0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                           8, 9,    0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    char text[HSP_UUID_MAX + 1];
    (void)state;
    hsp_gpu_uuid(b, text);
    assert_string_equal(text, "GPU-00112233-4455-6677-0809-aabbccddeeff");
}

/* ---- into the machine ---- */

struct node {
    uv_loop_t loop;
    struct hsp_agent *agent;
    uint32_t n_lost, n_warned, n_killed;
    uint64_t lost, warned; /* devices, a bit each */
    uint32_t wait;         /* for so many lost ones */
};

static void step(struct node *w, struct hsp_agent_event ev)
{
    struct hsp_agent_actions acts;
    struct hsp_err err = {0};
    ev.now_ms = uv_hrtime() / 1000000;
    assert_ok(hsp_agent_step(w->agent, &ev, &acts, &err), &err);
    for (uint32_t i = 0; i < acts.n; i++) {
        w->n_killed += acts.item[i].type == HSP_AACT_KILL;
    }
}

static void sink(void *ctx, uint32_t device, const struct hsp_gpu_sign *s)
{
    struct node *w = ctx;
    step(w, (struct hsp_agent_event){.type = HSP_AEV_SIGN, .device = device, .sign = s});
    const struct hsp_gpu_health *h = &hsp_agent_device_at(w->agent, device)->health;
    w->lost |= h->verdict == HSP_GPU_LOST ? UINT64_C(1) << device : 0;
    w->warned |= h->verdict == HSP_GPU_WARN ? UINT64_C(1) << device : 0;
    if ((uint32_t)__builtin_popcountll(w->lost) == w->wait) {
        uv_stop(&w->loop);
    }
}

static void signs_reach_the_machine(void **state)
{
    struct hsp_agent_config cfg;
    struct hsp_m_device dev[WANTED];
    struct node w = {.wait = 3};
    struct hsp_err err;
    (void)state;
    fake->reset(3);
    struct hsp_gpuwatch *g = open_all();
    hsp_agent_defaults(&cfg);
    cfg.node = "n";
    cfg.n_devices = WANTED;
    cfg.devices = dev;
    for (uint32_t i = 0; i < WANTED; i++) {
        dev[i] = (struct hsp_m_device){.kind = "cuda"};
        hsp_gpuwatch_describe(g, i, &dev[i]);
    }
    w.agent = hsp_agent_new(&cfg);
    assert_non_null(w.agent);
    step(&w, (struct hsp_agent_event){.type = HSP_AEV_START});
    assert_int_equal(uv_loop_init(&w.loop), 0);
    assert_ok(hsp_gpuwatch_start(g, &w.loop, sink, &w, &err), &err);
    for (int k = 0; k < 20; k++) {
        fake->event(0, 8, 31); /* of GPU 0, device 2; the same again and again */
    }
    fake->event(2, 8, 79);     /* devices 0 and 4 */
    fake->gpu(1)->lost = true; /* device 3: found by asking */
    assert_int_equal(uv_run(&w.loop, UV_RUN_DEFAULT), 1);
    hsp_gpuwatch_stop(g);
    hsp_gpuwatch_stop(g); /* again: nothing */
    assert_int_equal(uv_run(&w.loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    assert_int_equal(w.lost, 1u << 0 | 1u << 3 | 1u << 4);
    assert_int_equal(w.warned, 1u << 2);
    assert_int_equal(w.n_killed, 3);
    assert_string_equal(hsp_agent_device_at(w.agent, 0)->health.why, "XID 79: fallen off the bus");
    assert_string_equal(hsp_agent_device_at(w.agent, 3)->health.why,
                        "the driver does not reach it");
    (void)hsp_agent_free(w.agent);
    (void)hsp_gpuwatch_close(g);
    assert_int_equal(fake->open(), 0);
}

HSP_TEST_FILE(gpu_monitor_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_found),           cmocka_unit_test(paths_between_devices),
        cmocka_unit_test(hosts_without),           cmocka_unit_test(names_of_gpus),
        cmocka_unit_test(signs_reach_the_machine),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
