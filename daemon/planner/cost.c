/* Prices ranges, members and their memory; prices of whole plans are in price.c. */
#include "daemon/planner/cost.h"

#include <math.h>
#include <string.h>

#include "daemon/plan/stage_groups.h"
#include "proto/base/size.h"

/* Traffic of the update per parameter element, in elements: AdamW reads p, m, v, g and writes
 * p, m, v; SGD reads p, momentum, g and writes two. Then the norm reads g, zeroing writes it, and
 * the state is hashed before it is written over. */
#define ADAMW_WORDS (7 + 2 + 3)
#define SGD_WORDS   (5 + 2 + 2)
#define N_SEALED    2 /* versions in the state folder */
/* Reads and writes of offloaded bytes, both ways, where both memories are one. */
#define OFFLOAD_PASSES 4

double hsp_state_versions(const struct hsp_device_desc *dev, uint32_t held)
{
    return 1 + (hsp_device_is_host(dev) ? N_SEALED * (double)held : 0);
}

double hsp_sealed_bytes(double kinds, double home, uint32_t held)
{
    return N_SEALED * kinds * home * held;
}

static double amount(const struct hsp_amount *a, double part)
{
    return a->cut * part + a->whole;
}

static void amount_sum(struct hsp_amount *a, const struct hsp_amount *b)
{
    a->cut += b->cut;
    a->whole += b->whole;
}

static void scale(struct hsp_amount *a, double by)
{
    a->cut *= by;
    a->whole *= by;
}

/* Forward is a third of forward and backward; it is done twice, with its all-reduces (half of
 * them). One unit at a time has its activations, in scratch. */
static void recompute(struct hsp_stage_work *r)
{
    for (int c = 0; c < HSP_N_GEMM_CLASSES; c++) {
        scale(&r->w.flops[c], 4.0 / 3);
    }
    r->w.bytes.cut *= 4.0 / 3;
    r->w.bytes.whole *= 4.0 / 3;
    r->w.low.cut *= 4.0 / 3;
    r->w.low.whole *= 4.0 / 3;
    r->w.n_instr *= 4.0 / 3;
    r->w.n_products *= 4.0 / 3;
    r->w.n_reduce *= 1.5;
    r->w.reduce_bytes *= 1.5;
    amount_sum(&r->w.deferred, &r->w.reread);
    r->w.saved = (struct hsp_amount){.whole = r->inner};
    amount_sum(&r->w.scratch, &r->most_saved);
}

/* In flight nothing stays on the device. A unit's activations are there while it computes, and on
 * their way while its neighbour does: each is read and written twice more. */
static void offload(const struct hsp_work *w, struct hsp_stage_work *r)
{
    r->offload = true;
    r->host = r->w.saved;
    r->host.whole += r->entering + w->input_bytes; /* leaving tensors are among the saved */
    r->w.bytes.cut += OFFLOAD_PASSES * r->host.cut;
    r->w.bytes.whole += OFFLOAD_PASSES * r->host.whole;
    r->w.saved = (struct hsp_amount){0};
    amount_sum(&r->w.scratch, &r->pair_saved);
    r->w.scratch.whole += r->entering + r->w.leaving;
}

