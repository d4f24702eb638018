"""Plays callers that should not speak to a running cluster: bad-input's callers of every
listener."""
import os
import resource
import socket
import struct
import subprocess
import threading
import time

from harness import Failed, call, prog, say, wait_for

MAGIC = 0x6D707368


def header(version, kind=102, body=0, blob=0, magic=MAGIC, oldest=0):
    return struct.pack("<IBBHQQII", magic, version, oldest, kind, 1, 0, body, blob)


def inodes(pids):
    out = set()
    for pid in pids:
        for fd in os.listdir("/proc/%d/fd" % pid):
            try:
                at = os.readlink("/proc/%d/fd/%s" % (pid, fd))
            except OSError:
                continue
            if at.startswith("socket:["):
                out.add(at[8:-1])
    return out


def listeners(pids):
    """Addresses on which these processes listen: (host, port) or the name of a Unix socket."""
    own, out = inodes(pids), []
    with open("/proc/net/tcp") as f:
        for line in f.readlines()[1:]:
            w = line.split()
            if w[3] == "0A" and w[9] in own:
                out.append(("127.0.0.1", int(w[1].split(":")[1], 16)))
    with open("/proc/net/unix") as f:
        for line in f.readlines()[1:]:
            w = line.split()
            if w[3] == "00010000" and w[6] in own and len(w) > 7:
                out.append("\0" + w[7][1:] if w[7].startswith("@") else w[7])
    return out


def dial(address, timeout=20):
    s = socket.socket(socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX)
    s.settimeout(timeout)
    try:
        s.connect(address)
    except OSError:
        s.close()
        return None
    return s


def tell(s, data):
    """False: it has hung up before it heard all."""
    try:
        s.sendall(data)
        return True
    except OSError:
        return False


