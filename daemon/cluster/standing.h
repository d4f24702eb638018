/* Judges to which cluster the state of agents belongs, and gives numbers that no other store of the
 * cluster gives.
 *
 * Example: after a restore the generation is 1, of random half 0. Job 7, whose row says that epoch
 * 4 is next, begins epoch 1000001; epochs 4 to 1000000 are a gap. An agent that has seen epoch 9 of
 * job 7 knows more of it than this store does; one that has seen epoch 3 does not. */
#ifndef HSP_STANDING_H
#define HSP_STANDING_H
#include "daemon/cluster/cluster_state.h"
#include "proto/wire/identity.h"

/* More jobs than a store that is lost has numbered since its backup. */
#define HSP_LOST_JOBS 1000000u
/* Generations beyond ours that an agent may name. Each --restore raises the generation by one, and
 * so does each job that is adopted; a member that lies cannot use up all numbers. */
#define HSP_NEXT_GENERATIONS 512u

enum hsp_standing {
    HSP_STANDS_KNOWN,   /* of a job on record, which has gone no further there than we know */
    HSP_STANDS_OVER,    /* of a job that has ended: a row says so */
    HSP_STANDS_NEWER,   /* of a job on record, which has gone further there */
    HSP_STANDS_UNKNOWN, /* this cluster's, of a job that is not on record */
    HSP_STANDS_OTHER, /* the same, but its number is that of another job here: a store that is lost
                           gave the number first */
    HSP_STANDS_NOT_ADOPTED, /* of a cluster of which other jobs were adopted here (behind.h) */
    HSP_STANDS_FOREIGN      /* another cluster's, or of a program that knew of none and of no job of
                           ours */
};

/* True when jobs of cluster @id were adopted here: its other jobs that agents keep may be, too. */
bool hsp_ci_has_adopted(const struct hsp_cluster *c, struct hsp_digest id);
/* A job of @whose is adopted: from here on numbers are of a generation behind both, and state of
 * that cluster on agents is no stranger's. There is room for it (HSP_MAX_ADOPTED). */
void hsp_ci_take_over(struct hsp_cluster *c, struct hsp_whose whose);
/* For people, in the arena of the step: "cluster 1a2b3c4d". */
const char *hsp_ci_cluster_text(struct hsp_cluster *c, struct hsp_digest id);
/* Lists the jobs of HELLO @m, in the arena of the step: those of its own list, and those of its
 * runs and holdings. NULL: no memory. Where @m names more than HSP_MSG_KEPT jobs, *ret_n is
 * HSP_MSG_KEPT + 1, and the list is not whole. */
struct hsp_m_kept *hsp_ci_kept(struct hsp_cluster *c, const struct hsp_m_hello *m, uint32_t *ret_n);
/* Judges the state @k of one job. */
enum hsp_standing hsp_ci_standing(const struct hsp_cluster *c, const struct hsp_m_kept *k);
/* True when HELLO @m of @n is evidence that @n keeps @k, which is more than is on record: the store
 * knows @n, as a member where the job has members, and has not heard @n since the start. Numbers
 * that were given since the start are on record, so later evidence would be false. */
bool hsp_ci_testifies(const struct hsp_cluster *c, const struct hsp_cluster_node *n,
                      const struct hsp_m_hello *m, const struct hsp_m_kept *k);
/* True when an hspmdd of this cluster can have given @number, of a plan or term, in @generation.
 * Example: in generation 1, numbers of generations up to 513 can be; plan 3000001 of generation 2
 * cannot, as the plans of generation 3 begin there. */
bool hsp_ci_can_be(const struct hsp_cluster *c, uint64_t generation, uint64_t number);
/* The same of an epoch: those of a job can be of a later generation than the hspmdd that gave
 * them (ckpt_look.c). */
