/* See ckptcheck.h. */
#include "worker/app/ckptcheck.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "worker/state/ckpt.h"

/* The tensors' bytes as they are in memory; headers are not counted. */
static uint64_t content_bytes(const struct hsp_ckpt *c)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < hsp_ckpt_count(c); i++) {
        const struct hsp_ckpt_tensor *t = hsp_ckpt_tensor(c, i);
        struct hsp_box whole = hsp_box_whole(t->rank, t->full);
        bytes += (uint64_t)hsp_box_count(&whole) * hsp_dtype_size(t->dtype);
    }
    return bytes;
}

static enum hsp_status check_step(const char *dir, uint64_t step, FILE *out)
{
    struct hsp_ckpt *c = NULL;
    struct hsp_err why = {0};
    enum hsp_status st = hsp_ckpt_open(dir, step, &c, &why);
    if (st == HSP_OK) {
        st = hsp_ckpt_verify(c, &why);
    }
    if (st == HSP_OK) {
        (void)fprintf(out, "step %" PRIu64 ": good, %zu tensors, %" PRIu64 " bytes, %u files\n",
                      step, hsp_ckpt_count(c), content_bytes(c), hsp_ckpt_about(c)->n_ranks);
    } else {
        (void)fprintf(out, "step %" PRIu64 ": %s: %s\n", step,
                      st == HSP_EDIGEST || st == HSP_ENOENT ? "damaged" : "cannot be read",
                      why.msg);
    }
    (void)hsp_ckpt_close(c);
    return st;
}

enum hsp_status hsp_ckpt_check(const char *dir, FILE *out, struct hsp_err *err)
{
    uint64_t *step = NULL;
    size_t n = 0, bad = 0;
    struct stat s;
    if (stat(dir, &s) != 0) {
        return hsp_err_set(err, errno == ENOENT ? HSP_ENOENT : HSP_EIO, errno, "%s", dir);
    }
    enum hsp_status st = hsp_ckpt_list(dir, &step, &n, err), worst = HSP_OK;
    for (size_t i = 0; st == HSP_OK && i < n; i++) {
        enum hsp_status one = check_step(dir, step[i], out);
        bad += one != HSP_OK;
        worst = one == HSP_OK || worst == HSP_EDIGEST ? worst : one;
    }
    free(step);
    if (st != HSP_OK) {
        return st;
    }
    if (n == 0) {
        return hsp_err_set(err, HSP_ENOENT, 0, "%s: no complete checkpoint", dir);
    }
    if (fflush(out) != 0) {
        return hsp_err_set(err, HSP_EIO, errno, "the answer could not be written");
    }
    return bad == 0
               ? HSP_OK
               : hsp_err_set(err, worst, 0, "%s: %zu of %zu checkpoints are not good", dir, bad, n);
}
