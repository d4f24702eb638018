/* Measures CPUs. Each figure is the best of several repetitions: interference only ever makes
 * slower. */
#include "worker/probe/probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/size.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/probe/probe_fill.h"
#include "worker/probe/probe_gemm.h"

#define GEMM_SECONDS 0.05 /* of each shape and element type */
#define SHAPE_SIDE   256
#define SHAPE_SECONDS \
    0.015 /* of each class of shapes and element type; there and back for attention */
#define ADD_SECONDS  0.08
#define ADD_ELEMS    (INT64_C(4) << 20) /* three arrays of 16 MiB: more than caches hold */
#define TINY_OPS     1000               /* in one repetition */
#define TINY_SECONDS 0.04
#define MIN_REPS     3
#define MAX_REPS     10000

/* ---- time ---- */

static double seconds(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t); /* both clocks exist on Linux */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- a device ---- */

struct bench {
    struct hsp_backend *be;
    clockid_t clock;
};

/* Seconds of the fastest of the repetitions that fit into @budget. */
static enum hsp_status fastest(const struct bench *b, const struct hsp_call *call, double budget,
                               double *ret, struct hsp_err *err)
{
    double best = 1e30, end = seconds(CLOCK_MONOTONIC) + budget;
    enum hsp_status st =
        b->be->run(b->be, HSP_DEVQ_COMPUTE, call, err); /* warms caches, starts the library */
    for (unsigned r = 0; st == HSP_OK && r < MAX_REPS; r++) {
        double t0 = seconds(b->clock);
        st = b->be->run(b->be, HSP_DEVQ_COMPUTE, call, err);
        double t = seconds(b->clock) - t0;
        best = t < best ? t : best;
        if (r + 1 >= MIN_REPS && seconds(CLOCK_MONOTONIC) >= end) {
            break;
        }
    }
    *ret = best > 1e-9 ? best : 1e-9;
    return st;
}

/* The first two arrays are read. */
static void fill(uint8_t *mem, enum hsp_dtype t)
{
    size_t part = (size_t)ADD_ELEMS * sizeof(float);
    hsp_probe_numbers(t, 0, mem, part);
    hsp_probe_numbers(t, 1, mem + part, part);
}

/* Tokens, inputs and outputs of a linear layer: square, wide and few tokens. */
static const int64_t SHAPES[][3] = {{256, 256, 256}, {256, 128, 512}, {64, 512, 256}};

static enum hsp_status gemm(const struct bench *b, enum hsp_dtype t, uint8_t *mem, double *ret,
                            struct hsp_err *err)
{
    double flops = 0, time = 0;
    size_t part = (size_t)ADD_ELEMS * sizeof(float);
    for (size_t i = 0; i < HSP_ARRAY_LEN(SHAPES); i++) {
        int64_t m = SHAPES[i][0], k = SHAPES[i][1], n = SHAPES[i][2];
        struct hsp_attrs at = {0};
        struct hsp_array in[2] = {{.data = mem, .dtype = t, .rank = 3, .ext = {1, m, k}},
                                  {.data = mem + part, .dtype = t, .rank = 2, .ext = {n, k}}};
        struct hsp_array out = {.data = mem + 2 * part, .dtype = t, .rank = 3, .ext = {1, m, n}};
        struct hsp_call c = {
            .op = HSP_OP_LINEAR, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = &out};
        double s;
        enum hsp_status st = fastest(b, &c, GEMM_SECONDS, &s, err);
        if (st != HSP_OK) {
            return st;
        }
        flops += 2.0 * (double)m * (double)k * (double)n;
        time += s;
    }
    *ret = flops / time;
    return HSP_OK;
}

/* The other classes, against @rate. */
static enum hsp_status shapes(const struct bench *b, enum hsp_dtype t, uint8_t *mem, double rate,
                              double ret[HSP_N_GEMM_CLASSES], struct hsp_err *err)
{
    size_t part = (size_t)ADD_ELEMS * sizeof(float);
    uint8_t *const piece[3] = {mem, mem + part, mem + 2 * part};
    ret[HSP_GEMM_EVEN] = 1;
    for (int c = HSP_GEMM_EVEN + 1; c < HSP_N_GEMM_CLASSES; c++) {
        struct hsp_shape x;
        double all = 0, s = 0;
        hsp_shape_make((enum hsp_gemm_class)c, t, false, SHAPE_SIDE, piece, part, &x);
        for (uint32_t k = 0; k < x.n; k++) {
            enum hsp_status st = fastest(b, &x.call[k].c, SHAPE_SECONDS, &s, err);
            if (st != HSP_OK) {
                return st;
            }
            all += s;
        }
        ret[c] = hsp_shape_part(&x, all, 0, rate);
    }
    return HSP_OK;
}

