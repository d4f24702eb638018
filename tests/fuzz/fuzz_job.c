/* Reads job files: an accepted one, printed with all defaults, reads back as the same job. */
#include <string.h>

#include "daemon/planner/job_file.h"
#include "proto/text/yaml_parse.h"
#include "tests/fuzz/fuzz.h"

enum { TEXT_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct hsp_arena *arena = hsp_fuzz_arena();
    struct hsp_err err = {0};
    const struct hsp_job_spec *job = NULL, *back = NULL;
    enum hsp_status st = hsp_job_parse((const char *)data, len, "fuzz", arena, &job, &err);
    if (st != HSP_OK) {
        HSP_ASSERT(st == HSP_EPARSE || st == HSP_ELIMIT || st == HSP_ENOMEM);
        HSP_ASSERT(st != HSP_EPARSE || strncmp(err.msg, "fuzz:", 5) == 0);
        HSP_ASSERT(err.msg[0] != '\0' && strchr(err.msg, '\n') == NULL);
        return 0;
    }
    HSP_ASSERT(job->min >= 1 && job->min <= job->max);
    struct hsp_buf one, two, json;
    hsp_buf_init(&one, TEXT_MAX);
    hsp_buf_init(&two, TEXT_MAX);
    hsp_buf_init(&json, TEXT_MAX);
    hsp_job_dump(job, len % 2 == 0, &one);
    if (hsp_job_parse(hsp_buf_cstr(&one), one.len, "dump", arena, &back, &err) != HSP_OK) {
        hsp_assert_fail(err.msg, __FILE__, __LINE__);
    }
    hsp_job_dump(back, len % 2 == 0, &two);
    hsp_fuzz_same(&one, &two);
    hsp_job_model_json(job, &json); /* a JSON text is a YAML text */
    const struct hsp_yaml *y = NULL;
    if (hsp_yaml_parse("json", json.data, json.len, arena, &y, &err) != HSP_OK) {
        hsp_assert_fail(err.msg, __FILE__, __LINE__);
    }
    HSP_ASSERT(y->kind == HSP_YAML_MAP);
    hsp_buf_fini(&one);
    hsp_buf_fini(&two);
    hsp_buf_fini(&json);
    return 0;
}

const struct hsp_fuzz_target hsp_fuzz = {.name = "job", .folder = "conf/jobs"};
