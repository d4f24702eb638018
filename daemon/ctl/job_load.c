/* Reads the files of a job from disk and makes its graph. */
#include "daemon/ctl/job_load.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/graph/graph_build.h"
#include "daemon/planner/annotations.h"
#include "daemon/planner/cluster_file.h"
#include "proto/host/file_io.h"
#include "proto/text/yaml.h"
#include "proto/text/yaml_parse.h"
#include "proto/text/yaml_read.h"

enum hsp_status hsp_load_text(struct hsp_arena *arena, const char *path, const char **ret,
                              size_t *ret_len, struct hsp_err *err)
{
    uint8_t *data = NULL;
    size_t len = 0;
    enum hsp_status st = hsp_file_read(path, HSP_YAML_MAX_BYTES, &data, &len, err);
    if (st != HSP_OK) {
        if (err != NULL && st != HSP_ENOMEM) {
            err->code = HSP_EPARSE;
        }
        return st == HSP_ENOMEM ? st : HSP_EPARSE;
    }
    *ret = hsp_arena_memdup(arena, data, len + 1);
    free(data);
    *ret_len = len;
    return *ret != NULL ? HSP_OK : hsp_err_nomem(err, "%s", path);
}

enum hsp_status hsp_bad_file(enum hsp_status st, struct hsp_err *err)
{
    if (st != HSP_EINVAL && st != HSP_ELIMIT) {
        return st;
    }
    if (err != NULL) {
        err->code = HSP_EPARSE;
    }
    return HSP_EPARSE;
}

static enum hsp_status load_annotations(struct hsp_arena *arena, struct hsp_loaded *l,
                                        struct hsp_err *err)
{
    const struct hsp_strs *names = &l->job->annotations;
    const char *slash = strrchr(l->path, '/');
    int dir = slash != NULL ? (int)(slash - l->path) + 1 : 0;
    l->plans = hsp_arena_array(arena, names->n, sizeof(*l->plans));
    if (l->plans == NULL) {
        return hsp_err_nomem(err, "%s", l->path);
    }
    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->items[i];
        const char *path =
            name[0] == '/' ? name : hsp_arena_printf(arena, "%.*s%s", dir, l->path, name);
        if (path == NULL) {
            return hsp_err_nomem(err, "%s", l->path);
        }
        l->plans[i].name = path;
        enum hsp_status st = hsp_load_text(arena, path, &l->plans[i].text, &l->plans[i].len, err);
        if (st != HSP_OK) {
            (void)hsp_err_wrap(err, "%s: annotations", l->path);
            return st;
        }
        l->n_plans++;
    }
    return HSP_OK;
}

static enum hsp_status build_graph(struct hsp_loaded *l, struct hsp_err *err)
{
    enum hsp_status st = hsp_graph_build(&l->job->model, &l->g, err);
    if (st != HSP_OK) {
        (void)hsp_err_wrap(err, "%s: model", l->path);
        st = hsp_bad_file(st, err);
    }
    return st;
}

enum hsp_status hsp_read_job(struct hsp_arena *arena, const char *name, const char *text,
                             size_t len, struct hsp_loaded *ret, struct hsp_err *err)
{
    *ret = (struct hsp_loaded){.path = name, .text = text, .len = len};
    enum hsp_status st =
        hsp_bad_file(hsp_job_parse_stored(text, len, name, arena, &ret->job, err), err);
    return st == HSP_OK ? build_graph(ret, err) : st;
}

enum hsp_status hsp_load_job(struct hsp_arena *arena, const char *path, struct hsp_loaded *ret,
                             struct hsp_err *err)
{
    *ret = (struct hsp_loaded){.path = path};
    enum hsp_status st = hsp_load_text(arena, path, &ret->text, &ret->len, err);
    if (st == HSP_OK) {
        st = hsp_bad_file(hsp_job_parse(ret->text, ret->len, path, arena, &ret->job, err), err);
    }
    if (st == HSP_OK) {
        st = load_annotations(arena, ret, err);
    }
    return st == HSP_OK ? build_graph(ret, err) : st;
}

void hsp_loaded_fini(struct hsp_loaded *l)
{
    l->g = hsp_graph_free(l->g);
}

enum hsp_status hsp_load_cluster(struct hsp_arena *arena, const char *path,
                                 struct hsp_cluster_desc *ret, struct hsp_err *err)
{
    const char *text = NULL;
    size_t len = 0;
    enum hsp_status st = hsp_load_text(arena, path, &text, &len, err);
    return st == HSP_OK
               ? hsp_bad_file(hsp_cluster_desc_parse(text, len, path, arena, ret, err), err)
               : st;
}

enum hsp_status hsp_read_plan(struct hsp_arena *arena, const struct hsp_loaded *l,
                              const struct hsp_plan_text *text, struct hsp_plan **ret,
                              struct hsp_err *err)
{
    uint32_t index = 0;
    enum hsp_status st = hsp_annotations_pick(1, text, l->g, l->job->train.data.global_batch,
                                              UINT32_MAX, arena, ret, &index, err);
    return hsp_bad_file(st, err); /* also when it does not fit the model */
}

enum hsp_status hsp_load_plan(struct hsp_arena *arena, const struct hsp_loaded *l, const char *path,
                              struct hsp_plan **ret, struct hsp_err *err)
{
    struct hsp_plan_text t = {.name = path};
    enum hsp_status st = hsp_load_text(arena, path, &t.text, &t.len, err);
    return st == HSP_OK ? hsp_read_plan(arena, l, &t, ret, err) : st;
}

enum hsp_status hsp_is_plan(const char *text, size_t len, struct hsp_arena *arena, bool *ret,
                            struct hsp_err *err)
{
    const struct hsp_yaml *root = NULL, *kind;
    struct hsp_err why = {0};
    *ret = false;
    if (hsp_yaml_parse("", text, len, arena, &root, &why) == HSP_ENOMEM) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "%s", why.msg);
    }
    kind = hsp_yaml_get(root, "kind");
    *ret = kind != NULL && kind->kind == HSP_YAML_SCALAR &&
           (strcmp(kind->text, "plan") == 0 || strcmp(kind->text, "pool") == 0);
    return HSP_OK;
}
