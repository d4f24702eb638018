#!/usr/bin/env python3
"""Runs the agent of a node with real executors, against a coordinator played by this script.

hello after a scan, executors up, an executor killed and restarted, SEAL answered, a frame that is
wrong, a fence, a coordinator that goes away, a planned leave, kill -9 of the agent, two agents of
one name."""
import os
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from wire import CLUSTER, LIMIT, Conn, alive, check, children, until
from world import BUILD, Folder, main, unread


class World(Folder):
    def __init__(self):
        super().__init__()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path("d.sock"))
        self.listener.listen(8)
        self.listener.settimeout(LIMIT)
        self.config = self.write(
            "w.yaml", "node: alpha\ncoordinator: %s\nstate_dir: %s/state\nkey: ''\nlog_level: debug\n"
            "leave_timeout: 3s\nreplica_holders: 1\ndevices: [{speed: 0.5, memory: 64MiB}, {speed: 1, memory: 32MiB}]\n"
            % (self.path("d.sock"), self.dir))

    def agent(self, log="log", **env):
        return self.spawn("hspmd-worker", "w.yaml", log, **env)

    def accept(self):
        s, _ = self.listener.accept()
        return Conn(s)


def all_up(conn, hello):
    """Waits until all three executors are known to be up; returns their addresses."""
    up = {d["index"]: d["address"] for d in hello["devices"] if d["up"]}
    while len(up) < 3:
        m = conn.expect("executor-up")[2]
        up[m["device"]] = m["address"]
    return up


def executor_of(agent, device):
    for c in children(agent.pid):
        with open("/proc/%d/cmdline" % c, "rb") as f:
            args = f.read().split(b"\0")
        if b"--executor" in args and args[args.index(b"--device") + 1] == str(device).encode():
            return c
    return None


def test_hello(w):
    a = w.agent()
    c = w.accept()
    h = c.welcome(7)
    check(h["node"] == "alpha" and int(h["incarnation"], 16) == 0 == int(h["was"], 16)
          and h["holdings"] == [], "hello %r" % h)
    check([d["kind"] for d in h["devices"]] == ["cpu", "cpu", "keeper"], "devices %r" % h["devices"])
    told = [x for x in w.log().splitlines() if "measuring 2 devices, which takes seconds" in x
            or "measured 2 devices in " in x]
    check(len(told) == 2 and "measured" in told[1], "it is not silent while it measures: %r" % told)
    check(h["same_latency_us"] > 0 and h["same_us_per_byte"] > 0, "profile")
    d = h["devices"]
    check(abs(d[1]["gemm_fp32_flops"] / d[0]["gemm_fp32_flops"] - 2) < 1e-6, "speed scales the profile")
    check(int(d[0]["mem_bytes"]) == 64 << 20 and int(d[1]["mem_bytes"]) == 32 << 20, "memory")
    up = all_up(c, h)
    check(up[0] != up[1] and all(x.startswith("127.0.0.1:") for x in up.values()), "addresses %r" % up)
    check(c.expect("heartbeat") is not None, "heartbeats")
    return a, c


def test_executor_killed(a, c):
    old = executor_of(a, 1)
    os.kill(old, signal.SIGKILL)
    m = c.expect("executor-dead")[2]
    check(m["device"] == 1 and m["reason"] == "signal 9", "why it died: %r" % m)
    m = c.expect("executor-up")[2]
    check(m["device"] == 1 and executor_of(a, 1) != old, "restarted")


def test_executor_hangs(a, c):
    """One that is stopped is silent, so it is killed and replaced."""
    old = executor_of(a, 0)
    os.kill(old, signal.SIGSTOP)
    m = c.expect("executor-dead")[2]
    check(m["device"] == 0 and m["reason"] == "signal 9: killed by its agent: silent", "silent: %r" % m)
    check(c.expect("executor-up")[2]["device"] == 0, "replaced")


def test_seal(c):
    c.send("seal", {"job": 3, "more_ms": 0}, epoch=5)
    _, epoch, m = c.expect("sealed")
    check(epoch == 5 and m["job"] == 3 and m["holdings"] == [], "sealed %r" % m)


def test_coordinator_away(w, a, c):
    """Executors live on, and the next hello has the old incarnation."""
    before = sorted(children(a.pid))
    c.s.close()
    c = w.accept()
    h = c.welcome(7)
    check(int(h["incarnation"], 16) == 7 and h["term"] == "1", "the same one: %r" % h["incarnation"])
    check(sorted(children(a.pid)) == before and all(d["up"] for d in h["devices"]), "executors go on")
    return c


def test_bad_frame(w, c):
    c.s.sendall(b"GET / HTTP/1.1\r\nHost: nonsense, and enough of it for a header\r\n\r\n")
    c.expect(None)
    c = w.accept()
    c.welcome(7)
    return c


def test_fenced(w, c):
    c.send("fenced", {"cluster": CLUSTER, "reason": "you were dead"})
    c.expect(None)
    c = w.accept()
    h = c.welcome(8)
    check(int(h["incarnation"], 16) == 0, "a fenced one begins anew")
    check(int(h["was"], 16) == 7, "and says which one it was: %r" % h["was"])
    all_up(c, h)
    return c


def test_second_agent(w):
    b = w.agent("log2")
    check(b.wait(LIMIT) == 1, "two agents of one node")
    with open(os.path.join(w.dir, "log2")) as f:
        check("another agent of node alpha" in f.read(), "it says why")


