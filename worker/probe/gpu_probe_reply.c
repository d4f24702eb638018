#include "worker/probe/gpu_probe_reply.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/size.h"

/* Figures of a probe: name, where, and whether it may be 0. */
struct figure {
    const char *key;
    size_t offset;
    bool may_lack;
};
#define FIGURE(m, may)                           \
    {                                            \
#m, offsetof(struct hsp_probe, m), (may) \
    }
static const struct figure figures[] = {
    FIGURE(gemm_fp32_flops, false), FIGURE(gemm_fp64_flops, false), FIGURE(gemm_tf32_flops, true),
    FIGURE(gemm_bf16_flops, true),  FIGURE(mem_bytes_per_s, false), FIGURE(op_us, true),
    FIGURE(gemm_us, true),          FIGURE(host_bytes_per_s, true)};

#define N_PARTS (HSP_N_RATES * HSP_N_GEMM_CLASSES)

static double *figure_of(struct hsp_probe *p, size_t i)
{
    return (double *)(void *)((uint8_t *)p + figures[i].offset);
}

/* As NVIDIA writes it. */
static void print_uuid(const uint8_t u[16], struct hsp_buf *out)
{
    hsp_buf_puts(out, "GPU-");
    for (int i = 0; i < 16; i++) {
        hsp_buf_printf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
    }
}

void hsp_gpu_answer_print(const struct hsp_device_info *d, const struct hsp_probe *p,
                          struct hsp_buf *out)
{
    struct hsp_probe copy = *p;
    hsp_buf_puts(out, "{\"name\":\"");
    for (const char *s = d->name; *s != '\0';
         s++) { /* of the driver; nothing to quote is expected */
        hsp_buf_u8(out, *s < 0x20 || *s > 0x7e || *s == '"' || *s == '\\' ? '?' : (uint8_t)*s);
    }
    hsp_buf_printf(out, "\",\"pci\":\"%s\",\"uuid\":\"", d->pci);
    print_uuid(d->uuid, out);
    hsp_buf_printf(out,
                   "\",\"sm\":%d,\"n_sms\":%d,\"memory_bytes\":%zu,\"free_bytes\":%zu,\"bf16\":%s",
                   d->sm, d->n_sms, d->memory_bytes, d->free_bytes, d->bf16 ? "true" : "false");
    for (size_t i = 0; i < HSP_ARRAY_LEN(figures); i++) {
        hsp_buf_printf(out, ",\"%s\":%.6g", figures[i].key, *figure_of(&copy, i));
    }
    for (int i = 0; i < N_PARTS; i++) {
        hsp_buf_printf(out, "%s%.4g", i == 0 ? ",\"gemm_parts\":[" : ",",
                       p->gemm_part[i / HSP_N_GEMM_CLASSES][i % HSP_N_GEMM_CLASSES]);
    }
    hsp_buf_puts(out, "]}\n");
}

static enum hsp_status bad(struct hsp_err *err, const char *what)
{
    return hsp_err_set(err, HSP_EPROTO, 0, "no answer of a GPU: %s", what);
}

static bool take_text(const cJSON *o, const char *key, char *ret, size_t size)
{
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    if (s == NULL || strlen(s) >= size) {
        return false;
    }
    (void)snprintf(ret, size, "%s", s);
    return true;
}

static bool take_number(const cJSON *o, const char *key, double least, double most, double *ret)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= least) || !(v->valuedouble <= most)) {
        return false;
    }
    *ret = v->valuedouble;
    return true;
}

static bool take_uuid(const cJSON *o, uint8_t ret[16])
{
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "uuid"));
    size_t at = 4;
    if (s == NULL || strlen(s) != 40 || strncmp(s, "GPU-", 4) != 0) {
        return false;
    }
    for (int i = 0; i < 16; i++, at += 2) {
        unsigned v;
        at += s[at] == '-' ? 1 : 0;
        if (sscanf(s + at, "%2x", &v) != 1) {
            return false;
        }
        ret[i] = (uint8_t)v;
    }
    return true;
}

static const char *take_info(const cJSON *o, struct hsp_device_info *d)
{
    double sm, n, memory, unused;
    const cJSON *bf16 = cJSON_GetObjectItemCaseSensitive(o, "bf16");
    if (!take_text(o, "name", d->name, sizeof(d->name)) ||
        !take_text(o, "pci", d->pci, sizeof(d->pci)) || !take_uuid(o, d->uuid)) {
        return "its identity";
    }
    if (!take_number(o, "sm", 1, 1e4, &sm) || !take_number(o, "n_sms", 1, 1e6, &n) ||
        !take_number(o, "memory_bytes", 1, 1e15, &memory) ||
        !take_number(o, "free_bytes", 0, memory, &unused) || !cJSON_IsBool(bf16)) {
        return "its properties";
    }
    d->sm = (int)sm;
    d->n_sms = (int)n;
    d->memory_bytes = (size_t)memory;
    d->free_bytes = (size_t)unused;
    d->bf16 = cJSON_IsTrue(bf16);
    return NULL;
}