static enum hsp_status products(const struct bench *b, bool parts, uint8_t *mem,
                                struct hsp_probe *p, struct hsp_err *err)
{
    static const struct {
        enum hsp_dtype t;
        enum hsp_rate r;
    } kind[] = {{HSP_F32, HSP_RATE_FP32}, {HSP_F64, HSP_RATE_FP64}, {HSP_BF16, HSP_RATE_BF16}};
    double *const rate[] = {&p->gemm_fp32_flops, &p->gemm_fp64_flops, &p->gemm_bf16_flops};
    enum hsp_status st = HSP_OK;
    for (size_t i = 0; st == HSP_OK && i < HSP_ARRAY_LEN(kind); i++) {
        fill(mem, kind[i].t);
        st = gemm(b, kind[i].t, mem, rate[i], err);
        if (st == HSP_OK && parts) {
            st = shapes(b, kind[i].t, mem, *rate[i], p->gemm_part[kind[i].r], err);
        }
    }
    return st;
}

/* Seconds of adding two arrays too large for caches, however they are stored. */
static enum hsp_status add(const struct bench *b, enum hsp_dtype t, uint8_t *mem, double *ret,
                           struct hsp_err *err)
{
    size_t part = (size_t)ADD_ELEMS * sizeof(float);
    struct hsp_attrs at = {0};
    struct hsp_array in[2] = {{.data = mem, .dtype = t, .rank = 1, .ext = {ADD_ELEMS}},
                              {.data = mem + part, .dtype = t, .rank = 1, .ext = {ADD_ELEMS}}};
    struct hsp_array out = {.data = mem + 2 * part, .dtype = t, .rank = 1, .ext = {ADD_ELEMS}};
    struct hsp_call c = {.op = HSP_OP_ADD, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    fill(mem, t);
    return fastest(b, &c, ADD_SECONDS, ret, err);
}

/* The engine's work around each instruction: progress told to the other queue, clocks read. */
static void around(pthread_mutex_t *lock, pthread_cond_t *cond, unsigned *done)
{
    (void)pthread_mutex_lock(lock);
    *done += 1;
    (void)pthread_cond_broadcast(cond);
    (void)pthread_mutex_unlock(lock);
    (void)seconds(CLOCK_THREAD_CPUTIME_ID);
    (void)seconds(CLOCK_MONOTONIC);
}

/* Microseconds of an instruction so small that its numbers take no time. */
static enum hsp_status tiny(const struct bench *b, uint8_t *mem, double *ret, struct hsp_err *err)
{
    struct hsp_attrs at = {0};
    struct hsp_array in[2] = {{.data = mem, .dtype = HSP_F32, .rank = 3, .ext = {1, 4, 8}},
                              {.data = mem + 4096, .dtype = HSP_F32, .rank = 2, .ext = {8, 8}}};
    struct hsp_array out = {.data = mem + 8192, .dtype = HSP_F32, .rank = 3, .ext = {1, 4, 8}};
    struct hsp_array same[2] = {in[0], in[0]};
    struct hsp_call call[2] = {
        {.op = HSP_OP_LINEAR, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = &out},
        {.op = HSP_OP_ADD, .at = &at, .n_in = 2, .n_out = 1, .in = same, .out = &out}};
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    double best = 1e30, end = seconds(CLOCK_MONOTONIC) + TINY_SECONDS;
    enum hsp_status st = HSP_OK;
    hsp_probe_numbers(HSP_F32, 0, mem, 8192);
    for (unsigned r = 0, done = 0; st == HSP_OK && r < MAX_REPS; r++) {
        double t0 = seconds(b->clock);
        for (unsigned i = 0; st == HSP_OK && i < TINY_OPS; i++) {
            st = b->be->run(b->be, HSP_DEVQ_COMPUTE, &call[i % 2], err);
            around(&lock, &cond, &done);
        }
        double t = seconds(b->clock) - t0;
        best = t < best ? t : best;
        if (r + 1 >= MIN_REPS && seconds(CLOCK_MONOTONIC) >= end) {
            break;
        }
    }
    *ret = best * 1e6 / TINY_OPS;
    return st;
}

enum hsp_status hsp_probe_cpu(int threads, bool parts, struct hsp_probe *ret, struct hsp_err *err)
{
    struct hsp_probe p = {0};
    struct bench b = {.clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC};
    double s = 0;
    size_t bytes = 3 * (size_t)ADD_ELEMS * sizeof(float);
    uint8_t *mem = aligned_alloc(64, bytes);
    if (mem == NULL) {
        return hsp_err_nomem(err, "the measurement of a device");
    }
    double cpu = seconds(CLOCK_THREAD_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
    memset(mem, 0, bytes); /* brings the pages in */
    enum hsp_status st = hsp_backend_cpu_open(threads, &b.be, err);
    if (st != HSP_OK) {
        free(mem);
        return st;
    }
    st = products(&b, parts, mem, &p, err);
    if (st == HSP_OK) {
        st = add(&b, HSP_F32, mem, &s, err);
        p.mem_bytes_per_s = 3.0 * (double)ADD_ELEMS * sizeof(float) / s;
    }
    if (st == HSP_OK && parts) {
        double full = s;
        st = add(&b, HSP_BF16, mem, &s, err);
        p.bf16_part = full / s * sizeof(uint16_t) / sizeof(float);
    }
    if (st == HSP_OK) {
        st = tiny(&b, mem, &p.op_us, err);
    }
    cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
    wall = seconds(CLOCK_MONOTONIC) - wall;
    p.share = threads == 1 && wall > cpu ? cpu / wall : 1;
    b.be->close(b.be);
    free(mem);
    if (st == HSP_OK) {
        *ret = p;
    }
    return st;
}

struct hsp_probe hsp_probe_scale(const struct hsp_probe *p, double speed)
{
    struct hsp_probe q = *p; /* the other figures are not those of its cores, or parts of these */
    q.gemm_fp32_flops *= speed;
    q.gemm_fp64_flops *= speed;
    q.gemm_tf32_flops *= speed;
    q.gemm_bf16_flops *= speed;
    q.mem_bytes_per_s *= speed;
    q.op_us /= speed;
    q.gemm_us /= speed;
    return q;
}

/* ---- links ---- */

#define PINGS      200
#define PING_BYTES 64
#define LONG_BYTES (4u << 20)
#define LONG_REPS  4
#define LINK_WAIT  2 /* seconds a socket may block */

/* Sends or receives exactly @n bytes. */
static bool all_bytes(int fd, uint8_t *buf, size_t n, bool out)
{
    for (size_t at = 0; at < n;) {
        ssize_t k = out ? send(fd, buf + at, n - at, MSG_NOSIGNAL) : recv(fd, buf + at, n - at, 0);
        if (k == 0 || (k < 0 && errno != EINTR)) {
            return false;
        }
        at += k > 0 ? (size_t)k : 0;
    }
    return true;
}

struct echo {
    int fd;
    uint8_t *buf; /* LONG_BYTES */
};

/* Answers each ping, and each long message with one byte. */
static void *echo(void *arg)
{
    struct echo *e = arg;
    bool ok = true;
    for (unsigned i = 0; ok && i < PINGS; i++) {
        ok = all_bytes(e->fd, e->buf, PING_BYTES, false) &&
             all_bytes(e->fd, e->buf, PING_BYTES, true);
    }
    for (unsigned i = 0; ok && i < LONG_REPS; i++) {
        ok = all_bytes(e->fd, e->buf, LONG_BYTES, false) && all_bytes(e->fd, e->buf, 1, true);
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool measure(int fd, uint8_t *buf, struct hsp_probe_link *ret)
{
    double ping[PINGS], best = 1e30;
    for (unsigned i = 0; i < PINGS; i++) {
        double t0 = seconds(CLOCK_MONOTONIC);
        if (!all_bytes(fd, buf, PING_BYTES, true) || !all_bytes(fd, buf, PING_BYTES, false)) {
            return false;
        }
        ping[i] = seconds(CLOCK_MONOTONIC) - t0;
    }
    qsort(ping, PINGS, sizeof ping[0], by_value);
    ret->latency_us = ping[PINGS / 2] * 0.5e6;
    for (unsigned i = 0; i < LONG_REPS; i++) {
        double t0 = seconds(CLOCK_MONOTONIC);
        if (!all_bytes(fd, buf, LONG_BYTES, true) || !all_bytes(fd, buf, 1, false)) {
            return false;
        }
        double t = seconds(CLOCK_MONOTONIC) - t0;
        best = t < best ? t : best;
    }
    ret->us_per_byte = best * 1e6 / LONG_BYTES;
    return true;
}

/* Two ends of one connection over loopback; both -1 on error. */
static bool connect_pair(int fd[2])
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval wait = {.tv_sec = LINK_WAIT};
    socklen_t len = sizeof sa;
    int one = 1, l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[1] = -1;
    if (l >= 0 && fd[0] >= 0 && bind(l, (struct sockaddr *)&sa, sizeof sa) == 0 &&
        listen(l, 1) == 0 && getsockname(l, (struct sockaddr *)&sa, &len) == 0 &&
        connect(fd[0], (struct sockaddr *)&sa, sizeof sa) == 0) {
        fd[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    }
    if (l >= 0) {
        (void)close(l);
    }
    bool ok = fd[1] >= 0;
    for (int i = 0; ok && i < 2; i++) {
        ok = setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 &&
             setsockopt(fd[i], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0 &&
             setsockopt(fd[i], SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) == 0;
    }
    return ok;
}

enum hsp_status hsp_probe_loopback(struct hsp_probe_link *ret, struct hsp_err *err)
{
    int fd[2];
    pthread_t thread;
    struct hsp_probe_link link;
    uint8_t *buf = calloc(2, LONG_BYTES);
    bool ok = connect_pair(fd) && buf != NULL;
    int e = errno;
    struct echo other = {.fd = fd[1], .buf = buf != NULL ? buf + LONG_BYTES : NULL};
    if (ok) {
        ok = pthread_create(&thread, NULL, echo, &other) == 0;
        if (ok) {
            ok = measure(fd[0], buf, &link);
            e = errno;
            (void)shutdown(fd[0], SHUT_RDWR); /* the other thread ends in any case */
            (void)pthread_join(thread, NULL);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (fd[i] >= 0) {
            (void)close(fd[i]);
        }
    }
    free(buf);
    if (!ok) {
        return hsp_err_set(err, HSP_EIO, e, "measure the loopback link");
    }
    *ret = link;
    return HSP_OK;
}
