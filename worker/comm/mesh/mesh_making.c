#include "worker/comm/mesh/mesh_making.h"

#include <errno.h>
#include <sys/socket.h>

bool hsp_mesh_send_all(int fd, const void *p, size_t n)
{
    /* A fresh socket has room for the few bytes of a handshake; if not, the socket is broken. */
    return send(fd, p, n, MSG_NOSIGNAL) == (ssize_t)n;
}

int hsp_mesh_read_more(int fd, uint8_t *buf, size_t *have, size_t want)
{
    ssize_t n = recv(fd, buf + *have, want - *have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        errno = n == 0 ? 0 : errno;
        return -1;
    }
    *have += (size_t)n;
    return *have == want;
}

void hsp_mesh_pair_up(struct mesh_making *m, uint32_t r, int fd, bool local, struct mesh_tls *tls,
                      struct mesh_shm *shm)
{
    m->pair[r].fd = fd;
    m->pair[r].local = local;
    m->pair[r].tls = tls;
    m->pair[r].shm = shm;
    m->pair[r].stage = MESH_UP;
    m->n_up++;
}

void hsp_mesh_blame(const struct mesh_making *m, uint32_t r, bool silent)
{
    if (m->p->ret_loss != NULL) {
        *m->p->ret_loss = (struct hsp_mesh_loss){.rank = r, .by = m->p->rank, .silent = silent};
    }
}
