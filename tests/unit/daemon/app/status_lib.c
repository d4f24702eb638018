#include "tests/unit/daemon/app/status_lib.h"

#include "tests/unit/daemon/app/app_lib.h"

double status_number(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    assert_true(cJSON_IsNumber(v));
    return v->valuedouble;
}

const char *status_text(const cJSON *o, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

struct hsp_app *status_app(uint32_t n)
{
    static const struct app_node nodes[] = {
        {"a", 1, 1 << 30}, {"b", 1, 1 << 30}, {"c", 1, 1 << 30}};
    struct hsp_app *a = calloc(1, sizeof *a);
    assert_non_null(a);
    a->cluster = app_cluster(nodes, n);
    a->address = "here";
    return a;
}

void status_app_end(struct hsp_app *a)
{
    app_cluster_free(a->cluster);
    free(a);
}

void status_knows(struct hsp_app *a, struct hsp_job *j, struct hsp_app_job *told)
{
    a->jobs = told;
    a->n_jobs = 1;
    a->cluster->jobs[a->cluster->n_jobs++] = j;
}

cJSON *status_of(struct hsp_app *a, const char *of)
{
    char *text = hsp_app_status(a, of);
    assert_non_null(text);
    cJSON *all = cJSON_Parse(text);
    cJSON_free(text);
    return all;
}

cJSON *status_job(struct hsp_app *a, cJSON **ret)
{
    *ret = status_of(a, "j");
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(*ret, "jobs"), 0);
}
