/* Models due versions (decision D9a), to show that the rules lose nothing: votes, segments, copies,
 * switches, losses, and nothing else.
 *
 * Role:    shows that the rules keep every committed version in any order of events, and that each
 *          rule is needed: a run with one rule broken loses something sooner or later.
 * Purity:  pure.
 * Files:   due_store.c holds segments, due_step.c the events of an epoch, due_loss.c deaths and
 *          recoveries, due_run.c draws the events.
 * Model:   a cell is a part of the state that no layout cuts. Each node runs one process, and the
 *          process is a member of an epoch: either a rank, the home of some cells, or a replica
 *          holder. For each owner of each layout a node has two slots, each for one version. A
 *          member sends its record of a vote to each peer separately, so some peers may have got it
 *          and others not. When a process dies, each of its records still on the way arrives or is
 *          lost. A process dies alone, or its node dies with all slots. At most one node dies at a
 *          time: the next node may die when a version has become stable again. The model has no
 *          clock; time is the order of events.
 */
#ifndef HSP_DUE_MODEL_H
#define HSP_DUE_MODEL_H
#include <stdbool.h>
#include <stdint.h>

#define DUE_NODES   4
#define DUE_LAYOUTS 4
#define DUE_CELLS   4
#define DUE_STEPS   12 /* of the job, which begins with version 1 */
#define DUE_NONE    0

/* X(name, the rule that is broken) */
#define DUE_RULES(X)                                                                               \
    X(PARITY, "a version goes to the slot without the last stable one, not to that of its parity") \
    X(OWN_CLOCK, "a version is due by rank 0's record, not by each node's own clock")              \
    X(THIN_COPIES, "homes seal the versions that are copied, no others")                           \
    X(WHILE_PENDING, "no version is due while an earlier one is pending")                          \
    X(OWN_STABLE, "a version is stable by the records of all, not by one's own")                   \
    X(COPY_NEWER, "a holder writes over the older of its two copies")                              \
    X(COPY_EARLY, "a version is confirmed when its copies are sealed, not when they are sent")     \
    X(UPDATE_EARLY, "an update waits until the due version is out")                                \
    X(BESIDE, "no update comes before all of the first version is here")                           \
    X(ARMED, "a switch waits until no version is pending")                                         \
    X(RELEASE, "the old layout stays until the new one has a stable version")                      \
    X(SEAL_PENDING, "a survivor with a pending version seals no later one at a loss")              \
    X(SEAL_DUE, "a survivor seals the due version that it has just written")                       \
    X(SEAL_LAGGING, "a version is pending until it is known to be stable, though confirmed here")  \
    X(SEAL_TORN, "who has passed a vote finishes its update before it seals")                      \
    X(FETCH_OLDER,                                                                                 \
      "a recovery writes over what is not the last stable version, not over the older")            \
    X(NO_VOID, "a recovery voids what is newer than its version")

enum due_rule {
#define X(name, text) DUE_##name,
    DUE_RULES(X)
#undef X
        DUE_ALL_KEPT
};

struct due_slot {
    uint8_t version; /* sealed; DUE_NONE: none */
    uint8_t epoch;   /* in which it was computed */
    bool torn;       /* its content is not that of its version */
};
struct due_store {
    struct due_slot slot[2];
};

struct due_kind { /* of layouts */
    const char *name;
    uint8_t n, n_replica_holders;
    uint8_t cells[DUE_NODES]; /* of each rank */
    int8_t holder[DUE_NODES]; /* of its copies; -1: replicas are its copies */
    uint8_t sealers;          /* ranks that seal due versions */
    bool replicated;          /* each cell has homes on two nodes */
};

struct due_record {
    uint8_t step, confirmed;
    bool wish, armed;
};

enum due_at { DUE_COMPUTES, DUE_SENT, DUE_PASSED };

