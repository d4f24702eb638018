#include "worker/executor/kill_point.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker/exec/vote.h"
#include "worker/executor/epoch.h"

#define ORDER_BYTES 128
#define STAY_MAX_MS 10000

static const char *const names[] = {
#define X(name, text) text,
    HSP_KILL_MAP(X)
#undef X
};

struct order {
    char point[24], who[16];
    uint64_t from;
    uint32_t stay_ms;
};

/* Reads the order for this rank from @path. Returns false if there is no file, or the file is no
 * order. */
static bool read_order(const char *path, struct order *ret)
{
    char text[ORDER_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    return sscanf(text, "%23s %" SCNu64 " %15s %" SCNu32, ret->point, &ret->from, ret->who,
                  &ret->stay_ms) == 4 &&
           ret->stay_ms <= STAY_MAX_MS;
}

/* Takes the order for this point, and deletes it. Returns false if there is no order; if two epochs
 * have this rank, only one of them gets the order. */
static bool taken(struct hsp_ex_epoch *e, enum hsp_kill_place point, uint64_t step,
                  struct order *ret)
{
    char path[PATH_MAX], line[ORDER_BYTES + 64];
    if (e->env->kill_dir == NULL || hsp_epoch_is_over(e)) {
        return false;
    }
    (void)snprintf(path, sizeof path, "%s/%u", e->env->kill_dir, e->p->rank);
    if (!read_order(path, ret) || strcmp(ret->point, names[point]) != 0 || step < ret->from ||
        unlink(path) != 0) {
        return false;
    }
    (void)snprintf(path, sizeof path, "%s/%u.hit", e->env->kill_dir, e->p->rank);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int n = snprintf(line, sizeof line, "%s %" PRIu64 " %" PRIu64 " %s\n", names[point], step,
                     e->number, e->env->node);
    ssize_t written = fd >= 0 ? write(fd, line, (size_t)n) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (written != n) { /* the test waits for the file and reports that it is missing */
        hsp_log(e->env->log, HSP_LOG_ERROR, "executor", "cannot write %s", path);
    }
    return true;
}

static void obey(const struct order *o)
{
    const struct timespec stay = {.tv_sec = o->stay_ms / 1000,
                                  .tv_nsec = (long)(o->stay_ms % 1000) * 1000000};
    (void)nanosleep(&stay, NULL);
    if (strcmp(o->who, "agent") == 0) {
        (void)kill(getppid(), SIGKILL); /* the agent has our user; this process ends, too */
    }
    (void)kill(getpid(), SIGKILL);
}

void hsp_kill_point(struct hsp_ex_epoch *e, enum hsp_kill_place point, uint64_t step)
{
    struct order o;
    if (taken(e, point, step, &o)) {
        obey(&o);
    }
}

void hsp_kill_vote(struct hsp_ex_epoch *e, const struct hsp_vote_record *mine)
{
    struct order o;
    bool armed = mine->armed != 0;
    hsp_kill_point(e, armed ? HSP_KILL_ARM_BEFORE : HSP_KILL_VOTE_BEFORE, mine->step);
    if (!taken(e, armed ? HSP_KILL_ARM_IN : HSP_KILL_VOTE_IN, mine->step, &o)) {
        return;
    }
    struct hsp_comm *comm = e->mesh[HSP_MESH_DATA];
    uint8_t record[HSP_VOTE_BYTES];
    uint32_t last = mine->rank + 1 < comm->n_ranks ? comm->n_ranks - 1 : comm->n_ranks - 2;
    hsp_vote_encode(mine, record);
    for (uint32_t r = 0; r < comm->n_ranks; r++) {
        if (r != mine->rank && (r != last || comm->n_ranks == 2)) {
            (void)comm->ops->send(comm, r, HSP_VOTE_CHANNEL, record, sizeof record, NULL);
        }
    }
    obey(&o);
}

void hsp_kill_instr(struct hsp_ex_epoch *e, uint32_t instr)
{
    const struct hsp_instr *i = &hsp_engine_program(e->engine)->tpl.instrs[instr];
    if (e->env->kill_dir == NULL || i->kind != HSP_I_OP ||
        (i->op != HSP_OP_ADAMW && i->op != HSP_OP_SGDM)) {
        return;
    }
    (void)pthread_mutex_lock(&e->lock);
    uint64_t step = e->passed;
    (void)pthread_mutex_unlock(&e->lock);
    hsp_kill_point(e, HSP_KILL_UPDATE_IN, step);
}
