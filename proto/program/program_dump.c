#include "proto/program/program_dump.h"

#include <inttypes.h> /* PRId64 */

#include "proto/program/program.h"

static const char *class_name(uint8_t c)
{
    static const char *const name[] = {"state", "step", "micro", "scratch", "host"};
    return c < 5 ? name[c] : "?";
}

static const char *kind_name(uint8_t k)
{
    static const char *const name[] = {"op",      "load", "zero", "one",  "acc",
                                       "reshard", "stat", "vote", "seal", "copy"};
    return k < 10 ? name[k] : "?";
}

static const char *segment_name(uint8_t k)
{
    static const char *const name[] = {"pre",         "forward", "backward", "input-grad",
                                       "weight-grad", "post",    "eval",     "serve"};
    return k < 8 ? name[k] : "?";
}

static const char *move_name(uint8_t k)
{
    static const char *const name[] = {"copy",           "p2p",        "all-reduce",
                                       "reduce-scatter", "all-gather", "reduce-send"};
    return k < 6 ? name[k] : "?";
}

static void dump_box(const struct hsp_box *b, struct hsp_buf *out)
{
    hsp_buf_puts(out, "[");
    for (uint8_t d = 0; d < b->rank; d++) {
        hsp_buf_printf(out, d ? ", %" PRId64 ":" : "%" PRId64 ":", b->lo[d]);
        if (b->hi[d] == HSP_TO_END) {
            hsp_buf_puts(out, "end");
        } else {
            hsp_buf_printf(out, "%" PRId64, b->hi[d]);
        }
    }
    hsp_buf_puts(out, "]");
}

static void dump_tensors(const struct hsp_program *p, struct hsp_buf *out)
{
    for (uint32_t k = 0; k < p->tpl.n_tensors; k++) {
        const struct hsp_ptensor *t = &p->tpl.tensors[k];
        const struct hsp_tensor_bind *b = &p->bind.tensor[k];
        hsp_buf_printf(out, "tensor %u %s %s %s ", k, t->name,
                       hsp_dtype_name((enum hsp_dtype)t->dtype), class_name(t->cls));
        dump_box(&b->box, out);
        hsp_buf_printf(out, " at %" PRId64 " + %u x %" PRId64 "\n", b->offset, b->n_slots,
                       b->slot_bytes);
    }
}

static void dump_moves(const struct hsp_reshard_bind *r, bool buckets, struct hsp_buf *out)
{
    if (buckets && r->bucket != 0) {
        hsp_buf_printf(out, "      bucket %u\n", r->bucket);
    }
    for (uint32_t k = 0; k < r->n_moves; k++) {
        const struct hsp_move *m = &r->moves[k];
        hsp_buf_printf(out, "      %s%s src %u channel %u ranks", move_name(m->kind),
                       m->reduce == HSP_REDUCE_MAX ? " of maxima" : "", m->src, m->channel);
        for (uint32_t j = 0; j < m->n_ranks; j++) {
            hsp_buf_printf(out, " %u", m->ranks[j]);
        }
        for (uint32_t j = 0; j < m->n_cells; j++) {
            hsp_buf_puts(out, j ? ", " : ": ");
            dump_box(&m->cells[j].box, out);
            bool pair = m->kind == HSP_MOVE_P2P || m->kind == HSP_MOVE_REDUCE_SEND;
            if (pair && m->cells[j].root < m->n_ranks && m->cells[j].peer < m->n_ranks) {
                hsp_buf_printf(out, " %u->%u", m->ranks[m->cells[j].root],
                               m->ranks[m->cells[j].peer]);
            } else if (m->kind >= HSP_MOVE_REDUCE_SCATTER && m->cells[j].root < m->n_ranks) {
                hsp_buf_printf(out, " @%u", m->ranks[m->cells[j].root]);
            }
        }
        hsp_buf_puts(out, "\n");
    }
}

