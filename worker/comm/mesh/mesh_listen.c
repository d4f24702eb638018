/* Accepts connections and sorts them by their hello. The happy path: a connection comes, its hello
 * names (job, epoch, rank), and the hsp_mesh_connect that waits for it takes it over. A hello of a
 * newer epoch than any prepared here is parked until that epoch is prepared. Possible failure: half
 * a hello (dropped after HELLO_MS), a hello of an old epoch or of a mesh that stands (dropped), too
 * many at once (the newest are dropped: a peer calls again), a kernel without memory (the thread
 * tries again), any other error of a wait (the process ends: otherwise its address would stay
 * silent, and peers would be blamed).
 *
 * The thread owns the connections; joins take them over under the lock. */
#include "worker/comm/mesh/mesh_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/hash.h"
#include "worker/comm/mesh/mesh_auth.h"
#include "worker/comm/mesh/mesh_impl.h"

/* Half-open and parked connections: all peers of one epoch may be early. */
#define MAX_CONNS HSP_MESH_MAX_RANKS
#define MAX_JOBS  64    /* jobs whose newest epoch is remembered; a node runs few */
#define HELLO_MS  5000  /* for 72 bytes */
#define PARK_MS   30000 /* an early peer calls again after that */
#define DEAF_MS   100   /* pause of accept without a descriptor, or memory, for a connection */

struct conn {
    int fd;
    uint64_t until_ms;
    size_t have;
    bool parked, local;
    uint8_t hello[MESH_HELLO];
};

struct hsp_mesh_listener {
    enum hsp_mesh_transport transport;
    int tcp_fd, unix_fd, wake_fd;
    char address[HSP_MESH_ADDRESS];
    pthread_t thread;
    pthread_mutex_t lock;
    /* locked */
    struct mesh_join *joins;
    bool stop;
    struct {
        uint64_t job, epoch; /* newest prepared here */
    } newest[MAX_JOBS];
    uint32_t n_jobs, next_job; /* next_job: overwritten when all are used */
    /* the thread's */
    uint64_t deaf_until_ms;
    uint32_t n_conns;
    struct conn conn[MAX_CONNS];
    struct pollfd poll[MAX_CONNS + 3];
};

enum hsp_mesh_transport hsp_mesh_transport_of(const struct hsp_mesh_listener *l)
{
    return l->transport;
}

uint64_t hsp_mesh_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t hsp_mesh_now_ms(void)
{
    return hsp_mesh_now_ns() / 1000000;
}

void hsp_mesh_wake(int fd)
{
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one);
    (void)n; /* EAGAIN: it is readable already */
}

/* ---- addresses ---- */

/* Two processes with equal keys share a network namespace: they reach each other's abstract
 * sockets. */
static uint64_t host_key(void)
{
    char id[128] = "";
    struct stat st;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (f != NULL) {
        if (fgets(id, 64, f) == NULL) {
            id[0] = 0;
        }
        (void)fclose(f);
    }
    size_t n = strlen(id);
    if (stat("/proc/self/ns/net", &st) == 0) {
        (void)snprintf(id + n, sizeof id - n, " %llu", (unsigned long long)st.st_ino);
    }
    return hsp_hash_str(id);
}

