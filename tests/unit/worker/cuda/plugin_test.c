/* Tests the search for the library of a device, and the messages if there is none. */
#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/testlib.h"
#include "worker/backend/plugin.h"

static const char *built(const char *name)
{
    static char path[4][PATH_MAX], real[PATH_MAX];
    static int next;
    const char *build = getenv("HSPMD_BUILD");
    assert_non_null(build);
    assert_non_null(realpath(build, real));
    next = (next + 1) % 4;
    (void)snprintf(path[next], PATH_MAX, "%s/tests/unit/worker/cuda/%s", real, name);
    return path[next];
}

static enum hsp_status load(const char *driver, const char *plugin,
                            const struct hsp_device_plugin **ret, struct hsp_err *err)
{
    struct hsp_plugin_paths p = {.driver = driver, .plugin = plugin};
    return hsp_plugin_load(&p, ret, err);
}

static void test_reasons(void **state)
{
    (void)state;
    struct hsp_err err;
    const struct hsp_device_plugin *p = NULL;
    const char *driver = built("noplugin.so");
    assert_status(load("/nowhere/libcuda.so.1", built("goodplugin.so"), &p, &err), HSP_ENODEV);
    assert_non_null(strstr(err.msg, "no GPU: no driver: /nowhere/libcuda.so.1"));
    assert_status(load(driver, "/nowhere/hspmd-cuda.so", &p, &err), HSP_ENODEV);
    assert_non_null(strstr(err.msg, "no GPU: hspmd-cuda.so: /nowhere/hspmd-cuda.so"));
    assert_status(load(driver, built("noplugin.so"), &p, &err), HSP_ENODEV);
    assert_non_null(strstr(err.msg, "hsp_cuda_plugin"));
    assert_status(load(driver, built("oldplugin.so"), &p, &err), HSP_ENODEV);
    assert_non_null(strstr(err.msg, "oldplugin.so has interface 1, not "));
    assert_null(p);
    assert_null(strchr(err.msg, '\n'));
}

