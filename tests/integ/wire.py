"""Shares helpers among tests of whole programs: frames and messages as README.md of proto/wire
says, processes."""
import json
import select
import socket
import struct
import subprocess
import time

PROTOCOL, OLDEST = 18, 14
CLUSTER = "%032x" % 5  # of the coordinator that a test is
TYPES = {"hello": 1, "welcome": 2, "fenced": 3, "heartbeat": 4, "seal": 12, "sealed": 13, "executor-dead": 16,
         "executor-up": 17, "leave": 26, "bye": 28, "parked": 39, "submit": 100, "status": 102,
         "resume": 112, "forget": 122, "reply": 200}
NAMES = {v: k for k, v in TYPES.items()}
# seconds until something must have happened: an agent measures its devices for 20 where a sanitizer
# slows it
LIMIT = 60.0


def check(ok, what):
    if not ok:
        raise AssertionError(what)


def until(what, test, limit=LIMIT):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        r = test()
        if r:
            return r
        time.sleep(0.02)
    raise AssertionError("not within %g s: %s" % (limit, what))


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def children(pid):
    r = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(x) for x in r.stdout.split()]


class Conn:
    """One connection, as hspmdd sees its agents: heartbeats are answered while waiting. Also a
    client's."""

    def __init__(self, sock):
        self.s, self.data, self.blob, self.version, self.oldest = sock, b"", b"", PROTOCOL, PROTOCOL

    def send(self, name, body, epoch=0, request=0, blob=b""):
        text = json.dumps(body).encode()
        head = struct.pack("<IBBHQQII", 0x6D707368, self.version, self.oldest, TYPES.get(name, name), request, epoch,
                           len(text), len(blob))
        self.s.sendall(head + text + blob)

    def frame(self, limit):
        """(type, epoch, body), or None at the end of file. Its blob is self.blob."""
        end = time.monotonic() + limit
        while True:
            if len(self.data) >= 32:
                magic, _, _, kind, _, epoch, n, blob = struct.unpack("<IBBHQQII", self.data[:32])
                check(magic == 0x6D707368, "magic of a frame")
                if len(self.data) >= 32 + n + blob:
                    body, self.blob = self.data[32:32 + n], self.data[32 + n:32 + n + blob]
                    self.data = self.data[32 + n + blob:]
                    return NAMES.get(kind, kind), epoch, json.loads(body)
            left = end - time.monotonic()
            check(left > 0 and select.select([self.s], [], [], left)[0], "the agent is silent")
            try:
                got = self.s.recv(65536)
            except ConnectionResetError:
                got = b""
            if not got:
                return None
            self.data += got

    def expect(self, name, limit=LIMIT):
        """The next message of that name (or the end: None); others on the way are passed over."""
        end = time.monotonic() + limit
        while True:
            f = self.frame(max(0.01, end - time.monotonic()))
            if f is None:
                check(name is None, "closed instead of %s" % name)
                return None
            if f[0] == "heartbeat":
                try:
                    self.send("heartbeat", f[2])
                except OSError:
                    pass  # closed meanwhile: the next read tells
            if f[0] == name:
                return f

    def welcome(self, incarnation, term=1, address=""):
        hello = self.expect("hello")[2]
        self.send("welcome", {"protocol": PROTOCOL, "cluster": CLUSTER, "generation": "0", "term": str(term),
                              "incarnation": "%032x" % incarnation, "heartbeat_ms": 200,
                              "dead_ms": 1500, "address": address})
        return hello


def ask(path, name, body, blob=b""):
    """A request to hspmdd over its Unix socket; the document it answers with."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        c = Conn(s)
        c.send(name, body, request=1, blob=blob)
        r = c.expect("reply")[2]
        check(r["status"] == 0, "%s: %s" % (name, r["message"]))
        return json.loads(c.blob) if c.blob else {}
