#include "daemon/cluster/row_read.h"

#include <string.h>

#include "daemon/cluster/row_forms.h"
#include "proto/base/str.h"

void hsp_cluster_restored_row(uint64_t least, struct hsp_buf *out)
{
    hsp_buf_u8(out, ROW_VERSION);
    hsp_buf_u64(out, least);
}

bool hsp_cluster_row_restored(const struct hsp_cluster_row *row, uint64_t *ret_least)
{
    struct hsp_cursor r;
    hsp_cur_init(&r, row->value, row->len);
    uint8_t version = hsp_cur_u8(&r);
    uint64_t least = hsp_cur_u64(&r);
    if (strcmp(row->key, HSP_RESTORED_ROW) != 0 || r.failed || version < ROW_OLDEST ||
        version > ROW_VERSION) {
        return false;
    }
    *ret_least = least;
    return true;
}

/* The greatest generation that members have obeyed, which follows the generation in the row. */
static uint64_t ahead_of_row(struct hsp_cursor *r, uint8_t version)
{
    size_t n;
    (void)hsp_cur_u8(r);
    (void)hsp_cur_blob(r, HSP_PATH_MAX, &n);
    if (version >= ROW_HELLO) {
        (void)hsp_cur_blob(r, HSP_PATH_MAX, &n);
    }
    return version >= ROW_DOUBT ? hsp_cur_u64(r) : 0;
}

bool hsp_cluster_row_whose(const struct hsp_cluster_row *row, struct hsp_whose *ret)
{
    struct hsp_cursor r;
    struct hsp_whose w;
    hsp_cur_init(&r, row->value, row->len);
    uint8_t version = hsp_cur_u8(&r);
    w.cluster.hi = hsp_cur_u64(&r);
    w.cluster.lo = hsp_cur_u64(&r);
    w.generation = hsp_cur_u64(&r);
    uint64_t ahead = ahead_of_row(&r, version);
    bool further = hsp_generation_number(ahead) > hsp_generation_number(w.generation);
    w.generation = further ? ahead : w.generation;
    if (strcmp(row->key, "cluster") != 0 || r.failed || version < ROW_OLDEST ||
        version > ROW_VERSION) {
        return false;
    }
    *ret = w;
    return true;
}

bool hsp_cluster_row_job_name(const struct hsp_cluster_row *row, char ret[HSP_NAME_MAX + 1])
{
    struct hsp_cursor r;
    uint64_t number;
    size_t n = 0;
    hsp_cur_init(&r, row->value, row->len);
    uint8_t version = hsp_cur_u8(&r);
    bool job = strncmp(row->key, "job/", 4) == 0 && hsp_parse_u64(row->key + 4, &number) &&
               version >= ROW_OLDEST && version <= ROW_VERSION && hsp_cur_u32(&r) == number;
    const uint8_t *name = hsp_cur_blob(&r, HSP_NAME_MAX, &n);
    if (!job || name == NULL || n == 0) {
        return false;
    }
    memcpy(ret, name, n);
    ret[n] = '\0';
    return true;
}