def test_folder_of_everybody(w):
    """As that of a fresh tmpfs: the remedy is told."""
    folder = w.path("state")
    os.mkdir(folder)
    os.chmod(folder, 0o1777)
    check(w.agent("log3").wait(LIMIT) == 1, "it does not begin")
    with open(os.path.join(w.dir, "log3")) as f:
        check("others can change folder %s (mode 1777): chmod 700 %s" % (folder, folder) in f.read(), "it says why")
    os.chmod(folder, 0o700)


def test_key_that_is_not_there(w):
    """A key file that is named must be there, also where the coordinator is a socket; none need be
    named."""
    for key, status, said in (("/none", 6, "hspmd-worker: key: there is no /none; copy the worker_key of hspmdd there, "
                               "or set it to \"\" for none\n"), ("", 0, "")):
        p = subprocess.run([os.path.join(BUILD, "hspmd-worker"), "--check-config", "--config",
                            w.config, "--set", "key=" + key],
                           capture_output=True, text=True, timeout=LIMIT)
        check((p.returncode, p.stderr) == (status, said), "key %r: %r" % (key, p))
    p = subprocess.run([os.path.join(BUILD, "hspmd-worker"), "--check-config", "--config", w.config,
                        "--set", "key=", "--set",
                        "coordinator=192.0.2.1:7071"], capture_output=True, text=True, timeout=LIMIT)
    check(p.returncode == 6 and "needs a key: key is to name a file with the worker_key of hspmdd" in p.stderr, repr(p))


def test_leave(a, c):
    kids = children(a.pid)
    check(len(kids) == 3, "three executors")
    a.send_signal(signal.SIGTERM)
    m = c.expect("leave")[2]
    check(m["reason"] == "SIGTERM" and 0 < m["deadline_ms"] <= 3000, "leave %r" % m)
    check(a.poll() is None, "it waits for BYE")
    c.send("bye", {"reason": "go"})
    check(a.wait(LIMIT) == 0, "exit status of a planned leave")
    check(not any(alive(k) for k in kids), "executors are gone")


def test_leave_deadline_and_haste(w):
    """Nobody says BYE: the deadline ends it. A second signal ends it at once."""
    a = w.agent()
    c = w.accept()
    all_up(c, c.welcome(9))
    t = time.monotonic()
    a.send_signal(signal.SIGINT)
    c.expect("leave")
    while a.poll() is None:
        f = c.frame(LIMIT)
        if f is None:
            break
        if f[0] == "heartbeat":
            try:
                c.send("heartbeat", f[2])
            except OSError:
                break
    check(a.wait(LIMIT) == 0 and time.monotonic() - t > 2.5, "left at the deadline")
    a = w.agent()
    c = w.accept()
    all_up(c, c.welcome(10))
    kids = children(a.pid)
    a.send_signal(signal.SIGTERM)
    c.expect("leave")
    a.send_signal(signal.SIGTERM)
    check(a.wait(2) == 1 and not any(alive(k) for k in kids), "a second signal ends at once")


def test_notices(w):
    """The notices to systemd: ready, status, watchdog, stopping."""
    n = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    path = os.path.join(w.dir, "notify.sock")
    n.bind(path)
    n.settimeout(LIMIT)
    a = w.agent(NOTIFY_SOCKET=path, WATCHDOG_USEC="100000")
    c = w.accept()
    all_up(c, c.welcome(12))
    heard = set()

    def hear(*want):
        end = time.monotonic() + LIMIT
        while not set(want) <= heard:
            check(time.monotonic() < end, "notices: %r" % heard)
            heard.add(n.recv(4096).decode())

    hear("READY=1", "WATCHDOG=1", "STATUS=connected, 3 of 3 executors up, 0 at work")
    a.send_signal(signal.SIGTERM)
    hear("STOPPING=1")
    c.expect("leave")
    c.send("bye", {"reason": "go"})
    check(a.wait(LIMIT) == 0, "left")


def test_unread_notices(w):
    """A service manager that does not read: the agent goes on, and says READY when it can."""
    manager, name = unread()
    with manager:
        a = w.agent(NOTIFY_SOCKET=name, WATCHDOG_USEC="100000")
        c = w.accept()
        all_up(c, c.welcome(13))
        for _ in range(3):
            c.expect("heartbeat")
        manager.settimeout(LIMIT)
        while b"READY=1" not in manager.recv(4096):
            pass
        a.send_signal(signal.SIGTERM)
        c.expect("leave")
        c.send("bye", {"reason": "go"})
        check(a.wait(LIMIT) == 0, "left")


def test_kill_agent(w):
    a = w.agent()
    c = w.accept()
    all_up(c, c.welcome(11))
    kids = children(a.pid)
    a.kill()
    c.expect(None)
    until("executors die with their agent", lambda: not any(alive(k) for k in kids), 5)


def run(w):
    test_key_that_is_not_there(w)
    test_folder_of_everybody(w)
    a, c = test_hello(w)
    test_executor_killed(a, c)
    test_executor_hangs(a, c)
    test_seal(c)
    c = test_coordinator_away(w, a, c)
    c = test_bad_frame(w, c)
    c = test_fenced(w, c)
    test_second_agent(w)
    test_leave(a, c)
    test_leave_deadline_and_haste(w)
    test_notices(w)
    test_unread_notices(w)
    test_kill_agent(w)


if __name__ == "__main__":
    sys.exit(main(World, run, ["hspmd-worker"], "the agent behaves"))