static socklen_t unix_addr(const char *name, struct sockaddr_un *sa)
{
    size_t n = strlen(name);
    *sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = n < sizeof sa->sun_path - 1 ? n : sizeof sa->sun_path - 1;
    memcpy(sa->sun_path + 1, name, n); /* sun_path[0] = 0: abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

/* Returns the part of an address after ",unix:" if the address is on this host, else NULL. */
static const char *local_part(const char *address)
{
    const char *s = strstr(address, ",unix:");
    char prefix[40];
    (void)snprintf(prefix, sizeof prefix, "hspmd-mesh.%016llx.", (unsigned long long)host_key());
    return s != NULL && strncmp(s + 6, prefix, strlen(prefix)) == 0 ? s + 6 : NULL;
}

bool hsp_mesh_one_host(const struct hsp_mesh_peer *peers, uint32_t n)
{
    const size_t prefix = strlen(",unix:hspmd-mesh.") + 16;
    const char *first = strstr(peers[0].address, ",unix:hspmd-mesh.");
    for (uint32_t i = 0; i < n; i++) {
        const char *s = strstr(peers[i].address, ",unix:hspmd-mesh.");
        if (s == NULL || strncmp(s, first, prefix) != 0) {
            return false;
        }
    }
    return true;
}

/* Splits "host:port[,unix:...]" or "[v6]:port". */
static bool tcp_part(const char *address, char host[HSP_MESH_ADDRESS], char port[8])
{
    size_t n = strcspn(address, ",");
    const char *colon = memrchr(address, ':', n);
    if (colon == NULL || n >= HSP_MESH_ADDRESS) {
        return false;
    }
    size_t h = (size_t)(colon - address), p = n - h - 1;
    const char *at = address;
    if (h >= 2 && at[0] == '[' && at[h - 1] == ']') {
        at++;
        h -= 2;
    }
    if (h == 0 || p == 0 || p >= 8) {
        return false;
    }
    memcpy(host, at, h);
    host[h] = 0;
    memcpy(port, colon + 1, p);
    port[p] = 0;
    return true;
}

static int resolve(const char *host, const char *port, bool passive, struct addrinfo **ret)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    hints.ai_flags |= passive ? AI_PASSIVE : 0;
    return getaddrinfo(host, port, &hints, ret);
}

static int dial_fd(int fd, const struct sockaddr *sa, socklen_t len, bool *ret_wait)
{
    if (fd < 0) {
        return -errno;
    }
    *ret_wait = false;
    if (connect(fd, sa, len) != 0) {
        int e = errno;
        if (e != EINPROGRESS) {
            close(fd);
            return -e;
        }
        *ret_wait = true;
    }
    return fd;
}

int hsp_mesh_dial(const char *address, bool local, bool *ret_wait)
{
    if (local) {
        struct sockaddr_un sa;
        const char *name = local_part(address);
        if (name == NULL) {
            return -ENOENT;
        }
        socklen_t len = unix_addr(name, &sa);
        return dial_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                       (struct sockaddr *)&sa, len, ret_wait);
    }
    char host[HSP_MESH_ADDRESS], port[8];
    struct addrinfo *ai = NULL;
    if (!tcp_part(address, host, port) || resolve(host, port, false, &ai) != 0) {
        return -EADDRNOTAVAIL;
    }
    int fd = dial_fd(socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                     ai->ai_addr, ai->ai_addrlen, ret_wait);
    freeaddrinfo(ai);
    return fd;
}

/* ---- joins ---- */

static void note_epoch(struct hsp_mesh_listener *l, uint64_t job, uint64_t epoch)
{
    for (uint32_t i = 0; i < l->n_jobs; i++) {
        if (l->newest[i].job == job) {
            if (l->newest[i].epoch < epoch) {
                l->newest[i].epoch = epoch;
            }
            return;
        }
    }
    uint32_t at = l->n_jobs < MAX_JOBS ? l->n_jobs++ : l->next_job++ % MAX_JOBS;
    l->newest[at].job = job;
    l->newest[at].epoch = epoch;
}

static bool is_newer(const struct hsp_mesh_listener *l, uint64_t job, uint64_t epoch)
{
    for (uint32_t i = 0; i < l->n_jobs; i++) {
        if (l->newest[i].job == job) {
            return epoch > l->newest[i].epoch;
        }
    }
    return true;
}

enum hsp_status hsp_mesh_join_open(struct hsp_mesh_listener *l, struct mesh_join *j,
                                   struct hsp_err *err)
{
    j->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    j->n_arrivals = 0;
    if (j->wake_fd < 0) {
        return hsp_err_set(err, HSP_EIO, errno, "cannot make an eventfd");
    }
    pthread_mutex_lock(&l->lock);
    j->next = l->joins;
    l->joins = j;
    note_epoch(l, j->want.job, j->want.epoch);
    pthread_mutex_unlock(&l->lock);
    hsp_mesh_wake(l->wake_fd); /* parked connections may be ours */
    return HSP_OK;
}

