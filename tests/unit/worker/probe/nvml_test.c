#include "worker/probe/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/fakenvml/fakenvml.h"
#include "tests/lib/testlib.h"
#include "worker/probe/gpu_locality.h"

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

static struct hsp_nvml *open_fake(const char *sys)
{
    struct hsp_nvml *n = NULL;
    struct hsp_err err;
    assert_ok(hsp_nvml_open(library, sys, &n, &err), &err);
    return n;
}

static void gpus_are_found(void **state)
{
    struct hsp_gpu g;
    struct hsp_err err;
    (void)state;
    fake->reset(2);
    fake->gpu(1)->mig = true;
    struct hsp_nvml *n = open_fake("/nowhere");
    assert_int_equal(hsp_nvml_count(n), 2);
    assert_ok(hsp_nvml_gpu(n, 0, &g, &err), &err);
    assert_string_equal(g.uuid, "GPU-fake-0");
    assert_string_equal(g.name, "NVIDIA Fake");
    assert_string_equal(g.pci, "0000:3b:00.0");
    assert_true(g.memory_bytes == UINT64_C(80) << 30);
    assert_int_equal(g.sm, 90);
    assert_int_equal(g.numa, -1);
    assert_string_equal(g.card, "");
    assert_false(g.mig);
    assert_ok(hsp_nvml_gpu(n, 1, &g, &err), &err);
    assert_true(g.mig);
    assert_status(hsp_nvml_gpu(n, 2, &g, &err), HSP_ENODEV);
    fake->gpu(0)->lost = true;
    assert_status(hsp_nvml_gpu(n, 0, &g, &err), HSP_ENODEV);
    assert_err(&err, HSP_ENODEV, "GPU 0: identity: GPU is lost");
    (void)hsp_nvml_close(n);
    assert_int_equal(fake->open(), 0);
}

static void hosts_without_gpus(void **state)
{
    struct hsp_nvml *n = NULL;
    struct hsp_err err;
    (void)state;
    assert_status(hsp_nvml_open("libnot-there.so", NULL, &n, &err), HSP_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "no NVML: "));
    assert_status(hsp_nvml_open("libc.so.6", NULL, &n, &err), HSP_EUNSUPPORTED);
    assert_err(&err, HSP_EUNSUPPORTED, "libc.so.6 has no nvmlInit_v2");
    fake->reset(0);
    fake->no_driver();
    assert_status(hsp_nvml_open(library, NULL, &n, &err), HSP_EUNSUPPORTED);
    assert_err(&err, HSP_EUNSUPPORTED, "no GPUs: not supported");
    assert_null(n);
    assert_int_equal(fake->open(), 0);
}

static void paths_between_gpus(void **state)
{
    unsigned links = 9;
    (void)state;
    fake->reset(6);
    fake->gpu(0)->link[0] = fake->gpu(0)->link[3] = 2; /* two to GPU 1 */
    fake->gpu(1)->link[0] = fake->gpu(1)->link[1] = 1;
    for (int k = 0; k < 6; k++) {
        fake->gpu(2)->link[k] = -1;
        fake->gpu(4)->link[k] = k < 4 ? -1 : 0;
    }
    struct hsp_nvml *n = open_fake(NULL);
    assert_int_equal(hsp_nvml_path(n, 0, 1, &links), HSP_GPU_NVLINK);
    assert_int_equal(links, 2);
    assert_int_equal(hsp_nvml_path(n, 2, 4, &links), HSP_GPU_NVSWITCH);
    assert_int_equal(links, 4);
    assert_int_equal(hsp_nvml_path(n, 2, 3, &links), HSP_GPU_PCI_SWITCH);
    assert_int_equal(links, 0);
    assert_int_equal(hsp_nvml_path(n, 3, 5, &links), HSP_GPU_SYSTEM);
    assert_near(hsp_gpu_path_rate(HSP_GPU_NVLINK, 4, 90), 80e9, 1);
    assert_near(hsp_gpu_path_rate(HSP_GPU_NVSWITCH, 18, 103), 720e9, 1);
    assert_near(hsp_gpu_path_rate(HSP_GPU_NVLINK, 4, 50), 0, 0);
    assert_near(hsp_gpu_path_rate(HSP_GPU_PCI_SWITCH, 0, 90), 0, 0);
    (void)hsp_nvml_close(n);
}

/* ---- signs ---- */

static struct hsp_gpu_health health[HSP_FAKENVML_GPUS];
static unsigned n_signs[HSP_FAKENVML_GPUS];
static uint64_t now_ms;

static void sink(void *ctx, unsigned i, const struct hsp_gpu_sign *s)
{
    (void)ctx;
    n_signs[i]++;
    (void)hsp_gpu_health_sign(&health[i], s, now_ms);
}

static void watch(struct hsp_nvml *n)
{
    memset(n_signs, 0, sizeof n_signs);
    now_ms += 1000;
    hsp_nvml_hear(n, 0, sink, NULL);
    hsp_nvml_look(n, sink, NULL);
}

