/* Times all-reduces of a mesh of processes: meshbench TRANSPORT RANKS BYTES CALLS BATCHES.
 *
 * Prints one line of JSON: the seconds of one call, for every batch of CALLS in a row, as the
 * slowest rank saw it. The first batch warms up and does not count. Each rank checks the bits of
 * its result. `copy` for TRANSPORT times memcpy of BYTES, `stream` one-way bytes between two
 * processes by loopback TCP: the limits of the two paths. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker/comm/mesh/mesh.h"
#include "worker/comm/mesh/mesh_join.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/reduce.h"

#define MAX_RANKS   16
#define MAX_BATCHES 4096

struct board { /* shared by the processes */
    atomic_uint arrived, failed;
    char address[MAX_RANKS][HSP_MESH_ADDRESS];
    double seconds[MAX_RANKS][MAX_BATCHES];
};

struct run {
    struct board *b;
    const char *transport;
    uint32_t n, calls, batches;
    size_t bytes;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits until all ranks are here for the @k-th time, or one has failed. */
static void meet(const struct run *r, uint32_t k)
{
    atomic_fetch_add(&r->b->arrived, 1);
    while (atomic_load(&r->b->arrived) < k * r->n && atomic_load(&r->b->failed) == 0) {
        (void)sched_yield();
    }
}

/* A processor for each rank, where there are as many: mpirun does so by default. */
static void bind_rank(const struct run *r, uint32_t rank)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) != 0 || (uint32_t)CPU_COUNT(&all) < r->n) {
        return;
    }
    uint32_t k = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && k++ == rank) {
            CPU_SET(cpu, &one);
        }
    }
    (void)sched_setaffinity(0, sizeof one, &one); /* a hint */
}

static enum hsp_status join(const struct run *r, uint32_t rank, struct hsp_mesh_listener **l,
                            struct hsp_comm **ret, struct hsp_err *err)
{
    enum hsp_mesh_transport t = strcmp(r->transport, "tcp") == 0    ? HSP_MESH_TCP
                                : strcmp(r->transport, "unix") == 0 ? HSP_MESH_UNIX
                                                                    : HSP_MESH_SHM;
    enum hsp_status st = hsp_mesh_listener_open("127.0.0.1", NULL, t, l, err);
    if (st != HSP_OK) {
        return st;
    }
    (void)snprintf(r->b->address[rank], HSP_MESH_ADDRESS, "%s", hsp_mesh_listener_address(*l));
    meet(r, 1);
    struct hsp_mesh_peer peer[MAX_RANKS];
    for (uint32_t i = 0; i < r->n; i++) {
        peer[i] = (struct hsp_mesh_peer){.name = "bench", .address = r->b->address[i]};
    }
    struct hsp_mesh_params p = {.job = 1,
                                .epoch = 1,
                                .rank = rank,
                                .n = r->n,
                                .peers = peer,
                                .timeout_ms = 20000,
                                .cancel_fd = -1};
    return hsp_mesh_connect(*l, &p, ret, err);
}

static bool all_are(const float *v, size_t n, float want)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i] != want) {
            return false;
        }
    }
    return true;
}

/* As the ranks sum: one after the other, rounded each time. */
static float n_times(float v, uint32_t n)
{
    float sum = v;
    for (uint32_t i = 1; i < n; i++) {
        sum += v;
    }
    return sum;
}

static enum hsp_status work(const struct run *r, uint32_t rank, struct hsp_comm *c,
                            struct hsp_err *err)
{
    uint32_t ranks[MAX_RANKS];
    for (uint32_t i = 0; i < r->n; i++) {
        ranks[i] = i;
    }
    const struct hsp_group g = {.n = r->n, .ranks = ranks, .me = rank};
    size_t n = r->bytes / sizeof(float);
    float *v = aligned_alloc(4096, (r->bytes + 4095) / 4096 * 4096);
    enum hsp_status st = v == NULL ? hsp_err_set(err, HSP_ENOMEM, 0, "no memory") : HSP_OK;
    for (uint32_t k = 0; k <= r->batches && st == HSP_OK; k++) {
        for (size_t i = 0; i < n; i++) {
            v[i] = 1.0f;
        }
        meet(r, 2 + k);
        double t = now_s();
        float want = 1.0f;
        for (uint32_t i = 0; i < r->calls && st == HSP_OK; i++) {
            st = hsp_comm_all_reduce(c, &g, 1, HSP_F32, HSP_REDUCE_SUM, v, n, err);
            want = n_times(want, r->n); /* inf after many: equal all the same */
        }
        r->b->seconds[rank][k] = (now_s() - t) / r->calls;
        if (st == HSP_OK && !all_are(v, n, want)) {
            st = hsp_err_set(err, HSP_EIO, 0, "wrong sum");
        }
    }
    free(v);
    return st;
}