/* Reads the parts of each type of element one after the other, all of them. */
static const char *take_parts(const cJSON *o, struct hsp_probe *p)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "gemm_parts");
    bool good = cJSON_IsArray(list) && cJSON_GetArraySize(list) == N_PARTS;
    const cJSON *v = good ? list->child : NULL;
    for (int i = 0; v != NULL && good; v = v->next, i++) {
        double x = cJSON_IsNumber(v) ? v->valuedouble : -1;
        good = x >= 0 && x <= HSP_GEMM_PART_MOST;
        p->gemm_part[i / HSP_N_GEMM_CLASSES][i % HSP_N_GEMM_CLASSES] = x;
    }
    return good ? NULL : "gemm_parts";
}

enum hsp_status hsp_gpu_answer_parse(const char *text, size_t len, struct hsp_device_info *ret,
                                     struct hsp_probe *ret_can, struct hsp_err *err)
{
    struct hsp_device_info d = {.sm = 0};
    struct hsp_probe p = {.share = 1};
    cJSON *o = cJSON_ParseWithLength(text, len);
    const char *fault = o == NULL ? "not JSON" : take_info(o, &d);
    for (size_t i = 0; fault == NULL && i < HSP_ARRAY_LEN(figures); i++) {
        double least = figures[i].may_lack ? 0 : 1;
        fault =
            take_number(o, figures[i].key, least, 1e18, figure_of(&p, i)) ? NULL : figures[i].key;
    }
    fault = fault != NULL ? fault : take_parts(o, &p);
    enum hsp_status st = fault == NULL ? HSP_OK : bad(err, fault);
    cJSON_Delete(o);
    if (st == HSP_OK) {
        *ret = d;
        *ret_can = p;
    }
    return st;
}

void hsp_gpu_paths_print(const struct hsp_probe_path *p, uint32_t n, struct hsp_buf *out)
{
    hsp_buf_puts(out, "{\"paths\":[");
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(out,
                       "%s{\"a\":%" PRIu32 ",\"b\":%" PRIu32
                       ",\"direct\":%s,\"bytes_per_s\":%.6g,\"latency_us\":%.4g}",
                       i == 0 ? "" : ",", p[i].a, p[i].b, p[i].direct ? "true" : "false",
                       p[i].bytes_per_s, p[i].latency_us);
    }
    hsp_buf_puts(out, "]}\n");
}

static bool take_path(const cJSON *o, struct hsp_probe_path *p)
{
    double a, b;
    const cJSON *direct = cJSON_GetObjectItemCaseSensitive(o, "direct");
    bool good = take_number(o, "a", 0, 1023, &a) && take_number(o, "b", 0, 1023, &b) && a < b &&
                a - floor(a) <= 0 && b - floor(b) <= 0 && cJSON_IsBool(direct) &&
                take_number(o, "bytes_per_s", 1, 1e15, &p->bytes_per_s) &&
                take_number(o, "latency_us", 0, 1e9, &p->latency_us);
    if (good) {
        p->a = (uint32_t)a;
        p->b = (uint32_t)b;
        p->direct = cJSON_IsTrue(direct);
    }
    return good;
}

enum hsp_status hsp_gpu_paths_parse(const char *text, size_t len,
                                    struct hsp_probe_path ret[HSP_NODE_PATHS], uint32_t *ret_n,
                                    struct hsp_err *err)
{
    cJSON *o = cJSON_ParseWithLength(text, len);
    const cJSON *v, *list = cJSON_GetObjectItemCaseSensitive(o, "paths");
    const char *fault = o == NULL ? "not JSON" : !cJSON_IsArray(list) ? "no paths" : NULL;
    uint32_t n = 0;
    cJSON_ArrayForEach(v, list)
    {
        if (fault == NULL && (n == HSP_NODE_PATHS || !take_path(v, &ret[n++]))) {
            fault = "a path";
        }
    }
    enum hsp_status st = fault == NULL ? HSP_OK : bad(err, fault);
    cJSON_Delete(o);
    *ret_n = st == HSP_OK ? n : 0;
    return st;
}