bool hsp_mesh_join_take(struct hsp_mesh_listener *l, struct mesh_join *j, struct mesh_arrival *ret)
{
    pthread_mutex_lock(&l->lock);
    bool any = j->n_arrivals > 0;
    if (any) {
        *ret = j->arrival[--j->n_arrivals];
    } else {
        uint64_t v;
        ssize_t n = read(j->wake_fd, &v, sizeof v);
        (void)n; /* EAGAIN: nothing to clear */
    }
    pthread_mutex_unlock(&l->lock);
    return any;
}

void hsp_mesh_join_close(struct hsp_mesh_listener *l, struct mesh_join *j)
{
    pthread_mutex_lock(&l->lock);
    for (struct mesh_join **p = &l->joins; *p != NULL; p = &(*p)->next) {
        if (*p == j) {
            *p = j->next;
            break;
        }
    }
    pthread_mutex_unlock(&l->lock);
    for (uint32_t i = 0; i < j->n_arrivals; i++) {
        close(j->arrival[i].fd);
    }
    close(j->wake_fd);
}

/* ---- the thread ---- */

static void drop_conn(struct hsp_mesh_listener *l, uint32_t i)
{
    if (l->conn[i].fd >= 0) {
        close(l->conn[i].fd);
    }
    l->conn[i] = l->conn[--l->n_conns];
}

/* Finds the join of a complete hello. Returns true if the connection was handed over or dropped. */
static bool place(struct hsp_mesh_listener *l, uint32_t i, uint64_t now)
{
    struct conn *c = &l->conn[i];
    struct mesh_hello h;
    bool keep = false;
    if (hsp_mesh_hello_read(c->hello, &h)) {
        pthread_mutex_lock(&l->lock);
        struct mesh_join *j = l->joins;
        while (j != NULL && (j->want.job != h.job || j->want.epoch != h.epoch)) {
            j = j->next;
        }
        if (j != NULL && j->want.to == h.to && j->want.n == h.n && j->n_arrivals < MESH_ARRIVALS) {
            struct mesh_arrival *a = &j->arrival[j->n_arrivals++];
            *a = (struct mesh_arrival){.fd = c->fd, .local = c->local, .from = h.from};
            memcpy(a->hello, c->hello, MESH_HELLO);
            c->fd = -1;
            hsp_mesh_wake(j->wake_fd);
        }
        keep = j == NULL && is_newer(l, h.job, h.epoch);
        pthread_mutex_unlock(&l->lock);
    }
    if (keep) {
        if (!c->parked) {
            c->parked = true;
            c->until_ms = now + PARK_MS;
        }
        return false;
    }
    drop_conn(l, i);
    return true;
}

static void accept_all(struct hsp_mesh_listener *l, int listen_fd, uint64_t now)
{
    for (int k = 0; listen_fd >= 0 && k < MAX_CONNS; k++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
            if (full && l->n_conns > 0) {
                drop_conn(l, 0);
            } else if (full) {
                l->deaf_until_ms = now + DEAF_MS; /* callers stay in the queue, readable */
            }
            return;
        }
        if (l->n_conns == MAX_CONNS) {
            drop_conn(l, 0); /* full of parked connections; a real peer calls again */
        }
        l->conn[l->n_conns++] =
            (struct conn){.fd = fd, .local = listen_fd == l->unix_fd, .until_ms = now + HELLO_MS};
    }
}