static int rank_main(const struct run *r, uint32_t rank)
{
    struct hsp_mesh_listener *l = NULL;
    struct hsp_comm *c = NULL;
    struct hsp_err err;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    enum hsp_status st = join(r, rank, &l, &c, &err);
    if (st == HSP_OK) {
        bind_rank(r, rank); /* not before: a mesh counts the processors that its ranks share */
        st = work(r, rank, c, &err);
    }
    if (st != HSP_OK) {
        atomic_store(&r->b->failed, 1);
        (void)fprintf(stderr, "rank %u: %s\n", rank, err.msg);
    }
    if (c != NULL) {
        c->ops->close(c);
    }
    hsp_mesh_listener_close(l);
    return st == HSP_OK ? 0 : 1;
}

static void print(const struct run *r)
{
    (void)printf("{\"seconds\": [");
    for (uint32_t k = 1; k <= r->batches; k++) {
        double worst = 0;
        for (uint32_t i = 0; i < r->n; i++) {
            worst = r->b->seconds[i][k] > worst ? r->b->seconds[i][k] : worst;
        }
        (void)printf("%s%.9f", k > 1 ? ", " : "", worst);
    }
    (void)printf("]}\n");
}

static int run_mesh(const struct run *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            _exit(rank_main(r, i));
        }
        if (pid < 0) {
            perror("meshbench: fork");
            atomic_store(&r->b->failed, 1);
        }
    }
    int status, bad = (int)atomic_load(&r->b->failed);
    while (wait(&status) > 0) {
        bad |= status;
    }
    return bad != 0;
}

/* ---- limits ---- */

static int run_copy(const struct run *r)
{
    uint8_t *a = malloc(r->bytes), *b = malloc(r->bytes);
    if (a == NULL || b == NULL) {
        return 1;
    }
    memset(a, 1, r->bytes);
    memset(b, 2, r->bytes);
    for (uint32_t k = 0; k <= r->batches; k++) {
        double t = now_s();
        for (uint32_t i = 0; i < r->calls; i++) {
            memcpy(i % 2 != 0 ? a : b, i % 2 != 0 ? b : a, r->bytes);
        }
        r->b->seconds[0][k] = (now_s() - t) / r->calls;
    }
    free(a);
    free(b);
    return 0;
}

static bool make_pair(int fd[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd[0], IPPROTO_TCP, TCP_CONGESTION, "cubic", 5); /* as a mesh does */
    bool ok = bind(l, (struct sockaddr *)&a, len) == 0 && listen(l, 1) == 0 &&
              getsockname(l, (struct sockaddr *)&a, &len) == 0 &&
              connect(fd[0], (struct sockaddr *)&a, len) == 0 &&
              (fd[1] = accept(l, NULL, NULL)) >= 0;
    (void)close(l);
    return ok;
}

/* Moves @bytes one way. */
static bool move(int fd, uint8_t *buf, size_t bytes, bool out)
{
    for (size_t done = 0; done < bytes;) {
        size_t k = bytes - done < (1u << 20) ? bytes - done : 1u << 20;
        ssize_t n = out ? send(fd, buf + done, k, MSG_NOSIGNAL) : recv(fd, buf + done, k, 0);
        if (n <= 0) {
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

static int run_stream(const struct run *r)
{
    int fd[2];
    uint8_t *buf = calloc(1, r->bytes), word = 0;
    if (buf == NULL || !make_pair(fd)) {
        return 1;
    }
    pid_t pid = fork();
    if (pid < 0) {
        return 1;
    }
    bool out = pid == 0, ok = true;
    for (uint32_t k = 0; k <= r->batches && ok; k++) {
        double t = now_s();
        for (uint32_t i = 0; i < r->calls && ok; i++) {
            ok = move(fd[out ? 0 : 1], buf, r->bytes, out);
        }
        ok = ok && move(fd[out ? 0 : 1], &word, 1, !out);
        r->b->seconds[0][k] = (now_s() - t) / r->calls;
    }
    if (out) {
        _exit(ok ? 0 : 1);
    }
    free(buf);
    return !ok || waitpid(pid, NULL, 0) != pid;
}

int main(int argc, char **argv)
{
    struct run r = {
        .b = mmap(NULL, sizeof *r.b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    if (argc != 6 || r.b == MAP_FAILED) {
        (void)fprintf(stderr,
                      "usage: meshbench shm|unix|tcp|copy|stream RANKS BYTES CALLS BATCHES\n");
        return 2;
    }
    r.transport = argv[1];
    r.n = (uint32_t)strtoul(argv[2], NULL, 10);
    r.bytes = (size_t)strtoull(argv[3], NULL, 10);
    r.calls = (uint32_t)strtoul(argv[4], NULL, 10);
    r.batches = (uint32_t)strtoul(argv[5], NULL, 10);
    if (r.n < 1 || r.n > MAX_RANKS || r.bytes < 4 || r.calls < 1 || r.batches >= MAX_BATCHES) {
        (void)fprintf(stderr, "meshbench: at most %d ranks and %d batches\n", MAX_RANKS,
                      MAX_BATCHES);
        return 2;
    }
    int bad = strcmp(r.transport, "copy") == 0     ? run_copy(&r)
              : strcmp(r.transport, "stream") == 0 ? run_stream(&r)
                                                   : run_mesh(&r);
    if (bad == 0) {
        r.n = strcmp(r.transport, "copy") == 0 || strcmp(r.transport, "stream") == 0 ? 1 : r.n;
        print(&r);
    }
    return bad;
}
