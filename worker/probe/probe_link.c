/* Measures a link from both ends. First rank 0 asks and rank 1 answers, then the other way: pings;
 * then messages, each behind a header with its size, answered by one byte; a header of 0 ends the
 * turn.
 */
#include "worker/probe/probe_link.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define CHANNEL    1u
#define PINGS      101
#define PING_BYTES 64
#define FIRST      ((uint64_t)64 << 10)
#define MOST       ((uint64_t)16 << 20)
#define REPS       4    /* of the size that takes long enough */
#define LONG_S     0.02 /* long enough for a clock and a scheduler */

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* exists on Linux */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static enum hsp_status pings(struct hsp_comm *c, uint8_t *buf, double *ret_rtt, struct hsp_err *err)
{
    double took[PINGS];
    enum hsp_status st = HSP_OK;
    for (unsigned i = 0; st == HSP_OK && i < PINGS; i++) {
        double t0 = now_s();
        st = c->ops->send(c, !c->rank, CHANNEL, buf, PING_BYTES, err);
        if (st == HSP_OK) {
            st = c->ops->recv(c, !c->rank, CHANNEL, buf, PING_BYTES, err);
        }
        took[i] = now_s() - t0;
    }
    if (st == HSP_OK) {
        qsort(took, PINGS, sizeof took[0], by_value);
        *ret_rtt = took[PINGS / 2];
    }
    return st;
}

/* Seconds of one message and its answer; @bytes 0: there is none, the turn ends. */
static enum hsp_status message(struct hsp_comm *c, uint8_t *buf, uint64_t bytes, double *ret,
                               struct hsp_err *err)
{
    double t0 = now_s();
    enum hsp_status st = c->ops->send(c, !c->rank, CHANNEL, &bytes, sizeof bytes, err);
    if (st == HSP_OK && bytes > 0) {
        st = c->ops->send(c, !c->rank, CHANNEL, buf, bytes, err);
    }
    if (st == HSP_OK && bytes > 0) {
        st = c->ops->recv(c, !c->rank, CHANNEL, buf, 1, err);
    }
    *ret = now_s() - t0;
    return st;
}

static enum hsp_status ask(struct hsp_comm *c, uint8_t *buf, struct hsp_link_figures *ret,
                           struct hsp_err *err)
{
    double rtt = 0, took = 0;
    uint64_t bytes = FIRST;
    enum hsp_status st = pings(c, buf, &rtt, err);
    ret->latency_s = rtt / 2;
    ret->bytes_per_s = 0;
    for (unsigned reps = 0; st == HSP_OK && reps < REPS;) {
        st = message(c, buf, bytes, &took, err);
        double moving = took > 2 * rtt ? took - rtt : took / 2;
        double rate = (double)bytes / (moving > 1e-9 ? moving : 1e-9);
        ret->bytes_per_s = rate > ret->bytes_per_s ? rate : ret->bytes_per_s;
        if (took < LONG_S && bytes < MOST) {
            bytes *= 4;
        } else {
            reps++;
        }
    }
    return st == HSP_OK ? message(c, buf, 0, &took, err) : st;
}

static enum hsp_status answer(struct hsp_comm *c, uint8_t *buf, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    uint64_t bytes = 1;
    for (unsigned i = 0; st == HSP_OK && i < PINGS; i++) {
        st = c->ops->recv(c, !c->rank, CHANNEL, buf, PING_BYTES, err);
        if (st == HSP_OK) {
            st = c->ops->send(c, !c->rank, CHANNEL, buf, PING_BYTES, err);
        }
    }
    while (st == HSP_OK && bytes > 0) {
        st = c->ops->recv(c, !c->rank, CHANNEL, &bytes, sizeof bytes, err);
        if (st == HSP_OK && bytes > MOST) {
            st = hsp_err_set(err, HSP_EPROTO, 0, "the peer announces %" PRIu64 " bytes", bytes);
        }
        if (st == HSP_OK && bytes > 0) {
            st = c->ops->recv(c, !c->rank, CHANNEL, buf, bytes, err);
        }
        if (st == HSP_OK && bytes > 0) {
            st = c->ops->send(c, !c->rank, CHANNEL, buf, 1, err);
        }
    }
    return st;
}

enum hsp_status hsp_link_test(struct hsp_comm *c, struct hsp_link_figures *ret, struct hsp_err *err)
{
    uint8_t *buf = calloc(1, MOST);
    enum hsp_status st = buf != NULL ? HSP_OK : hsp_err_nomem(err, "the measurement of a link");
    for (uint32_t turn = 0; st == HSP_OK && turn < 2; turn++) {
        st = turn == c->rank ? ask(c, buf, ret, err) : answer(c, buf, err);
    }
    free(buf);
    return st;
}
