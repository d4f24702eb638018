#include "worker/exec/lone_update.h"

/* Returns true if instruction @k sends or receives. */
static bool talks(const struct hsp_program *p, uint32_t k)
{
    const struct hsp_instr *i = &p->tpl.instrs[k];
    if (i->kind != HSP_I_RESHARD) {
        return false;
    }
    const struct hsp_reshard_bind *b = &p->bind.reshard[i->arg];
    bool any = false;
    for (uint32_t m = 0; m < b->n_moves; m++) {
        any = any || b->moves[m].kind != HSP_MOVE_COPY;
    }
    return any;
}

/* Finds the entry of the communication queue with the vote, and the instruction. Returns false if
 * there is no vote. */
static bool find_vote(const struct hsp_program *p, const struct hsp_sched *s, uint32_t *ret_entry,
                      uint32_t *ret_instr)
{
    for (uint32_t k = 0; k < s->n[HSP_QUEUE_COMM]; k++) {
        uint32_t first, end = hsp_entry_end(&p->tpl, &s->e[HSP_QUEUE_COMM][k], &first);
        for (uint32_t i = first; i < end; i++) {
            if (p->tpl.instrs[i].kind == HSP_I_VOTE) {
                *ret_entry = k;
                *ret_instr = i;
                return true;
            }
        }
    }
    return false;
}

bool hsp_update_is_lone(const struct hsp_program *p)
{
    const struct hsp_sched *s = hsp_binding_train(&p->bind);
    uint32_t vote, instr, first, end;
    bool lone = find_vote(p, s, &vote, &instr), behind = false;
    for (uint32_t k = vote; lone && k < s->n[HSP_QUEUE_COMM]; k++) {
        end = hsp_entry_end(&p->tpl, &s->e[HSP_QUEUE_COMM][k], &first);
        for (uint32_t i = k == vote ? instr + 1 : first; i < end; i++) {
            lone = lone && !talks(p, i);
        }
    }
    for (uint32_t k = 0; lone && k < s->n[HSP_QUEUE_COMPUTE]; k++) {
        const struct hsp_sched_entry *e = &s->e[HSP_QUEUE_COMPUTE][k];
        behind = behind || e->wait > vote;
        end = hsp_entry_end(&p->tpl, e, &first);
        for (uint32_t i = first; behind && i < end; i++) {
            lone = lone && !talks(p, i);
        }
    }
    return lone;
}
