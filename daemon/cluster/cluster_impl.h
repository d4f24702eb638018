/* What the files of this room share; nobody else includes it. */
#ifndef HSP_CLUSTER_IMPL_H
#define HSP_CLUSTER_IMPL_H
#include "daemon/cluster/cluster_state.h"

#define HSP_NEVER UINT64_MAX

/* cluster.c: actions of this step */
struct hsp_action *hsp_ci_emit(struct hsp_cluster *c, enum hsp_action_type type);
/* Copies @m into the arena of the step; nothing when @conn is 0. */
void hsp_ci_send(struct hsp_cluster *c, uint32_t conn, const struct hsp_msg *m);
void hsp_ci_close(struct hsp_cluster *c, uint32_t conn, const char *why);
const char *hsp_ci_printf(struct hsp_cluster *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Zeroed memory of this step; NULL sets c->failed. */
void *hsp_ci_alloc(struct hsp_cluster *c, size_t n, size_t size);
struct hsp_fact *hsp_ci_fact(struct hsp_cluster *c, const char *type, enum hsp_severity sev,
                             const struct hsp_job *j, const struct hsp_cluster_node *n,
                             const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* index.c */
void hsp_ci_index_init(struct hsp_cluster *c);
void hsp_ci_index_fini(struct hsp_cluster *c);
uint32_t hsp_ci_index_of(const struct hsp_cluster *c, const struct hsp_cluster_node *n);
/* Node @at, made with all before it, without names and dead, when it is not there. NULL: too many, or no memory. */
struct hsp_cluster_node *hsp_ci_node_add(struct hsp_cluster *c, uint32_t at);
bool hsp_ci_node_named(struct hsp_cluster *c, const struct hsp_cluster_node *n); /* false: memory */
struct hsp_cluster_node *hsp_ci_node_of_conn(const struct hsp_cluster *c, uint32_t conn);
void hsp_ci_node_conn(struct hsp_cluster *c, struct hsp_cluster_node *n, uint32_t conn);
/* Any state but to LIVE: that is hsp_ci_node_heard, now. */
void hsp_ci_node_state(struct hsp_cluster *c, struct hsp_cluster_node *n, enum hsp_node_state to);
void hsp_ci_node_heard(struct hsp_cluster *c, struct hsp_cluster_node *n);
/* When to look at nodes if none is heard: the next one is suspect or dead; or one is suspect, and its bound so far
 * away that a stall of this process before it would not be noticed. */
hsp_msec hsp_ci_silence_due(const struct hsp_cluster *c);
/* Is @d in an ascending list? */
bool hsp_ci_has(const hsp_device_id *list, uint32_t n, hsp_device_id d);
void hsp_ci_lease(struct hsp_cluster *c, hsp_device_id d, uint32_t job); /* 0: to nobody */
void hsp_ci_ask(struct hsp_cluster *c, hsp_device_id d, enum hsp_device_ask ask);
/* What has changed is looked at when the event has been taken in: a node that may be told something or may be
 * offered, one job, all jobs because devices have come, gone or changed hands. */
void hsp_ci_look_node(struct hsp_cluster *c, struct hsp_cluster_node *n);
void hsp_ci_look_job(struct hsp_cluster *c, struct hsp_job *j);
void hsp_ci_look_jobs(struct hsp_cluster *c);
void hsp_ci_refresh(struct hsp_cluster *c); /* makes briefs true */
/* The nodes to be looked at, ascending, in the arena of the step; then there are none. */
uint32_t hsp_ci_take_look(struct hsp_cluster *c, uint32_t **ret);
void hsp_ci_await(struct hsp_cluster *c, hsp_device_id d); /* its executor is down */
hsp_msec hsp_ci_await_due(struct hsp_cluster *c);

/* marks.c */
struct hsp_job_mark *hsp_ci_marked(const struct hsp_job *j, uint32_t node); /* NULL: nothing */
struct hsp_job_mark *hsp_ci_mark(struct hsp_cluster *c, struct hsp_job *j, uint32_t node);
void hsp_ci_marks_free(struct hsp_job *j);

/* membership.c */
struct hsp_cluster_node *hsp_ci_node(const struct hsp_cluster *c, hsp_device_id d);
struct hsp_node_device *hsp_ci_device(const struct hsp_cluster *c, hsp_device_id d);
const char *hsp_ci_device_name(struct hsp_cluster *c, hsp_device_id d);
bool hsp_ci_node_gone(const struct hsp_cluster_node *n); /* dead, left or not known to live */
void hsp_ci_hello(struct hsp_cluster *c, uint32_t conn, const struct hsp_m_hello *m);
void hsp_ci_conn_closed(struct hsp_cluster *c, uint32_t conn);
void hsp_ci_node_dead(struct hsp_cluster *c, struct hsp_cluster_node *n, const char *why);
/* New times; agents that are here are told by another WELCOME. */
void hsp_ci_reconfigure(struct hsp_cluster *c, const struct hsp_cluster_config *cfg);
void hsp_ci_nodes_tick(struct hsp_cluster *c);
void hsp_ci_forgive_stall(struct hsp_cluster *c); /* before an event is looked at */
void hsp_ci_nodes_advance(struct hsp_cluster *c); /* releases, stops, bye, drained */
void hsp_ci_executor_dead(struct hsp_cluster *c, struct hsp_cluster_node *n,
                          const struct hsp_m_dead *m);
void hsp_ci_executor_up(struct hsp_cluster *c, struct hsp_cluster_node *n,
                        const struct hsp_m_up *m);

/* The device cannot go on with what it did. */
void hsp_ci_device_lost(struct hsp_cluster *c, hsp_device_id d, const char *cause);

/* health.c */
/* What HELLO says of device @p->index, and of paths. */
void hsp_ci_take_note(struct hsp_cluster *c, struct hsp_cluster_node *n,
                      const struct hsp_m_device *p);
void hsp_ci_take_paths(struct hsp_cluster *c, struct hsp_cluster_node *n,
                       const struct hsp_m_hello *m);
void hsp_ci_notes_free(struct hsp_cluster_node *n); /* and paths */
void hsp_ci_health(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_health *m);
/* Work is to leave @d, which is still there: "drain of", "planned leave of", "cordon of"; NULL: it may stay. */
const char *hsp_ci_to_leave(const struct hsp_cluster *c, hsp_device_id d);
/* "drain of n1/0"; a cordon with its reason. Only where hsp_ci_to_leave is not NULL. */
const char *hsp_ci_leave_cause(struct hsp_cluster *c, hsp_device_id d);
/* "; n1/0 is lost: why; and 2 more", of devices of nodes that are here and get no work for their health; or "". */
const char *hsp_ci_unwell(struct hsp_cluster *c);
/* Nothing is left on a device that gets no work: told, once. */
void hsp_ci_tell_drained(struct hsp_cluster *c, struct hsp_cluster_node *n);

/* measure.c */
void hsp_ci_measure_hello(struct hsp_cluster *c, struct hsp_cluster_node *n, bool anew);
void hsp_ci_measure_advance(struct hsp_cluster *c); /* whose turn it is */
hsp_msec hsp_ci_measure_due(const struct hsp_cluster *c);
void hsp_ci_uplink(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_uplink *m);

/* suspend.c */
void hsp_ci_suspend(struct hsp_cluster *c, const struct hsp_admin_event *a, struct hsp_job *j);
/* Where @j begins when nothing of its state is held any more: its newest checkpoint, or the start. */
void hsp_ci_suspend_origin(struct hsp_job *j);
void hsp_ci_suspend_advance(struct hsp_cluster *c, struct hsp_job *j); /* asks for the checkpoint */
/* A newer checkpoint is on record: a job that nothing is held of begins there. */
void hsp_ci_suspend_recorded(struct hsp_cluster *c, struct hsp_job *j);
/* A checkpoint of @epoch is complete, or has failed; one that failed behind a switch says nothing, since the
 * epoch that runs was asked again. */
void hsp_ci_suspend_checkpointed(struct hsp_cluster *c, struct hsp_job *j, uint64_t epoch,
                                 const struct hsp_m_ckpt *k);

/* node_check.c */
/* Replies at once when nothing can be asked, else when all has been. */
void hsp_ci_check_begin(struct hsp_cluster *c, const struct hsp_admin_event *a);
void hsp_ci_check_stop(struct hsp_cluster *c, uint64_t request);
void hsp_ci_checked(struct hsp_cluster *c, struct hsp_cluster_node *n,
                    const struct hsp_m_checked *m);
/* Orders that are over, those that can begin, the end. */
void hsp_ci_check_advance(struct hsp_cluster *c);
hsp_msec hsp_ci_check_due(const struct hsp_cluster *c);
void hsp_ci_check_fini(struct hsp_cluster *c);

/* allocate.c: the devices job @j may use now, ascending, in the arena of the step. Pure function of
 * jobs by priority and submit order, min and max, and devices. */
uint32_t hsp_ci_available(struct hsp_cluster *c, const struct hsp_job *j, hsp_device_id **ret);
bool hsp_ci_contains(const hsp_device_id *list, uint32_t n, hsp_device_id d);

/* recover.c */
/* The greatest version of layout @info of which every shard has a piece in @held, a list of
 * (holder, owner, version), which is sorted. False: none. */
bool hsp_recover_version(const struct hsp_plan_info *info, struct hsp_state_piece *held, uint32_t n,
                         uint64_t *ret_version);
/* Newest started layout of @j that is whole somewhere among reachable devices (decision D9).
 * HSP_OK; HSP_AGAIN: found, but a newer layout may have gone further and nobody here can tell:
 * better wait for its nodes; HSP_ENOENT: nothing is whole. */
enum hsp_status hsp_ci_choose(struct hsp_cluster *c, const struct hsp_job *j, uint64_t *ret_plan,
                              uint64_t *ret_version);
/* A device that was there when layout @p was begun, and is here with its memory. Had a version been
 * committed there, every rank would have sealed it first: what this one holds says how far anybody
 * can have come. */
bool hsp_ci_witness(const struct hsp_cluster *c, const struct hsp_job_plan *p, hsp_device_id *ret);
bool hsp_ci_reachable(const struct hsp_cluster *c, const struct hsp_job *j,
                      const struct hsp_state_piece *p);
void hsp_ci_held_drop_node(struct hsp_cluster *c, struct hsp_job *j, uint32_t node);
void hsp_ci_held_add(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_state_piece *p);

/* keepers.c */
/* A node that may keep a copy: what the choice is made by. */
struct hsp_keeper_node {
    uint32_t node;
    hsp_device_id device;
    bool mine;     /* the job keeps there already */
    bool up;       /* at once */
    uint64_t kept; /* bytes it keeps for all jobs */
    uint64_t room; /* bytes it has left, UINT64_MAX not known */
};
/* The best @want of @n nodes for a keeper of @bytes: those that keep for the job already, then those
 * that can begin at once, then the fewest kept bytes, then the number of the node. @list is put into
 * that order, those without room behind; returns how many of the first may be taken. */
uint32_t hsp_keepers_order(struct hsp_keeper_node *list, uint32_t n, uint32_t want, uint64_t bytes);
/* Mesh ranks of @e that take part in every step: members and keepers. */
uint32_t hsp_ci_lasting(const struct hsp_cl_epoch *e);
/* The device of a holder in the layout, HSP_NO_DEVICE: a keeper that was not to be had. */
hsp_device_id hsp_ci_holder(const struct hsp_plan_info *p, uint32_t rank);
/* Chooses the keepers of a layout that has not been used yet. */
void hsp_ci_set_keepers(struct hsp_cluster *c, const struct hsp_job *j, struct hsp_plan_info *p);
/* Layout @plan with the keepers there are now: its own number when they are the same, else the number
 * of a copy of it. 0: no memory. */
uint64_t hsp_ci_with_keepers(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan);
/* Should the running layout have other keepers? Names the cause. */
bool hsp_ci_wants_keepers(struct hsp_cluster *c, struct hsp_job *j);
/* Device @d of the attempt is one of its keepers: it is not asked again for a while. */
bool hsp_ci_refuse_keeper(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d,
                          const char *why);
void hsp_ci_keepers_advance(struct hsp_cluster *c, struct hsp_job *j);

/* plans.c */
struct hsp_job_plan *hsp_ci_plan(const struct hsp_job *j, uint64_t plan);
void hsp_ci_info_fini(struct hsp_plan_info *p);
const char *hsp_ci_info_fault(const struct hsp_plan_info *p); /* NULL: well formed */
void hsp_ci_start_plan(struct hsp_cluster *c, struct hsp_job *j, const hsp_device_id *dev,
                       uint32_t n, bool urgent);
void hsp_ci_cancel_plan(struct hsp_cluster *c, struct hsp_job *j);
void hsp_ci_plan_done(struct hsp_cluster *c, const struct hsp_plan_event *ev);
uint64_t hsp_ci_adopt_result(struct hsp_cluster *c, struct hsp_job *j); /* its plan number */
/* A new number for what layout @plan is, with @keeper. 0: no memory. */
uint64_t hsp_ci_copy_plan(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan,
                          const hsp_device_id *keeper, uint32_t n_keepers);
void hsp_ci_drop_plan(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan);

/* epochs.c */
void hsp_ci_epoch_fini(struct hsp_cl_epoch *e);
bool hsp_ci_epoch_index(struct hsp_cl_epoch *e); /* its peers are complete; false: no memory */
struct hsp_epoch_peer *hsp_ci_peer(const struct hsp_cl_epoch *e, hsp_device_id d);
void hsp_ci_attempt(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan,
                    enum hsp_epoch_mode mode, uint64_t from_plan, uint64_t step);
void hsp_ci_attempt_advance(struct hsp_cluster *c, struct hsp_job *j);
/* Only before GO. The state of the job goes back to where it was. */
void hsp_ci_attempt_fail(struct hsp_cluster *c, struct hsp_job *j, const char *why);
/* The same for a cause that was taken away by refusing a node: counts as no failure. */
void hsp_ci_attempt_refused(struct hsp_cluster *c, struct hsp_job *j, const char *why);
/* The same when what it was for is done: nothing failed. The caller stores the job. */
void hsp_ci_attempt_drop(struct hsp_cluster *c, struct hsp_job *j, const char *why);
void hsp_ci_free_leases(struct hsp_cluster *c, struct hsp_job *j);

/* epoch_messages.c */
void hsp_ci_job_msg(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m);
void hsp_ci_reconcile(struct hsp_cluster *c, struct hsp_job *j, struct hsp_cluster_node *n,
                      const struct hsp_m_hello *m);
void hsp_ci_promote(struct hsp_cluster *c, struct hsp_job *j);

/* slow.c */
void hsp_ci_watch_begin(struct hsp_cluster *c, struct hsp_job *j); /* of the epoch that runs now */
void hsp_ci_watch_step(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_m_step *s);
/* After a restart: what its plan was made with is what is known of its devices. */
void hsp_ci_watch_restore(struct hsp_cluster *c, const struct hsp_job *j);

/* job_data.c */
/* @kind: HSP_FACT_NO_DATA or HSP_FACT_DATA_DIFFERS. Nothing when the node is refused already. */
void hsp_ci_data_refuse(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d, uint32_t kind,
                        const char *why);
void hsp_ci_data_forget(struct hsp_job *j, uint32_t node);
void hsp_ci_data_advance(struct hsp_cluster *c, struct hsp_job *j);
/* ": why; and N more", or "". */
const char *hsp_ci_data_why(struct hsp_cluster *c, const struct hsp_job *j);
/* All ranks of the attempt are ready: have they one text? False: those that differ are refused and
 * the attempt is over. */
bool hsp_ci_data_agrees(struct hsp_cluster *c, struct hsp_job *j);

/* finishing.c */
/* @j is finishing, its final model cannot be written, and a node of it is to go. */
bool hsp_ci_moves(const struct hsp_cluster *c, const struct hsp_job *j);
/* It cannot go, and @why: its reason says what to do. */
void hsp_ci_finishing_stays(struct hsp_cluster *c, struct hsp_job *j, const char *why);
void hsp_ci_finishing_advance(struct hsp_cluster *c, struct hsp_job *j);

/* jobs.c */
struct hsp_job *hsp_ci_job(const struct hsp_cluster *c, uint32_t id);
bool hsp_ci_at_rest(
    const struct hsp_job *j); /* over or suspended: it has nothing and wants nothing */
bool hsp_ci_releasing(const struct hsp_cluster *c, const struct hsp_job *j); /* waits for answers */
/* A node with devices of the job that is not connected and not dead: it comes back or dies, soon. NULL:
 * none. */
const struct hsp_cluster_node *hsp_ci_silent_node(const struct hsp_cluster *c,
                                                  const struct hsp_job *j);
/* Every device of @want is in @have, which is ascending. */
bool hsp_ci_all_in(const hsp_device_id *want, uint32_t n_want, const hsp_device_id *have,
                   uint32_t n_have);
void hsp_ci_job_move(struct hsp_cluster *c, struct hsp_job *j, enum hsp_job_state to);
/* Says why @j does not run; told only when it changes. */
void hsp_ci_job_blocked(struct hsp_cluster *c, struct hsp_job *j, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void hsp_ci_job_loss(struct hsp_cluster *c, struct hsp_job *j, const char *cause);
void hsp_ci_job_end(struct hsp_cluster *c, struct hsp_job *j, enum hsp_job_state to,
                    const char *why);
/* Nobody can plan it any more: what is to run has failed; what is at rest stays as it is. */
void hsp_ci_job_unreadable(struct hsp_cluster *c, const struct hsp_unreadable_event *ev);
/* Counts, sets the pause. @why: for people, when the job ends here. */
void hsp_ci_job_failure(struct hsp_cluster *c, struct hsp_job *j, const char *why);
void hsp_ci_advance(struct hsp_cluster *c);
void hsp_ci_admin(struct hsp_cluster *c, const struct hsp_admin_event *a);
void hsp_ci_job_free(struct hsp_job *j);

/* rows.c */
void hsp_ci_store_term(struct hsp_cluster *c);
void hsp_ci_store_node(struct hsp_cluster *c, const struct hsp_cluster_node *n);
void hsp_ci_store_job(struct hsp_cluster *c, struct hsp_job *j);
/* Its row, when leases it names are given up: a restart would take them from who has them now. */
void hsp_ci_store_leases(struct hsp_cluster *c, struct hsp_job *j);
void hsp_ci_store_plan(struct hsp_cluster *c, const struct hsp_job *j,
                       const struct hsp_job_plan *p);
enum hsp_status hsp_ci_load_row(struct hsp_cluster *c, const struct hsp_cluster_row *row,
                                struct hsp_err *err);

#endif