void hsp_range_make(const struct hsp_work *w, uint32_t first, uint32_t end,
                    struct hsp_stage_work *ret)
{
    struct hsp_amount before = {0};
    *ret = (struct hsp_stage_work){.first = first, .end = end};
    for (uint32_t l = first; l < end; l++) {
        const struct hsp_layer_work *from = &w->layer[l];
        for (int c = 0; c < HSP_N_GEMM_CLASSES; c++) {
            amount_sum(&ret->w.flops[c], &from->flops[c]);
        }
        amount_sum(&ret->w.bytes, &from->bytes);
        amount_sum(&ret->w.low, &from->low);
        amount_sum(&ret->w.acc_bytes, &from->acc_bytes);
        amount_sum(&ret->w.saved, &from->saved);
        amount_sum(&ret->w.deferred, &from->deferred);
        amount_sum(&ret->w.reread, &from->reread);
        hsp_amount_max(&ret->w.scratch, &from->scratch);
        hsp_amount_max(&ret->w.grad_bytes, &from->grad_bytes);
        hsp_amount_max(&ret->w.keys, &from->keys);
        hsp_amount_max(&ret->w.queries, &from->queries);
        hsp_amount_max(&ret->w.param, &from->param);
        hsp_amount_max(&ret->w.wide, &from->wide);
        hsp_amount_max(&ret->w.wide_param, &from->wide_param);
        ret->w.n_instr += from->n_instr;
        ret->w.n_products += from->n_products;
        ret->w.n_reduce += from->n_reduce;
        ret->w.reduce_bytes += from->reduce_bytes;
        hsp_amount_max(&ret->most_saved, &from->saved);
        struct hsp_amount pair = from->saved;
        amount_sum(&pair, &before);
        hsp_amount_max(&ret->pair_saved, &pair);
        before = from->saved;
        ret->inner += l + 1 < end ? from->leaving : 0;
        ret->w.leaving = from->leaving;
    }
    ret->entering = first > 0 ? w->layer[first - 1].leaving : 0;
    if (w->recompute) {
        recompute(ret);
    } else if (w->offload) {
        offload(w, ret);
    }
    for (uint32_t p = 0; p < w->n_params; p++) {
        const struct hsp_param_work *pw = &w->param[p];
        bool used =
            (pw->first >= first && pw->first < end) || (pw->last >= first && pw->last < end);
        if (used) {
            *(pw->cut ? &ret->param.cut : &ret->param.whole) += pw->bytes;
            double *largest = pw->cut ? &ret->largest_cut : &ret->largest_whole;
            *largest = fmax(*largest, pw->bytes);
            ret->n_params++;
        }
    }
}

struct hsp_amount hsp_product_seconds(const struct hsp_layer_work *w,
                                      const struct hsp_device_desc *dev, enum hsp_rate rate)
{
    struct hsp_amount s = {0};
    for (int c = 0; c < HSP_N_GEMM_CLASSES; c++) {
        double gemm = hsp_device_gemm(dev, rate, (enum hsp_gemm_class)c);
        s.cut += w->flops[c].cut / gemm;
        s.whole += w->flops[c].whole / gemm;
    }
    return s;
}

void hsp_range_of_blocks(const struct hsp_work *w, uint32_t first, uint32_t end,
                         struct hsp_stage_work *ret)
{
    uint32_t n_blocks = w->n_layers - 2;
    hsp_range_make(w, first == 0 ? 0 : first + 1, end == n_blocks ? w->n_layers : end + 1, ret);
}

/* Packed cells of the largest gradient, which is of the type of the state, out and in. One member
 * has to tell all others the gradients that tensor groups do not divide. */
double hsp_comm_bytes(const struct hsp_stage_work *r, const struct hsp_device_desc *dev,
                      double part, uint32_t members, uint32_t holders)
{
    double cut = holders > 1 ? r->largest_cut * part : 0;
    double whole = holders * members > 1 ? r->largest_whole * fmax(members - 1.0, 1) : 0;
    double groups = (members > 1) + (holders > 1), direct = 0;
    if (dev->communicator_bytes >
        0) { /* uneven pieces are filled up apart from where they belong */
        direct = groups * (double)dev->communicator_bytes + cut;
    }
    return HSP_COMM_BASE_BYTES + direct + HSP_PACK_COPIES * fmax(cut, whole);
}

/* Element-wise traffic of a sequence, that of bf16 at its own rate. Offloaded activations cross
 * their own link, out and in, where the device has one. */