struct due_member { /* a process in an epoch */
    bool begun, left;
    bool weights, whole;      /* of the first version, on the device */
    uint8_t live, live_epoch; /* on the device; the step under way has its number */
    bool torn;                /* the live state is torn */
    enum due_at at;
    bool armed, leaves;
    struct due_record mine, got[DUE_NODES];
    uint8_t to_give, has;   /* records: the peers to give to, the peers heard; bits */
    uint8_t stable;         /* newest version known to be */
    uint8_t due, confirmed; /* newest; due > stable: pending */
    bool opened, out;       /* of the due one: its slot, its seal */
    uint8_t slot;
    bool copying, copied;
    uint8_t copy_slot;
    bool fetching; /* of the first version */
};

struct due_epoch {
    bool used;
    uint8_t number;
    const struct due_kind *kind;
    uint8_t layout, from; /* its slots; those of its first version */
    uint8_t first;
    uint8_t keep; /* the version before in the same layout that is whole; DUE_NONE: none */
    struct due_member m[DUE_NODES];
};

struct due_world {
    uint64_t chance;
    enum due_rule broken;
    bool up[DUE_NODES];
    struct due_store store[DUE_NODES][DUE_LAYOUTS][DUE_NODES]; /* node, layout, owner */
    const struct due_kind *kind[DUE_LAYOUTS];                  /* NULL: free */
    struct due_epoch epoch[2];
    unsigned cur; /* the one that runs; the other is prepared, or being left */
    uint8_t n_epochs;
    bool aimed;                  /* deaths come where they matter most */
    const struct due_kind *only; /* kind of all layouts; NULL: any */
    uint8_t slow;                /* a kind of events that come late in this run */
    uint8_t every, calendar;     /* wishes of rank 0; each multiple of calendar is due */
    uint8_t committed;           /* greatest version that a member has known to be stable */
    bool spare;                  /* a node may go */
    bool ending;                 /* a process has died */
    unsigned ends_in;            /* events */
    unsigned losses;
    /* counts of the events seen */
    unsigned switches, splits, sealed_at_loss, kept; /* kept: nothing was made again */
    bool stands;                                     /* nothing is lost, but nothing goes on */
    char why[120];                                   /* "": all is well */
};

/* due_store.c */
bool due_breaks(const struct due_world *w, enum due_rule r);
unsigned due_draw(struct due_world *w, unsigned n); /* below n */
/* Fails the run; w->why keeps the first reason. */
void due_fail(struct due_world *w, const char *what, unsigned version);
void due_stand(struct due_world *w, const char *what, unsigned version);
/* Returns the slot into which @s writes version @v; the version @protect stays. */
unsigned due_slot_for(const struct due_world *w, const struct due_store *s, uint8_t v,
                      uint8_t protect);
unsigned due_older(const struct due_store *s);
bool due_has(const struct due_store *s, uint8_t v);
/* Returns whether each cell of @cells has a sealed version @v in @layout on a node that is up.
 * *ret_from (may be NULL) is the state that a reader of all these cells gets; it is torn also if it
 * has pieces of two epochs. */
bool due_whole(const struct due_world *w, unsigned layout, uint8_t v, uint8_t cells,
               struct due_slot *ret_from);
void due_seal(struct due_slot *s, const struct due_member *m);
void due_void_above(struct due_world *w, unsigned layout, uint8_t v);

/* due_step.c */
extern const struct due_kind due_kinds[];
extern const unsigned due_n_kinds, due_n_events;
const struct due_kind *due_kind(struct due_world *w); /* of a layout that is made now */
unsigned due_free_layout(const struct due_world *w);  /* DUE_LAYOUTS: none is */
void due_know_stable(struct due_world *w, struct due_member *m, uint8_t v);
/* Draws one of the events that can happen now, and makes it happen. Returns false if none can. */
bool due_happen(struct due_world *w);
bool due_finished(const struct due_world *w);

/* due_loss.c */
void due_begin(struct due_world *w, const struct due_kind *k);
void due_kill(struct due_world *w);
void due_recover(struct due_world *w);

/* due_run.c */
void due_run(struct due_world *w, uint64_t seed, enum due_rule broken);
const char *due_rule_text(enum due_rule r);

#endif