static void dump_instr(const struct hsp_program *p, uint32_t k, struct hsp_buf *out)
{
    const struct hsp_instr *i = &p->tpl.instrs[k];
    hsp_buf_printf(out, "    %u %s", k,
                   i->kind == HSP_I_OP && i->op < HSP_N_OPS ? hsp_op_name((enum hsp_op)i->op)
                                                            : kind_name(i->kind));
    if (i->kind == HSP_I_RESHARD || i->kind == HSP_I_STAT || i->kind == HSP_I_LOAD) {
        hsp_buf_printf(out, "(%u)", i->arg);
    }
    for (uint8_t j = 0; j < i->n_in; j++) {
        hsp_buf_printf(out, " %s", p->tpl.tensors[i->in[j]].name);
    }
    for (uint8_t j = 0; j < i->n_out; j++) {
        hsp_buf_printf(out, "%s%s", j ? " " : " -> ", p->tpl.tensors[i->out[j]].name);
    }
    hsp_buf_puts(out, "\n");
    if (i->kind == HSP_I_RESHARD && i->arg < p->bind.n_reshards) {
        dump_moves(&p->bind.reshard[i->arg], p->bind.buckets, out);
    }
}

static void dump_sched(const char *name, const struct hsp_sched *s, struct hsp_buf *out)
{
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        hsp_buf_printf(out, "schedule %s %s:", name, q == HSP_QUEUE_COMPUTE ? "compute" : "comm");
        for (uint32_t k = 0; k < s->n[q]; k++) {
            const struct hsp_sched_entry *e = &s->e[q][k];
            hsp_buf_printf(out, " %u.%u/%u", e->piece, e->micro, e->wait);
            if (e->n > 0) {
                hsp_buf_printf(out, "[%u+%u]", e->first, e->n);
            }
        }
        hsp_buf_puts(out, "\n");
    }
}

void hsp_program_dump(const struct hsp_program *p, struct hsp_buf *out)
{
    char hex[HSP_DIGEST_HEX];
    hsp_digest_hex(p->tpl.digest, hex);
    hsp_buf_printf(out, "program rank %u of %u\ntemplate %s\n", p->bind.rank, p->bind.n_ranks, hex);
    hsp_buf_printf(out,
                   "memory %" PRId64 " bytes, state %" PRId64 " bytes, communication %" PRId64
                   " bytes, host %" PRId64 " bytes\n",
                   p->bind.memory_bytes, p->bind.state_bytes, p->bind.comm_bytes,
                   p->bind.host_bytes);
    hsp_buf_printf(out, "pipeline sequences %u..%u in %u micro-batches\n",
                   p->bind.pipeline.first_seq, p->bind.pipeline.first_seq + p->bind.pipeline.n_seq,
                   p->bind.pipeline.n_micro);
    hsp_buf_puts(out, p->bind.hyper.tf32 ? "products in tf32\n" : "");
    dump_tensors(p, out);
    for (uint32_t s = 0; s < p->tpl.n_segments; s++) {
        const struct hsp_segment *g = &p->tpl.segments[s];
        hsp_buf_printf(out, "segment %s chunk %u\n", segment_name(g->kind), g->chunk);
        for (uint32_t j = g->first_piece; j < g->first_piece + g->n_pieces; j++) {
            const struct hsp_piece *pc = &p->tpl.pieces[j];
            hsp_buf_printf(out, "  piece %u %s\n", j,
                           pc->queue == HSP_QUEUE_COMPUTE ? "compute" : "comm");
            for (uint32_t k = pc->first; k < pc->first + pc->n; k++) {
                dump_instr(p, k, out);
            }
        }
    }
    dump_sched("train", &p->bind.train, out);
    if (hsp_binding_train(&p->bind) != &p->bind.train) {
        dump_sched("early", &p->bind.early, out);
    }
    dump_sched("eval", &p->bind.eval, out);
}

void hsp_program_file_dump(const struct hsp_program_file *f, uint32_t rank, struct hsp_buf *out)
{
    for (uint32_t k = 0; k <= f->n_shorter; k++) {
        const struct hsp_program *p =
            k < f->n_shorter ? &f->shorter[k * f->n + rank] : &f->programs[rank];
        if (f->n_shorter > 0) {
            hsp_buf_printf(out, "plan for sequences of %u tokens\n", p->bind.data.sequence);
        }
        hsp_program_dump(p, out);
    }
}
