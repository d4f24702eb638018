"""Gives each process ports of its own, so that tests beside each other meet on none."""
import errno
import socket

FIRST, EACH, LANES = 12000, 64, 300  # below those that the system gives to connections by itself
_left = []
_lane = None


def _take_lane():
    """The first lane that no living process holds, by an abstract name of its number: the ports are
    those of this process until it ends."""
    for lane in range(LANES):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            s.bind("\0hspmd-ports-%d" % lane)
        except OSError:
            s.close()
            continue
        _left.extend(range(FIRST + EACH * lane, FIRST + EACH * (lane + 1)))
        return s
    raise OSError(errno.EADDRINUSE, "%d processes hold ports" % LANES)


def free_port():
    """A port that nobody listens on. The port stays free while its listener is started again; a
    port of the system's choice might be given to a connection of another test meanwhile."""
    global _lane
    if _lane is None:
        _lane = _take_lane()
    while _left:
        port = _left.pop(0)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise OSError(errno.EADDRINUSE, "no port is free")