bool hsp_ci_epoch_can_be(const struct hsp_cluster *c, uint64_t epoch);
/* True when epoch @epoch can have written a checkpoint that nodes see: also one of a later
 * generation, as when a job was adopted by another cluster by mistake, with others, each of which
 * raised the generation there. A node that lies moves the numbers of a job 256 generations ahead at
 * most, however often. */
bool hsp_ci_can_be_written(const struct hsp_cluster *c, uint64_t epoch);
/* True when @epoch of @j was not given here. When @j has ended, so have all epochs up to its last.
 * */
bool hsp_ci_epoch_unknown(const struct hsp_job *j, uint64_t epoch);
/* The number that the next epoch of @j will have: those of all before are lower. */
uint64_t hsp_ci_next_epoch(const struct hsp_cluster *c, const struct hsp_job *j);
/* The number of the next epoch, and of the next layout, of @j: used from here on. */
uint64_t hsp_ci_take_epoch(const struct hsp_cluster *c, struct hsp_job *j);
uint64_t hsp_ci_take_plan(const struct hsp_cluster *c, struct hsp_job *j);
/* Epoch @epoch of @j, given by another store, is never given here. */
void hsp_ci_epoch_seen(struct hsp_job *j, uint64_t epoch);
void hsp_ci_plan_seen(struct hsp_job *j, uint64_t plan); /* the same of a layout */
/* Begins the next generation, after the store's and after @least: it gives no number of an epoch,
 * layout, job or term that a lost store gave. */
void hsp_ci_raise(struct hsp_cluster *c, uint64_t least);
/* True when @generation was raised from the same store as ours, by another restore or adoption:
 * neither is newer. */
bool hsp_ci_is_twin(const struct hsp_cluster *c, uint64_t generation);
/* Member @node, proven, has obeyed @generation of another store that was put back: of the same
 * number as ours, or a later one while this process is the first after a restore. An
 * administrator's word has begun ours, so the next generation comes after both. False: not so, or
 * this coordinator is behind already.
 *
 * Example: the disk is lost, a backup of generation 0 is put back: generation 1. The disk is lost
 * again, and the same backup is put back: generation 1, of another random half. An agent of the
 * first one says hello: generation 2. */
bool hsp_ci_raise_over_twin(struct hsp_cluster *c, const char *node, uint64_t generation);
/* A member has obeyed generation @ahead: the next one that is raised here comes after it.
 * Stored. */
void hsp_ci_generation_seen(struct hsp_cluster *c, uint64_t ahead);
/* The first generation of a cluster without rows, or of rows without an id. */
void hsp_ci_found(struct hsp_cluster *c);
/* Job @id, which has ended, is forgotten; that it has ended is not. */
void hsp_ci_job_over(struct hsp_cluster *c, uint32_t id);
bool hsp_ci_job_is_over(const struct hsp_cluster *c, uint32_t id);
/* Number of the generation in which the numbers of @k were given: epoch, plan, or a generation
 * ahead of ours. */
uint64_t hsp_ci_given_in(const struct hsp_cluster *c, const struct hsp_m_kept *k);
/* For people, behind "put the newer store back": which one that may be and how, in the arena of the
 * step; "" when a restore has replaced none, or one of an earlier generation than @given, that of
 * the numbers which make this store the older one. Example: a store of generation 0 was replaced,
 * and is still beside this one, of generation 1. The folder is put back from last week: epochs
 * since are of generation 1. */
const char *hsp_ci_newer_store(struct hsp_cluster *c, uint64_t given);
/* Job @id, which has ended and is forgotten, was adopted from @cluster: state of it that comes
 * back is of a job that is OVER. The oldest of HSP_ADOPTED_OVER makes room: its state is
 * foreign again. */
void hsp_ci_adopted_over(struct hsp_cluster *c, struct hsp_digest cluster, uint32_t id);
bool hsp_ci_adopted_is_over(const struct hsp_cluster *c, struct hsp_digest cluster, uint32_t id);

#endif
