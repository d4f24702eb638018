#include "daemon/planner/durability.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/planner/figure.h"
#include "proto/base/str.h"

/* The steps to compute again where no copy is left. */
static void since_checkpoint(uint32_t every_steps, char *ret, size_t size)
{
    if (every_steps == 0) {
        hsp_str_printf(ret, size, "all steps: checkpoint.every_steps is 0");
    } else {
        hsp_str_printf(ret, size, "the steps since the last checkpoint, at most %" PRIu32,
                       every_steps);
    }
}

void hsp_durability_again(const struct hsp_job_spec *job, bool live, char *ret, size_t cap)
{
    char back[64];
    if (job->every > 1) {
        hsp_str_printf(back, sizeof(back), "up to %" PRIu64 " steps", 2 * (uint64_t)job->every - 1);
    } else {
        hsp_str_printf(back, sizeof(back), "the steps of up to %.6g s", 2 * job->max_recompute_s);
    }
    if (job->every == 1) {
        hsp_str_printf(ret, cap, "the step under way");
    } else if (live) {
        hsp_str_printf(ret, cap,
                       "the step under way, and %s while a version is sealed or a vote has not "
                       "reached all ranks",
                       back);
    } else {
        hsp_str_printf(ret, cap, "%s%s", back, job->every > 1 ? " and the one under way" : "");
    }
}

void hsp_durability_text(const struct hsp_cost *c, const struct hsp_job_spec *job,
                         char ret[HSP_DURABILITY_BYTES])
{
    char since[96], due[192], spare[192] = "";
    const uint32_t copies = job->copies;
    uint32_t nodes = c->nodes < copies ? c->nodes : copies, replica_holders = copies - nodes;
    since_checkpoint(job->ckpt_every_steps, since, sizeof(since));
    hsp_durability_again(job, !c->copied && nodes >= 2, due, sizeof(due));
    if (replica_holders > 0) {
        hsp_str_printf(spare, sizeof(spare),
                       "; %" PRIu32
                       " more by replica holders, %s in the state folder of each, on nodes that "
                       "may keep copies (hspmdctl node allow NODE --holder)",
                       replica_holders, hsp_bytes_figure(c->replica_holder_bytes).text);
    }
    if (nodes < 2) {
        hsp_str_printf(ret, HSP_DURABILITY_BYTES,
                       "copies %" PRIu32 "%s; the loss of a device costs %s, of a "
                       "node%s %s",
                       copies, spare, due, replica_holders > 0 ? " without a replica holder" : "",
                       since);
        return;
    }
    hsp_str_printf(ret, HSP_DURABILITY_BYTES,
                   "each part of the state is on %" PRIu32 " nodes, %s%s; the loss of %s costs %s, "
                   "of more %s",
                   nodes, c->copied ? "as copies that ranks keep for each other" : "as replicas",
                   spare, nodes == 2 ? "one of them" : "all but one of them", due, since);
}

int64_t hsp_durability_bytes(const struct hsp_cost *c, uint32_t *ret_rank)
{
    int64_t all = 0;
    *ret_rank = 0;
    for (uint32_t r = 0; r < c->n; r++) {
        all += c->rank[r].folder_bytes;
        *ret_rank =
            c->rank[r].node_folder_bytes > c->rank[*ret_rank].node_folder_bytes ? r : *ret_rank;
    }
    return all;
}