/* Reads from a connection. Returns true if the connection at @i was handed over or dropped. */
static bool serve(struct hsp_mesh_listener *l, uint32_t i, short events, uint64_t now)
{
    struct conn *c = &l->conn[i];
    if (now >= c->until_ms || (c->parked && events != 0)) {
        drop_conn(l, i); /* slow, or gone while parked */
        return true;
    }
    if (c->parked) {
        return place(l, i, now);
    }
    if (events == 0) {
        return false;
    }
    ssize_t n = recv(c->fd, c->hello + c->have, MESH_HELLO - c->have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (n <= 0) {
        drop_conn(l, i);
        return true;
    }
    c->have += (size_t)n;
    return c->have == MESH_HELLO && place(l, i, now);
}

static int fill_poll(struct hsp_mesh_listener *l)
{
    bool deaf = l->deaf_until_ms != 0;
    l->poll[0] = (struct pollfd){.fd = l->wake_fd, .events = POLLIN};
    l->poll[1] = (struct pollfd){.fd = deaf ? -1 : l->tcp_fd, .events = POLLIN};
    l->poll[2] = (struct pollfd){.fd = deaf ? -1 : l->unix_fd, .events = POLLIN};
    for (uint32_t i = 0; i < l->n_conns; i++) {
        l->poll[3 + i] =
            (struct pollfd){.fd = l->conn[i].fd, .events = l->conn[i].parked ? POLLRDHUP : POLLIN};
    }
    /* ms: how late a slow connection may be dropped */
    return deaf ? DEAF_MS : l->n_conns > 0 ? 500 : -1;
}

/* Waits for callers. A failure that may pass costs a pause; no descriptor is reported ready
 * then. */
static void await_events(struct hsp_mesh_listener *l, uint32_t n, int timeout)
{
    int got = poll(l->poll, 3 + n, timeout), e = errno;
    if (got >= 0 || e == EINTR) {
        return;
    }
    if (e != ENOMEM && e != EAGAIN) {
        (void)fprintf(stderr, "hspmd-worker: no wait for peers at %s: %s; this process ends\n",
                      l->address, strerror(e));
        _exit(EXIT_FAILURE);
    }
    for (uint32_t i = 0; i < 3 + n; i++) {
        l->poll[i].revents = 0;
    }
    (void)poll(NULL, 0, DEAF_MS); /* needs no memory */
}

static void *listen_main(void *p)
{
    struct hsp_mesh_listener *l = p;
    for (;;) {
        int timeout = fill_poll(l);
        uint32_t n = l->n_conns;
        await_events(l, n, timeout);
        uint64_t now = hsp_mesh_now_ms(), v;
        pthread_mutex_lock(&l->lock);
        bool stop = l->stop;
        pthread_mutex_unlock(&l->lock);
        if (stop) {
            return NULL;
        }
        if (l->poll[0].revents != 0) {
            ssize_t k = read(l->wake_fd, &v, sizeof v);
            (void)k; /* EAGAIN: nothing to clear */
        }
        /* Backwards: a dropped place is filled by one that was served already. */
        for (uint32_t i = n; i-- > 0;) {
            (void)serve(l, i, l->poll[3 + i].revents, now);
        }
        if (now >= l->deaf_until_ms) {
            l->deaf_until_ms = 0;
            accept_all(l, l->tcp_fd, now);
            accept_all(l, l->unix_fd, now);
        }
    }
}

/* ---- open and close ---- */

static int bind_tcp(const char *host, uint16_t *ret_port, bool *ret_wildcard, bool *ret_v6)
{
    struct addrinfo *ai = NULL;
    if (resolve(host, "0", true, &ai) != 0) {
        return -EADDRNOTAVAIL;
    }
    struct sockaddr_storage sa;
    socklen_t len = sizeof sa;
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = fd < 0 || bind(fd, ai->ai_addr, ai->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0 ||
                    getsockname(fd, (struct sockaddr *)&sa, &len) != 0
                ? -errno
                : 0;
    *ret_v6 = ai->ai_family == AF_INET6;
    freeaddrinfo(ai);
    if (r != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return r;
    }
    if (*ret_v6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, &sa, sizeof v6);
        *ret_port = ntohs(v6.sin6_port);
        *ret_wildcard = IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
    } else {
        struct sockaddr_in v4;
        memcpy(&v4, &sa, sizeof v4);
        *ret_port = ntohs(v4.sin_port);
        *ret_wildcard = v4.sin_addr.s_addr == htonl(INADDR_ANY);
    }
    return fd;
}

static int bind_unix(char name[64])
{
    struct sockaddr_un sa;
    uint8_t r[MESH_NONCE];
    uint64_t v;
    if (!hsp_mesh_nonce(r)) {
        return -EIO;
    }
    memcpy(&v, r, sizeof v);
    (void)snprintf(name, 64, "hspmd-mesh.%016llx.%016llx", (unsigned long long)host_key(),
                   (unsigned long long)v);
    socklen_t len = unix_addr(name, &sa);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len) != 0 || listen(fd, SOMAXCONN) != 0) {
        int e = errno;
        if (fd >= 0) {
            close(fd);
        }
        return -e;
    }
    return fd;
}