static void signs_become_verdicts(void **state)
{
    (void)state;
    memset(health, 0, sizeof health);
    fake->reset(5);
    fake->gpu(1)->no_ecc = true;
    fake->gpu(2)->uncorrected = 4; /* of before */
    fake->gpu(3)->slow = 4;        /* a power cap: as ever */
    struct hsp_nvml *n = open_fake(NULL);
    watch(n);
    assert_int_equal(n_signs[0], 5); /* two counts, two of rows, clocks */
    assert_int_equal(n_signs[1], 1); /* clocks alone */
    for (int k = 0; k < 5; k++) {
        assert_int_equal(health[k].verdict, HSP_GPU_FINE);
    }
    fake->event(0, 8, 31);
    fake->event(0, 8, 74);
    fake->event(1, 2, 0);
    fake->gpu(2)->uncorrected = 5;
    fake->gpu(3)->slow = 0x40;
    fake->gpu(4)->lost = true;
    watch(n);
    assert_int_equal(health[0].verdict, HSP_GPU_CORDON);
    assert_string_equal(health[0].why, "XID 74: NVLink error");
    assert_int_equal(health[1].verdict, HSP_GPU_CORDON);
    assert_int_equal(health[2].verdict, HSP_GPU_CORDON);
    assert_int_equal(health[3].verdict, HSP_GPU_FINE); /* not for long yet */
    assert_int_equal(health[4].verdict, HSP_GPU_LOST);
    now_ms += HSP_GPU_SLOW_MS;
    watch(n);
    assert_int_equal(health[3].verdict, HSP_GPU_WARN);
    assert_int_equal(n_signs[4], 0); /* once is enough */
    (void)hsp_nvml_close(n);
}

static void a_gpu_that_was_lost_before(void **state)
{
    (void)state;
    memset(health, 0, sizeof health);
    fake->reset(2);
    fake->gpu(0)->lost = true;
    struct hsp_nvml *n = open_fake(NULL);
    watch(n);
    assert_int_equal(health[0].verdict, HSP_GPU_LOST);
    assert_int_equal(health[1].verdict, HSP_GPU_FINE);
    (void)hsp_nvml_close(n);
}

/* ---- places ---- */

static void make_folder(const char *root, const char *at)
{
    char path[700], *p = path + strlen(root) + 1;
    (void)snprintf(path, sizeof path, "%s/%s", root, at);
    for (; *p != '\0'; p++) {
        if (*p == '/') {
            *p = '\0';
            (void)mkdir(path, 0700);
            *p = '/';
        }
    }
    (void)mkdir(path, 0700);
}

static void make_link(const char *root, const char *from, const char *to)
{
    char a[700], b[700];
    (void)snprintf(a, sizeof a, "%s/%s", root, from);
    (void)snprintf(b, sizeof b, "%s/%s", root, to);
    assert_int_equal(symlink(b, a), 0);
}

static void the_nearest_card(void **state)
{
    char *root = hsp_test_tmpdir(), path[700], card[16];
    (void)state;
    make_folder(root, "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0");
    make_folder(root, "devices/pci0000:3a/0000:3a:00.0/0000:3c:00.0");
    make_folder(root, "devices/pci0000:3a/0000:3a:01.0/0000:3d:00.0");
    make_folder(root, "devices/pci0000:a0/0000:a1:00.0");
    make_folder(root, "bus/pci/devices");
    make_folder(root, "class/net/eth0");
    make_folder(root, "class/net/eth1");
    make_folder(root, "class/net/eth2");
    make_folder(root, "class/net/lo");
    make_link(root, "bus/pci/devices/0000:3b:00.0", "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0");
    make_link(root, "bus/pci/devices/0000:a1:00.0", "devices/pci0000:a0/0000:a1:00.0");
    make_link(root, "class/net/eth0/device", "devices/pci0000:3a/0000:3a:01.0/0000:3d:00.0");
    make_link(root, "class/net/eth2/device", "devices/pci0000:3a/0000:3a:00.0/0000:3c:00.0");
    make_link(root, "class/net/eth1/device", "devices/pci0000:3a/0000:3a:00.0/0000:3c:00.0");
    (void)snprintf(path, sizeof path, "%s/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/numa_node",
                   root);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs("1\n", f);
    (void)fclose(f);
    assert_int_equal(hsp_gpu_numa(root, "0000:3b:00.0"), 1);
    assert_int_equal(hsp_gpu_numa(root, "0000:a1:00.0"), -1);
    char cpus[16];
    hsp_gpu_cpus(root, "0000:3b:00.0", cpus, sizeof cpus);
    assert_string_equal(cpus, "");
    (void)snprintf(path, sizeof path,
                   "%s/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/local_cpulist", root);
    f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs("0-23,48-71\n", f);
    (void)fclose(f);
    hsp_gpu_cpus(root, "0000:3b:00.0", cpus, sizeof cpus);
    assert_string_equal(cpus, "0-23,48-71");
    hsp_gpu_cpus(root, "0000:3b:00.0", cpus, 10); /* not a part of it */
    assert_string_equal(cpus, "");
    hsp_gpu_card(root, "0000:3b:00.0", card, sizeof card);
    assert_string_equal(card, "eth1"); /* below the same bridge; of two ports the first */
    hsp_gpu_card(root, "0000:a1:00.0", card, sizeof card);
    assert_string_equal(card, "");
    hsp_gpu_card(root, "0000:ff:00.0", card, sizeof card);
    assert_string_equal(card, "");
    hsp_test_rmdir(root);
    free(root);
}

HSP_TEST_FILE(nvml_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_are_found),
        cmocka_unit_test(hosts_without_gpus),
        cmocka_unit_test(paths_between_gpus),
        cmocka_unit_test(signs_become_verdicts),
        cmocka_unit_test(a_gpu_that_was_lost_before),
        cmocka_unit_test(the_nearest_card),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
