#!/usr/bin/env python3
"""Abuses hspmdd and checks its answers: bytes that are no frames, frames that are no messages,
lengths without end, callers that say nothing, more callers than places, and programs of another
version on either side."""
import json
import os
import random
import re
import resource
import socket
import struct
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from wire import LIMIT, Conn, OLDEST, PROTOCOL, check, until
from world import BUILD, Folder, main

SEED = int(os.environ.get("HSPMD_SEED") or random.SystemRandom().randrange(1, 2**31))
NEWER = PROTOCOL + 2
OTHER = ("the program there speaks protocol %d, the program here protocol %d to %d: "
         "upgrade the program here" % (NEWER, OLDEST, PROTOCOL))


class World(Folder):
    def __init__(self):
        super().__init__()
        self.random = random.Random(SEED)
        self.sock = self.path("d.sock")
        self.keys("worker.key", "admin.key")
        self.write("d.yaml", json.dumps({"listen": "127.0.0.1:0", "socket": self.sock, "metrics_listen": "",
                                         "state_dir": self.path("state"), "worker_key": self.path("worker.key"),
                                         "admin_key": self.path("admin.key")}))

    def ctl(self, *args, address=None):
        return subprocess.run([os.path.join(BUILD, "hspmdctl"), "--address", address or self.sock, "--key",
                               self.path("admin.key")] + list(args),
                              capture_output=True, text=True, timeout=LIMIT)

    def start(self, few=0):
        """@few: so many descriptors."""
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        p = self.spawn("hspmdd", "d.yaml", preexec=lambda: resource.setrlimit(
            resource.RLIMIT_NOFILE, (few, few) if few else before))
        until("hspmdd answers", lambda: p.poll() is not None or self.ctl("status").returncode == 0)
        check(p.poll() is None, "hspmdd runs")
        return p

    def call(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(LIMIT)
        s.connect(self.sock)
        return s

    def lines(self, text):
        return [l for l in self.log().splitlines() if text in l]


def header(kind=102, body=0, blob=0, version=PROTOCOL, oldest=0, magic=0x6D707368):
    return struct.pack("<IBBHQQII", magic, version, oldest, kind, 1, 0, body, blob)


def message(kind, body):
    return header(kind, len(body)) + body


def rest(s):
    """Everything until the other side closes."""
    got = b""
    while True:
        try:
            part = s.recv(65536)
        except ConnectionResetError:
            part = b""
        if not part:
            return got
        got += part


def versions(w):
    """A caller, a daemon for hspmdctl and a daemon for an agent, each of another version: a line
    with both."""
    with w.call() as s:
        s.sendall(header(version=NEWER, body=1000))
        got = rest(s)
        check(len(got) == 32 and got[4] == PROTOCOL, "answered with a frame of ours: %r" % got)
    until("a line in the log", lambda: w.lines(OTHER))
    with socket.socket(socket.AF_UNIX) as l:
        l.bind(w.path("newer.sock"))
        l.listen()
        ctl = subprocess.Popen([os.path.join(BUILD, "hspmdctl"), "--address", w.path("newer.sock"), "status"],
                               stderr=subprocess.PIPE, text=True)
        with l.accept()[0] as s:
            check(s.recv(32)[4] == PROTOCOL, "its version")
            s.sendall(header(version=NEWER, kind=0))
            err = ctl.communicate(timeout=LIMIT)[1]
        check(ctl.returncode != 0 and OTHER in err and w.path("newer.sock") in err and err.count("\n") == 1, err)
    with socket.socket(socket.AF_UNIX) as l:
        l.bind(w.path("upgraded.sock"))
        l.listen()
        l.settimeout(LIMIT)
        w.write("a.yaml", json.dumps({"coordinator": w.path("upgraded.sock"), "node": "alpha",
                                      "state_dir": w.path("shm"), "devices": [{"speed": 0.5, "memory": "64MiB"}]}))
        a = w.spawn("hspmd-worker", "a.yaml", "agent.log")
        # the client asks again: the daemon may be the one that is being upgraded
        for _ in range(2):
            with l.accept()[0] as s:
                s.settimeout(LIMIT)
                check(s.recv(32)[4] == PROTOCOL, "its version")
                s.sendall(header(version=NEWER, kind=0))
                rest(s)
        until("a line in the agent's log", lambda: OTHER in w.log("agent.log"))
        a.terminate()
        check(a.wait(LIMIT) == 0, "the agent leaves")


BODIES = [
    (b"", "102 status"), (b"{", "status"), (b"[]", "status"), (b'{"name":1}', "status"),
    (b'{"name":"","what":"","since":"0","timeout_ms":0,"follow":false,"more":1}', "more"),
    (b'{"name":"","name":"","what":"","since":"0","timeout_ms":0,"follow":false}', "name"),
    (b'{"name":"","what":"","since":"-1","timeout_ms":0,"follow":false}', "since"),
    (b'{"name":"","what":"","since":"0","timeout_ms":4294967296,"follow":false}', "timeout_ms"),
    (b'{"name":"' + b"x" * 64 + b'","what":"","since":"0","timeout_ms":0,"follow":false}', "name"),
    (b'{"name":"\xff","what":"","since":"0","timeout_ms":0,"follow":false}', "status"),
    (b"[" * 100000, "status"),
]


def garbage(w):
    """After any bytes the connection ends with one line, and the next caller is served."""
    for sent, text in ((header(magic=7), "frame magic"), (header(oldest=99), "a frame of protocol 99 to %d" % PROTOCOL),
                       (header(body=0xFFFFFFFF), "frame body 4294967295 bytes above limit"),
                       (header(blob=0x7FFFFFFF), "frame blob 2147483647 bytes above limit"),
                       (header(kind=9999), "9999"), (message(4, b'{"seq":"1"}'), "an agent says hello first")):
        with w.call() as s:
            s.sendall(sent)
            s.shutdown(socket.SHUT_WR)
            rest(s)
        if text != "an agent says hello first":
            until("%r is told" % text, lambda: w.lines(text))
    for body, text in BODIES:
        with w.call() as s:
            s.sendall(message(102, body))
            c = Conn(s)
            reply = c.expect("reply")[2]
            check(reply["status"] != 0 and reply["message"].count("\n") == 0 and reply["message"] != "", reply)
            c.expect(None)
    for _ in range(200):
        with w.call() as s:
            try:
                s.sendall(w.random.choice((b"", header(), header(100), header(1, 50))) +
                          w.random.randbytes(w.random.randrange(1, 300)))
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the daemon has heard enough
            rest(s)
    check(w.ctl("status").returncode == 0, "hspmdd answers")


def idle(w, n):
    """n callers on the socket and n by TCP, of which each second one says a byte and the others
    nothing, while hspmdd answers hspmdctl."""
    port = int(w.lines("listens on 127.0.0.1:")[-1].rsplit(":", 1)[1])
    calls = []
    for family, address in ((socket.AF_UNIX, w.sock), (socket.AF_INET, ("127.0.0.1", port))):
        for i in range(n):
            s = socket.socket(family)
            s.settimeout(LIMIT)
            s.connect(address)
            s.sendall(b"\x16" * (i % 2))
            calls.append(s)
    check(w.ctl("status").returncode == 0, "the socket has places for those who speak")
    check(w.ctl("status", address="127.0.0.1:%d" % port).returncode == 0, "and the port has")
    return calls, port


def crowd(w):
    """An agent joins from an address full of callers that say nothing more."""
    calls, port = idle(w, 600)
    w.write("b.yaml", json.dumps({"coordinator": "127.0.0.1:%d" % port, "node": "beta", "state_dir": w.path("shm"),
                                  "key": w.path("worker.key"), "devices": [{"speed": 0.5, "memory": "64MiB"}]}))
    b = w.spawn("hspmd-worker", "b.yaml", "agent.log")
    until("the agent is up", lambda: re.search(r"^beta +live", w.ctl("node", "list").stdout, re.M))
    b.terminate()
    check(b.wait(LIMIT) == 0, "the agent leaves")
    for s in calls:
        s.close()


def few(w):
    """Fewer descriptors than callers."""
    d = w.start(few=240)
    check(w.lines("240 open files are allowed, so 96 connections instead of 2304, and at most 29 agents instead of "
                  "max_nodes 256; raise LimitNOFILE= or ulimit -n to 2448, or lower max_nodes"), "said at the start")
    for s in idle(w, 200)[0]:
        s.close()
    said = until("it is said who had to go", lambda: w.lines("a newer caller takes its place"))
    check(len(said) < 60, "not a line for each")
    d.terminate()
    check(d.wait(LIMIT) == 0, "ends in order")


def run(w):
    print("seed %d" % SEED)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2048, hard)), hard))
    d = w.start()
    versions(w)
    garbage(w)
    crowd(w)
    d.terminate()
    check(d.wait(LIMIT) == 0, "ends in order")
    few(w)


if __name__ == "__main__":
    sys.exit(main(World, run, ["hspmdd", "hspmdctl", "hspmd-worker"], "hspmdd bears with what it is sent"))
