/* Creates segments and maps lanes. The happy path: memfd_create, size, seals; a page and lanes of
 * it are allocated and mapped; the descriptor goes to each peer, which checks and maps its own
 * part. Possible failure: no memory for the pages (a limit of the container, RLIMIT_FSIZE), no
 * address space, a peer that sends something else. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/comm/mesh/mesh_seg.h"

#define PAGE       ((size_t)4096) /* one for the head, one for the counters of each lane */
#define LANE_MAX   ((size_t)1 << 20)
#define LANE_MIN   ((size_t)128 << 10)
#define LANES_GOAL ((size_t)8 << 20) /* of a rank whose peers are all on this host */
#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

size_t hsp_seg_lane_bytes(uint32_t n)
{
    size_t fit = n > 1 ? LANES_GOAL / (n - 1) : LANE_MAX;
    fit = fit < LANE_MIN ? LANE_MIN : fit > LANE_MAX ? LANE_MAX : fit;
    return fit / PAGE * PAGE;
}

static off_t lane_offset(uint32_t n, uint32_t peer)
{
    return (off_t)(PAGE + peer * (PAGE + hsp_seg_lane_bytes(n)));
}

/* Maps one page of counters, allocated first: a page for which there is no memory is an error here,
 * not a signal later. */
static void *map_head(int fd, int *ret_errno)
{
    void *p = MAP_FAILED;
    if (fallocate(fd, 0, 0, (off_t)PAGE) == 0) {
        p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    *ret_errno = errno;
    return p == MAP_FAILED ? NULL : p;
}

/* Maps the counters, the data, and the data again. Returns false on a failure; errno names the
 * reason. */
static bool map_lane(int fd, uint32_t n, uint32_t peer, struct lane *ret)
{
    size_t bytes = hsp_seg_lane_bytes(n);
    off_t at = lane_offset(n, peer);
    if (fallocate(fd, 0, at, (off_t)(PAGE + bytes)) != 0) {
        return false;
    }
    uint8_t *p =
        mmap(NULL, PAGE + 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return false;
    }
    const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED | MAP_POPULATE;
    if (mmap(p, PAGE + bytes, prot, flags, fd, at) == MAP_FAILED ||
        mmap(p + PAGE + bytes, bytes, prot, flags, fd, at + (off_t)PAGE) == MAP_FAILED) {
        int e = errno;
        (void)munmap(p, PAGE + 2 * bytes);
        errno = e;
        return false;
    }
    *ret = (struct lane){.head = (struct lane_head *)(void *)p, .data = p + PAGE, .bytes = bytes};
    return true;
}

enum hsp_status hsp_seg_new(uint32_t n, struct seg *ret, struct hsp_err *err)
{
    struct seg s = {.n = n, .fd = memfd_create("hspmd-mesh", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    int e = errno;
    if (s.fd >= 0 && ftruncate(s.fd, lane_offset(n, n)) == 0 &&
        fcntl(s.fd, F_ADD_SEALS, SEALS) == 0) {
        s.head = map_head(s.fd, &e);
    } else {
        e = errno;
    }
    if (s.head == NULL) {
        hsp_seg_free(&s);
        return hsp_err_set(err, HSP_EIO, e, "cannot make shared memory for a mesh of %u", n);
    }
    *ret = s;
    return HSP_OK;
}

void hsp_seg_close_fd(struct seg *s)
{
    if (s->head != NULL && s->fd >= 0) {
        close(s->fd);
        s->fd = -1;
    }
}

void hsp_seg_detach(struct seg_head *head)
{
    if (head != NULL) {
        (void)munmap(head, PAGE);
    }
}

void hsp_seg_free(struct seg *s)
{
    hsp_seg_detach(s->head);
    if (s->fd >= 0 && s->n > 0) {
        close(s->fd);
    }
    *s = (struct seg){.fd = -1};
}

void hsp_lane_unmap(struct lane *l)
{
    if (l->head != NULL) {
        (void)munmap(l->head, PAGE + 2 * l->bytes);
    }
    *l = (struct lane){.head = NULL};
}

enum hsp_status hsp_seg_lane(const struct seg *s, uint32_t peer, struct lane *ret,
                             struct hsp_err *err)
{
    return map_lane(s->fd, s->n, peer, ret)
               ? HSP_OK
               : hsp_err_set(err, HSP_EIO, errno, "no shared memory of %zu bytes for rank %u",
                             hsp_seg_lane_bytes(s->n), peer);
}

enum hsp_status hsp_seg_attach(int fd, uint32_t n, uint32_t me, struct seg_head **ret_head,
                               struct lane *ret_lane, struct hsp_err *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS), e = 0; /* only a memfd has them */
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) != 0 ||
        st.st_size != lane_offset(n, n)) {
        return hsp_err_set(err, HSP_EPROTO, 0,
                           "the received file is not a sealed segment of a mesh of %u", n);
    }
    struct seg_head *head = map_head(fd, &e);
    if (head == NULL || !map_lane(fd, n, me, ret_lane)) {
        e = head != NULL ? errno : e;
        hsp_seg_detach(head);
        return hsp_err_set(err, HSP_EIO, e, "cannot map the shared memory of a peer");
    }
    *ret_head = head;
    return HSP_OK;
}

/* ---- over the socket ---- */

union control {
    struct cmsghdr align;
    char room[CMSG_SPACE(sizeof(int))];
};

bool hsp_seg_send(int sock, uint8_t byte, int fd)
{
    union control c = {.room = {0}};
    struct iovec iov = {&byte, 1};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        h.msg_control = c.room;
        h.msg_controllen = sizeof c.room;
        struct cmsghdr *m = CMSG_FIRSTHDR(&h);
        m->cmsg_level = SOL_SOCKET;
        m->cmsg_type = SCM_RIGHTS;
        m->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(m), &fd, sizeof fd);
    }
    return sendmsg(sock, &h, MSG_NOSIGNAL) == 1;
}

int hsp_seg_recv(int sock, uint8_t *ret, int *ret_fd)
{
    union control c = {.room = {0}};
    struct iovec iov = {ret, 1};
    struct msghdr h = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = c.room,
                       .msg_controllen = CMSG_LEN(sizeof *ret_fd)};
    *ret_fd = -1;
    ssize_t n = recvmsg(sock, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        errno = n == 0 ? 0 : errno;
        return -1;
    }
    /* Room for one descriptor: the kernel closes further ones. */
    struct cmsghdr *m = CMSG_FIRSTHDR(&h);
    if (m != NULL && m->cmsg_level == SOL_SOCKET && m->cmsg_type == SCM_RIGHTS &&
        m->cmsg_len == CMSG_LEN(sizeof *ret_fd)) {
        memcpy(ret_fd, CMSG_DATA(m), sizeof *ret_fd);
    }
    return 1;
}