static void test_it_is_found(void **state)
{
    (void)state;
    struct hsp_err err;
    const struct hsp_device_plugin *p = NULL;
    int n = 0;
    assert_ok(load(built("noplugin.so"), built("goodplugin.so"), &p, &err), &err);
    assert_ok(p->count(&n, &err), &err);
    assert_int_equal(n, 42);
    assert_string_equal(getenv("CUDA_MODULE_LOADING"), "EAGER");
    assert_string_equal(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
    /* the folder of $HSPMD_PLUGINS comes before all others */
    char *dir = hsp_test_tmpdir(), file[PATH_MAX];
    (void)snprintf(file, sizeof(file), "%s/%s", dir, HSP_PLUGIN_FILE);
    assert_int_equal(symlink(built("oldplugin.so"), file), 0);
    assert_int_equal(setenv("HSPMD_PLUGINS", dir, 1), 0);
    assert_status(load(built("noplugin.so"), NULL, &p, &err), HSP_ENODEV);
    assert_non_null(strstr(err.msg, "interface 1"));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(symlink(built("goodplugin.so"), file), 0);
    p = NULL;
    assert_ok(load(built("noplugin.so"), NULL, &p, &err), &err);
    assert_int_equal(unsetenv("HSPMD_PLUGINS"), 0);
    hsp_test_rmdir(dir);
    free(dir);
}

/* The library lies beside the program. */
static void test_beside_the_program(void **state)
{
    (void)state;
    struct hsp_err err;
    const struct hsp_device_plugin *p = NULL;
    char file[PATH_MAX];
    (void)snprintf(file, sizeof(file), "%s", built(HSP_PLUGIN_FILE));
    (void)unlink(file);
    assert_int_equal(symlink(built("goodplugin.so"), file), 0);
    enum hsp_status st = load(built("noplugin.so"), NULL, &p, &err);
    assert_int_equal(unlink(file), 0);
    assert_ok(st, &err);
}

static void test_no_device_of_that_number(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = NULL;
    assert_status(hsp_backend_device_open(4711, NULL, &b, &err), HSP_ENODEV);
    assert_non_null(strstr(err.msg, "no GPU"));
    assert_null(b);
}

static void test_devices_are_told_apart(void **state)
{
    (void)state;
    const struct hsp_plugin_paths p = {.driver = built("noplugin.so"),
                                       .plugin = built("goodplugin.so")},
                                  none = {.driver = "/nowhere/libcuda.so.1"};
    assert_true(hsp_device_identity(&p, 0) == 0); /* a uuid of zeros counts as none */
    assert_true(hsp_device_identity(&p, 42) == 0 && hsp_device_identity(&none, 1) == 0);
    for (int k = 1; k < 42; k++) {
        assert_true(hsp_device_identity(&p, k) != 0);
        assert_true(hsp_device_identity(&p, k) == hsp_device_identity(&p, k));
        assert_true(hsp_device_identity(&p, k) != hsp_device_identity(&p, k - 1));
    }
}

/* Lists the names that a library exports, each followed by a space. */
static void shown(const char *file, char *ret, size_t bytes)
{
    struct stat st;
    size_t at = 0;
    FILE *f = fopen(file, "rb");
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    uint8_t *data = malloc((size_t)st.st_size);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)st.st_size, f), st.st_size);
    assert_int_equal(fclose(f), 0);
    Elf64_Ehdr head;
    memcpy(&head, data, sizeof(head));
    ret[0] = '\0';
    for (unsigned k = 0; k < head.e_shnum; k++) {
        Elf64_Shdr s, names;
        memcpy(&s, data + head.e_shoff + k * sizeof(s), sizeof(s));
        memcpy(&names, data + head.e_shoff + s.sh_link * sizeof(s), sizeof(names));
        for (size_t i = 0; s.sh_type == SHT_DYNSYM && i < s.sh_size; i += sizeof(Elf64_Sym)) {
            Elf64_Sym sym;
            memcpy(&sym, data + s.sh_offset + i, sizeof(sym));
            if (sym.st_shndx != SHN_UNDEF && ELF64_ST_BIND(sym.st_info) != STB_LOCAL) {
                int k2 = snprintf(ret + at, bytes - at, "%s ",
                                  (const char *)data + names.sh_offset + sym.st_name);
                at = (size_t)k2 < bytes - at ? at + (size_t)k2 : bytes - 1;
            }
        }
    }
    free(data);
}

/* The plugin of this build, if nvcc has made one, finds all that it uses and exports one symbol. */
static void test_the_real_one(void **state)
{
    (void)state;
    char file[PATH_MAX], names[500];
    (void)snprintf(file, sizeof(file), "%s/%s", getenv("HSPMD_BUILD"), HSP_PLUGIN_FILE);
    if (access(file, F_OK) != 0) {
        print_message("# this build has none\n");
        return;
    }
    char *real = realpath(file, NULL);
    assert_non_null(real);
    void *lib = dlopen(real, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) {
        fail_msg("%s", dlerror());
    }
    const struct hsp_device_plugin *p = dlsym(lib, "hsp_cuda_plugin");
    assert_non_null(p);
    assert_int_equal(p->abi, HSP_BACKEND_ABI);
    shown(real, names, sizeof(names));
    assert_string_equal(names, "hsp_cuda_plugin ");
    assert_int_equal(dlclose(lib), 0);
    free(real);
}

HSP_TEST_FILE(plugin_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_it_is_found),
        cmocka_unit_test(test_beside_the_program),
        cmocka_unit_test(test_no_device_of_that_number),
        cmocka_unit_test(test_devices_are_told_apart),
        cmocka_unit_test(test_the_real_one),
    };
    return cmocka_run_group_tests_name("plugin", tests, NULL, NULL);
}
