#include "tests/unit/daemon/ctl/ctl_room.h"

#include <stdio.h>

#include "daemon/ctl/ctl_run.h"

const char ctl_tiny_job[] =
    "apiVersion: hspmd/v1\nname: tiny\n"
    "model: {family: gpt, layers: 2, hidden: 16, heads: 2, sequence: 8, tied_head: true}\n"
    "data: {path: /tmp/x}\n"
    "train: {steps: 2, global_batch: 12, optimizer: {name: adamw, lr: 1e-3}}\n";

const char ctl_two_ranks[] =
    "{apiVersion: hspmd/v1, kind: plan, ranks: 2, pipelines: [{sequences: 12, micro_batches: 3, "
    "stages: [{layers: 1, ranks: [0]}, {layers: 1, ranks: [1]}]}]}";

int ctl_room_setup(void **state)
{
    struct room *r = calloc(1, sizeof(*r));
    r->dir = hsp_test_tmpdir();
    *state = r;
    return 0;
}

int ctl_room_teardown(void **state)
{
    struct room *r = *state;
    hsp_test_rmdir(r->dir);
    free(r->dir);
    free(r->out);
    free(r->msg);
    free(r);
    return 0;
}

void ctl_room_run(struct room *r, const char *const *words)
{
    const char *argv[16] = {"hspmdctl"};
    char path[12][512];
    int argc = 1;
    for (; words[argc - 1] != NULL; argc++) {
        const char *w = words[argc - 1];
        if (w[0] == '@') {
            (void)snprintf(path[argc], sizeof(path[argc]), "%s/%s", r->dir, w + 1);
            w = path[argc];
        }
        argv[argc] = w;
    }
    free(r->out);
    free(r->msg);
    FILE *out = open_memstream(&r->out, &r->n_out), *msg = open_memstream(&r->msg, &r->n_msg);
    r->rc = hsp_ctl_run(argc, argv, out, msg);
    (void)fclose(out);
    (void)fclose(msg);
}

void ctl_room_put(struct room *r, const char *name, const char *text)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", r->dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    (void)fclose(f);
}