static double memory_seconds(const struct hsp_stage_work *r, const struct hsp_device_desc *dev,
                             double part)
{
    double low = amount(&r->w.low, part), host = amount(&r->host, part);
    double bytes = amount(&r->w.bytes, part) - low;
    double s = low / hsp_device_bf16_bytes(dev);
    if (!r->offload || !(dev->host_bytes_per_s > 0)) {
        return s + bytes / dev->mem_bytes_per_s;
    }
    return s + (bytes - OFFLOAD_PASSES * host) / dev->mem_bytes_per_s +
           2 * host / dev->host_bytes_per_s;
}

/* Of the largest unit, @unit of state: the parameters that it and the next one read, @low of it,
 * the gradients of one, and those that holders get of three (spmd/lower/zero3.c). */
static double gathered_bytes(double unit, double low, uint32_t holders)
{
    return (1 + 2 * low) * unit + 3 * unit / holders;
}

void hsp_member_price(const struct hsp_price_in *in, const struct hsp_stage_work *r,
                      const struct hsp_device_desc *dev, double part, uint32_t members,
                      uint32_t holders, uint8_t zero, uint32_t held, struct hsp_member *ret)
{
    bool adamw = in->train->hyper.optimizer == HSP_OPT_ADAMW;
    struct hsp_amount products = hsp_product_seconds(&r->w, dev, in->work->rate);
    double low = (double)in->work->use_elem / in->work->elem; /* a use, of its state's bytes */
    double used = amount(&r->param, part), home = zero > 0 ? used / holders : used;
    double words = home / in->work->elem * (adamw ? ADAMW_WORDS : SGD_WORDS);
    double kinds = adamw ? 3 : 2, grads = used, copies = 0; /* of parameters in use */
    double cast = low < 1 ? home * (1 + low) : 0;
    bool gathers = zero == HSP_ZERO_PARAMETERS && holders > 1; /* for each use */
    double comm = hsp_comm_bytes(r, dev, part, members, holders);
    if (gathers) {
        grads = home;
        copies = low < 1 ? low * home : 0;
    } else if ((zero > 0 && holders > 1) || low < 1) { /* gathered, or cast */
        copies = low * used;
    }
    copies += dev->widens ? amount(&r->w.wide_param, part) : 0;
    *ret = (struct hsp_member){
        .seq_us = 1e6 * (amount(&products, part) + memory_seconds(r, dev, part)),
        .micro_us = r->w.n_instr * dev->op_us + r->w.n_products * dev->gemm_us +
                    1e6 * amount(&r->w.acc_bytes, part) / dev->mem_bytes_per_s,
        .base_bytes = hsp_state_versions(dev, held) * kinds * home + grads + copies + comm,
        .bytes_per_flight = r->offload ? 0 : amount(&r->w.saved, part) + r->entering + r->w.leaving,
        .host_bytes = amount(&r->host, part),
        .deferred_bytes = amount(&r->w.deferred, part),
        .scratch_bytes = amount(&r->w.scratch, part),
        .wide_bytes = dev->widens ? amount(&r->w.wide, part) : 0,
        .micro_bytes = gathers ? gathered_bytes(amount(&r->w.param, part), low, holders)
                               : 2 * amount(&r->w.grad_bytes, part),
        .post_bytes = holders > 1 && !gathers ? home : 0,
        .home_bytes = home,
        .folder_bytes = hsp_sealed_bytes(kinds, home, held),
        .update_us = 1e6 * (words * in->work->elem + cast) / dev->mem_bytes_per_s +
                     (low < 1 ? 4.0 : 3.0) * r->n_params * dev->op_us,
        .sync_bytes = used,
    };
}

/* A group that has @share of the sequences, or of each of them; the largest share is @most. Of a
 * cut sequence the keys and values of another group are there beside the own ones, with their
 * gradients, and the results of the own queries on them before they are merged. */
