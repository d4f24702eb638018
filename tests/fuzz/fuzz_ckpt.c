/* Reads checkpoints: damaged metadata is refused, and accepted ones can be read. Input: a byte,
 * then 0: the manifest of a whole step; its digest is made right, no fuzzer finds it; 1: the shard
 * of a step that is to be committed. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "proto/host/file_io.h"
#include "proto/layout/box.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/worker/state/shard_write.h"
#include "worker/state/ckpt.h"
#include "worker/state/ckpt_files.h"
#include "worker/state/ckpt_read.h"
#include "worker/state/ckpt_shard.h"

enum { FILE_MAX = 1 << 20, TENSOR_MAX = 4096 };

#define SHARD "shard-00001-model-00001-of-00001.safetensors"

static const struct hsp_ckpt_info info = {"gpt", 1, 2, 7, 1, 2, 9, {{1, 2}, 3}, false};
static const struct hsp_data_cursor place = {.pass_samples = 5, .samples = 12, .sequence = 8};
static char dir[64], whole[128], tmp[256]; /* "" before setup */

static void say(enum hsp_status st, const struct hsp_err *err)
{
    if (st != HSP_OK) {
        hsp_assert_fail(err->msg, __FILE__, __LINE__);
    }
}

static void write_one(void)
{
    static const int64_t full[2][HSP_MAX_RANK] = {{2, 3}, {4}};
    static const float data[6] = {1, 2, 3, 4, 5, 6};
    struct hsp_err err = {0};
    uint64_t bytes;
    struct hsp_ckpt_piece p[2] = {
        {"a.weight", 0, 0, HSP_F32, full[0], hsp_box_whole(2, full[0]), {0}, data, 0},
        {"b.bias", 1, 0, HSP_F32, full[1], hsp_box_whole(1, full[1]), {0}, data, 0}};
    p[0].held = p[0].box;
    p[1].held = p[1].box;
    say(shard_write(dir, &info, 0, p, 2, &bytes, &err), &err);
}

static enum hsp_status remove_step(const char *path)
{
    struct hsp_folder job;
    enum hsp_status st = hsp_folder_open(dir, false, &job, NULL);
    if (st == HSP_OK) {
        st = hsp_folder_remove(&job, path + strlen(dir) + 1, HSP_CKPT_MANIFEST, NULL);
        hsp_folder_close(&job);
    }
    return st;
}

static void at_exit(void)
{
    (void)remove_step(whole);
    (void)remove_step(tmp);
    (void)rmdir(dir);
}

static void setup(void)
{
    char name[HSP_CKPT_NAME];
    if (dir[0] == '\0') {
        (void)snprintf(dir, sizeof dir, "/dev/shm/hspmd-fuzz-XXXXXX");
        HSP_ASSERT(mkdtemp(dir) != NULL);
        (void)snprintf(whole, sizeof whole, "%s/step-0000000001", dir);
        hsp_ckpt_tmp_name(&info, name);
        (void)snprintf(tmp, sizeof tmp, "%s/%s", dir, name);
        (void)atexit(at_exit);
    }
}

static void put(const char *folder, const char *name, const void *data, size_t len)
{
    char path[512];
    struct hsp_err err = {0};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    say(hsp_file_write(path, data, len, 0644, &err), &err);
}

static void get(const char *folder, const char *name, struct hsp_buf *out)
{
    char path[256];
    uint8_t *data = NULL;
    size_t len = 0;
    struct hsp_err err = {0};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    say(hsp_file_read(path, FILE_MAX, &data, &len, &err), &err);
    hsp_buf_append(out, data, len);
    free(data);
}

static void read_all(const struct hsp_ckpt *c)
{
    struct hsp_err err = {0};
    for (size_t i = 0; i < hsp_ckpt_count(c); i++) {
        static double data[TENSOR_MAX];
        const struct hsp_ckpt_tensor *t = hsp_ckpt_tensor_at(c, i);
        struct hsp_box box = hsp_box_whole(t->rank, t->full);
        if (hsp_box_count(&box) <= TENSOR_MAX) {
            enum hsp_status st = hsp_ckpt_read(c, t, &box, &box, data, &err);
            HSP_ASSERT(st == HSP_OK || st == HSP_EDIGEST);
        }
        HSP_ASSERT(hsp_ckpt_find(c, t->name, t->kind) != NULL);
    }
    HSP_ASSERT(hsp_data_cursor_sample(hsp_ckpt_data(c)) < hsp_ckpt_data(c)->pass_samples);
    enum hsp_status st = hsp_ckpt_verify(c, &err);
    HSP_ASSERT(st == HSP_OK || st == HSP_EDIGEST);
}

static void open_step(bool must)
{
    struct hsp_ckpt *c = NULL;
    struct hsp_err err = {0};
    enum hsp_status st = hsp_ckpt_open(dir, 1, info.job_id, &c, &err);
    if (st == HSP_OK) {
        read_all(c);
        (void)hsp_ckpt_close(c);
        return;
    }
    HSP_ASSERT(!must);
    HSP_ASSERT(st == HSP_EDIGEST || st == HSP_EVERSION || st == HSP_EIO);
    HSP_ASSERT(err.msg[0] != '\0' && strchr(err.msg, '\n') == NULL);
}

static void try_manifest(const uint8_t *data, size_t len)
{
    struct hsp_err err = {0};
    write_one();
    say(hsp_ckpt_commit(dir, &info, &place, "{}", NULL, &err), &err);
    cJSON *o = cJSON_ParseWithLength((const char *)data, len);
    if (cJSON_IsObject(o)) {
        char digits[24];
        cJSON_DeleteItemFromObjectCaseSensitive(o, "digest");
        char *text = cJSON_PrintUnformatted(o);
        (void)snprintf(digits, sizeof digits, "%llu",
                       (unsigned long long)hsp_hash64(text, strlen(text), HSP_CKPT_FORMAT));
        cJSON_free(text);
        (void)cJSON_AddStringToObject(o, "digest", digits);
        text = cJSON_PrintUnformatted(o);
        put(whole, HSP_CKPT_MANIFEST, text, strlen(text));
        cJSON_free(text);
    } else {
        put(whole, HSP_CKPT_MANIFEST, data, len);
    }
    cJSON_Delete(o);
    open_step(false);
}

static void try_shard(const uint8_t *data, size_t len)
{
    struct hsp_err err = {0};
    HSP_ASSERT(mkdir(tmp, 0700) == 0);
    put(tmp, SHARD, data, len);
    enum hsp_status st = hsp_ckpt_commit(dir, &info, &place, "{}", NULL, &err);
    if (st == HSP_OK) {
        open_step(true);
    } else {
        HSP_ASSERT(st != HSP_ENOENT && err.msg[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 1 || len > FILE_MAX) {
        return 0;
    }
    setup();
    (data[0] % 2 == 0 ? try_manifest : try_shard)(data + 1, len - 1);
    HSP_ASSERT(remove_step(whole) == HSP_OK);
    HSP_ASSERT(remove_step(tmp) == HSP_OK);
    return 0;
}

static bool seed(size_t i, struct hsp_buf *out)
{
    struct hsp_err err = {0};
    setup();
    write_one();
    say(hsp_ckpt_commit(dir, &info, &place, "{}", NULL, &err), &err);
    hsp_buf_u8(out, (uint8_t)i);
    get(whole, i == 0 ? HSP_CKPT_MANIFEST : SHARD, out);
    HSP_ASSERT(remove_step(whole) == HSP_OK);
    return i < 2;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "ckpt", .seed = seed};