static enum hsp_status bind_both(struct hsp_mesh_listener *l, const char *host,
                                 const char *advertise, bool local, struct hsp_err *err)
{
    uint16_t port = 0;
    bool wildcard = false, v6 = false;
    char name[64] = "";
    l->tcp_fd = bind_tcp(host, &port, &wildcard, &v6);
    if (l->tcp_fd < 0) {
        return hsp_err_set(err, l->tcp_fd == -EADDRNOTAVAIL ? HSP_EINVAL : HSP_EIO, -l->tcp_fd,
                           "cannot listen on %s", host);
    }
    if (wildcard && advertise == NULL) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%s needs an address to advertise", host);
    }
    l->unix_fd = local ? bind_unix(name) : -1;
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if ((local && l->unix_fd < 0) || l->wake_fd < 0) {
        return hsp_err_set(err, HSP_EIO, errno, "cannot listen on a local socket");
    }
    const char *shown = advertise != NULL ? advertise : host;
    bool colons = strchr(shown, ':') != NULL;
    int n = snprintf(l->address, sizeof l->address, "%s%s%s:%u%s%s", colons ? "[" : "", shown,
                     colons ? "]" : "", port, local ? ",unix:" : "", name);
    return n > 0 && (size_t)n < sizeof l->address
               ? HSP_OK
               : hsp_err_set(err, HSP_EINVAL, 0, "address %s is too long", shown);
}

static void listener_free(struct hsp_mesh_listener *l)
{
    const int fds[] = {l->tcp_fd, l->unix_fd, l->wake_fd};
    while (l->n_conns > 0) {
        drop_conn(l, l->n_conns - 1);
    }
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    pthread_mutex_destroy(&l->lock);
    free(l);
}

enum hsp_status hsp_mesh_listener_open(const char *host, const char *advertise,
                                       enum hsp_mesh_transport transport,
                                       struct hsp_mesh_listener **ret, struct hsp_err *err)
{
    struct hsp_mesh_listener *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return hsp_err_nomem(err, "a listener");
    }
    l->transport = transport;
    l->tcp_fd = l->unix_fd = l->wake_fd = -1;
    pthread_mutex_init(&l->lock, NULL);
    enum hsp_status st = bind_both(l, host, advertise, transport != HSP_MESH_TCP, err);
    if (st == HSP_OK) {
        int r = pthread_create(&l->thread, NULL, listen_main, l);
        st = r == 0 ? HSP_OK : hsp_err_set(err, HSP_EIO, r, "cannot start a thread");
    }
    if (st != HSP_OK) {
        listener_free(l);
        return st;
    }
    *ret = l;
    return HSP_OK;
}

const char *hsp_mesh_listener_address(const struct hsp_mesh_listener *l)
{
    return l->address;
}

void hsp_mesh_listener_close(struct hsp_mesh_listener *l)
{
    if (l == NULL) {
        return;
    }
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_mutex_unlock(&l->lock);
    hsp_mesh_wake(l->wake_fd);
    pthread_join(l->thread, NULL);
    listener_free(l);
}