static void cut_range(struct hsp_stage_work *r, double share, double most, bool ring)
{
    struct hsp_amount *of[] = {&r->w.bytes,   &r->w.saved,    &r->w.deferred, &r->host,
                               &r->w.scratch, &r->most_saved, &r->w.reread,   &r->w.queries,
                               &r->w.wide,    &r->w.low};
    for (size_t i = 0; i < HSP_ARRAY_LEN(of); i++) {
        scale(of[i], share);
    }
    for (int c = 0; c < HSP_N_GEMM_CLASSES; c++) {
        scale(&r->w.flops[c], share);
    }
    r->w.leaving *= share;
    r->entering *= share;
    r->inner *= share;
    if (ring) {
        scale(&r->w.keys, 3 * most);
        scale(&r->w.queries, 2);
        amount_sum(&r->w.scratch, &r->w.keys);
        amount_sum(&r->w.scratch, &r->w.queries);
    }
}

double hsp_largest_share(const struct hsp_stage *g)
{
    double most = 0, sum = 0;
    for (uint32_t i = 0; i < g->n_groups; i++) {
        most = fmax(most, (double)g->group_shares[i]);
        sum += (double)g->group_shares[i];
    }
    return most / sum; /* hsp_plan_check: not all are 0 */
}

void hsp_stage_price(const struct hsp_price_in *in, const struct hsp_stage_work *r,
                     const struct hsp_stage *g, uint32_t member, const struct hsp_device_desc *dev,
                     uint32_t n_pipelines, uint8_t zero, uint32_t held, struct hsp_member *ret)
{
    uint32_t groups = hsp_stage_groups(g);
    struct hsp_stage_work own = *r;
    double inner, share = hsp_stage_shares(g, member, &inner);
    if (groups > 1) {
        cut_range(&own, share, hsp_largest_share(g), g->split == HSP_SPLIT_SEQUENCE);
    }
    uint32_t first, end;
    hsp_stage_group(g, hsp_stage_group_of(g, member), &first, &end);
    hsp_member_price(in, &own, dev, inner, end - first, n_pipelines * groups, zero, held, ret);
}

uint32_t hsp_count_nodes(const struct hsp_cluster_desc *c, const uint32_t *device, uint32_t n,
                         uint32_t most)
{
    uint32_t seen[HSP_COPIES_MAX], count = 0;
    for (uint32_t i = 0; i < n && count < most; i++) {
        uint32_t node = c->dev[device[i]].node, k = 0;
        while (k < count && seen[k] != node) {
            k++;
        }
        if (k == count) {
            seen[count++] = node;
        }
    }
    return count;
}

/* Scratch of the micro-batches and the reduced gradients of Post use the same place; the backend's
 * own is another. */
double hsp_member_bytes(const struct hsp_member *m, uint32_t micro_size, uint32_t in_flight)
{
    return m->base_bytes + micro_size * (m->bytes_per_flight * in_flight + m->wide_bytes) +
           fmax(m->post_bytes, m->micro_bytes + micro_size * m->scratch_bytes);
}

double hsp_tensor_us(const struct hsp_stage_work *r, uint32_t n, double b,
                     const struct hsp_link_cost *link)
{
    if (n < 2) {
        return 0;
    }
    double bytes = r->w.reduce_bytes * b * 2 * (n - 1) / n;
    return r->w.n_reduce * 2 * link->latency_us + bytes * link->us_per_byte;
}

double hsp_stage_tensor_us(const struct hsp_stage_work *r, const struct hsp_stage *g, double b,
                           const struct hsp_link_cost *link)
{
    uint32_t groups = hsp_stage_groups(g);
    double worst = 0;
    for (uint32_t k = 0; k < groups; k++) {
        uint32_t first, end;
        double unused;
        hsp_stage_group(g, k, &first, &end);
        double share = hsp_stage_shares(g, first, &unused);
        worst = fmax(worst, hsp_tensor_us(r, end - first, b * share, link));
    }
    if (groups > 1 && g->split == HSP_SPLIT_SEQUENCE) { /* twice there, their gradients back */
        double bytes = 3 * b * (r->w.keys.cut + r->w.keys.whole) * (groups - 1) / groups;
        worst +=
            (r->end - r->first) * ((groups - 1) * 3 * link->latency_us + bytes * link->us_per_byte);
    }
    return worst;
}