def ended(s, limit):
    """Whether the other side closes within @limit seconds, with any words before."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        s.settimeout(max(0.01, end - time.monotonic()))
        try:
            if not s.recv(65536):
                return True
        except socket.timeout:
            return False
        except OSError:
            return True
    return False


def protocol(c):
    """The versions that hspmdd speaks, as its answer to another version says: the newest, and the
    text of all."""
    with dial(c.socket) as s:
        tell(s, header(0))
        got = s.recv(32)
        if len(got) != 32 or struct.unpack("<I", got[:4])[0] != MAGIC:
            raise Failed("another protocol version is answered with %r" % got)
        if not ended(s, 5):
            raise Failed("another protocol version is not turned away")
        return got[4], "%d to %d" % (got[5], got[4]) if 0 < got[5] < got[4] else "%d" % got[4]


def versions(c):
    """Both sides name both versions and the remedy. Returns the version of hspmdd."""
    ours, span = protocol(c)
    said = "the program there speaks protocol %d, the program here protocol %s: upgrade the program %s"
    wait_for("hspmdd to say so", lambda: c.says("hspmdd", said % (0, span, "there")), 5)
    path = os.path.join(c.dir, "other.sock")
    with socket.socket(socket.AF_UNIX) as l:
        l.bind(path)
        l.listen()
        p = subprocess.Popen([prog("hspmdctl"), "--address", path, "status"], stderr=subprocess.PIPE, text=True)
        with l.accept()[0] as s:
            s.recv(32)
            s.sendall(header(ours + 1, kind=0))
            err = p.communicate(timeout=20)[1]
    if p.returncode == 0 or err.count("\n") != 1 or said % (ours + 1, span, "here") not in err:
        raise Failed("hspmdctl of another version: exit %d, %r" % (p.returncode, err))
    return ours


def garbage(claim, addresses, version):
    """Bytes that are nothing, frames that are no messages, lengths without end."""
    rnd = claim.random
    wrong = [header(version, magic=7), header(version, oldest=255), header(version, body=2**32 - 1),
             header(version, blob=2**31), header(version, kind=9999), header(version, 102, 5) + b"nope!",
             header(version, 100, 2, 4) + b"{}\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * 100000]
    calls = []
    for address in addresses:
        for data in wrong + [rnd.randbytes(rnd.randrange(1, 4000)) for _ in range(12)]:
            s = dial(address)
            if s is None:
                raise Failed("nobody listens on %r any more" % (address,))
            tell(s, data)
            try:
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the other side has hung up already
            calls.append((s, address, data))
        for s, _, _ in calls[-20:]:
            ended(s, 0.1)
    end = time.monotonic() + 45  # libmicrohttpd waits ten seconds for more, and looks now and then
    for s, address, data in calls:
        with s:
            if not ended(s, max(0.1, end - time.monotonic())):
                raise Failed("%r is kept open by %r" % (data[:40], address))
    return len(calls)


class Slow:
    """Callers that send half a frame and wait, and one that sends a byte now and then, on every
    listener."""

    def __init__(self, addresses, version):
        self.half, self.stop = [], threading.Event()
        for a in addresses:
            for _ in range(10):
                s = dial(a)
                if s is not None:
                    tell(s, header(version)[:20])
                    self.half.append((a, s))
        self.drip = [(a, dial(a)) for a in addresses]
        self.thread = threading.Thread(target=self.drips, args=(version,))
        self.thread.start()

    def drips(self, version):
        data = header(version, 102, 4000000) + b"{" * 200
        for i in range(len(data)):
            if self.stop.wait(0.3):
                return
            for _, s in self.drip:
                if s is not None:
                    tell(s, data[i:i + 1])

    def all_ended(self, limit):
        """The callers that still wait after @limit seconds."""
        end = time.monotonic() + limit
        left = [a for a, s in self.half + self.drip
                if s is not None and not ended(s, max(0.05, end - time.monotonic()))]
        self.stop.set()
        self.thread.join()
        for _, s in self.half + self.drip:
            if s is not None:
                s.close()
        return left


def crowd(pids, addresses):
    """No descriptor is left, then 60 callers each; afterwards all is as before."""
    limits = {p: resource.prlimit(p, resource.RLIMIT_NOFILE) for p in pids}
    calls = []
    try:
        for p in pids:
            used = len(os.listdir("/proc/%d/fd" % p))
            resource.prlimit(p, resource.RLIMIT_NOFILE, (used + 3, limits[p][1]))
        for a in addresses:
            for _ in range(60):
                s = socket.socket(socket.AF_INET if isinstance(a, tuple) else socket.AF_UNIX)
                s.setblocking(False)
                try:
                    s.connect(a)
                except OSError:
                    pass  # under way, or the backlog is full
                calls.append(s)
        time.sleep(1.0)
    finally:
        for p in pids:
            resource.prlimit(p, resource.RLIMIT_NOFILE, limits[p])
        for s in calls:
            s.close()
    return len(calls)


def wrong_keys(claim, c):
    """@c: a cluster with keys. A wrong key is told to its holder and to hspmdd's log."""
    wrong = os.path.join(c.dir, "wrong.key")
    with open(wrong, "w") as f:
        f.write("%064x" % claim.random.getrandbits(256))
    os.chmod(wrong, 0o600)
    r = call(prog("hspmdctl"), "--address", "127.0.0.1:%d" % c.port, "--key", wrong, "status", check=False, timeout=30)
    if r.returncode != 4 or r.stderr.count("\n") != 1 or "key" not in r.stderr:
        raise Failed("hspmdctl with another key: exit %d, %r" % (r.returncode, r.stderr))
    say("another key: %s" % r.stderr.strip())
    wait_for("hspmdd to tell of it", lambda: c.says("hspmdd", "was refused"), 5)
    c.start_worker("stranger", [{"speed": 0.1}], wait=False, key=wrong, coordinator="127.0.0.1:%d" % c.port)
    wait_for("the agent to tell of it",
             lambda: [l for l in c.says("stranger", "key") if "warn" in l or "error" in l], 20)
    joined = [n for n in c.nodes().values() if n["state"] != "left"]  # `node allow` has named it
    if joined:
        raise Failed("an agent with another key is a node: %s" % joined)
    garbage(claim, [("127.0.0.1", c.port)], 3)
    if c.ctl("status", check=False).returncode != 0:
        raise Failed("the daemon with keys does not answer")
