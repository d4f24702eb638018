#!/usr/bin/env python3
"""Runs hspmdctl node check with agents of which one is held back: it is named, in table, JSON, exit
code and events; nodes that execute a job are left out; an agent that dies or stops meanwhile gives
a line; ^C ends it on the nodes, too."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from join import World
from train import Training
from wire import LIMIT, check, until
from world import BUILD, main

LEAST = "0.2"   # other tests may run beside this one
NONE = "0.001"  # nothing is as slow as that
HELD = 0.1      # of a core: the part of the agent that is held back
LOOK = 0.004    # seconds


class Brake(threading.Thread):
    """Stops and continues a process so that it gets no more than a part of a core, however late
    this is looked at."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.over = pid, threading.Event()

    def cpu(self):
        total = 0
        for task in os.listdir("/proc/%d/task" % self.pid):
            with open("/proc/%d/task/%s/schedstat" % (self.pid, task)) as f:
                total += int(f.read().split()[0])
        return total * 1e-9

    def run(self):
        used, then, left = self.cpu(), time.monotonic(), 0.0
        while not self.over.wait(LOOK):
            now, cpu = time.monotonic(), self.cpu()
            left = min(LOOK, left + HELD * (now - then) - (cpu - used))
            used, then = cpu, now
            os.kill(self.pid, signal.SIGCONT if left > 0 else signal.SIGSTOP)
        os.kill(self.pid, signal.SIGCONT)

    def release(self):
        self.over.set()
        self.join()


def command(w, *args, least=LEAST):
    return [os.path.join(BUILD, "hspmdctl"), "-a", w.sock, "node", "check", "--threshold", least] + list(args)


def checked(w, *args, least=LEAST):
    r = subprocess.run(command(w, *args, least=least), capture_output=True, text=True, timeout=120)
    return r.returncode, r.stdout, r.stderr


def document(w, *args):
    code, out, _ = checked(w, "-o", "json", *args)
    doc = json.loads(out)
    return code, {n["name"]: n for n in doc["nodes"]}, {frozenset((p["a"], p["b"])): p for p in doc["pairs"]}


def begins(w, *args):
    """A check under way: the process, when hspmdd has begun."""
    n = w.ctl("events").count("admin.check")
    p = subprocess.Popen(command(w, *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until("the check begins", lambda: w.ctl("events").count("admin.check") > n)
    return p


def one_is_slow(w, pid):
    brake = Brake(pid)
    brake.start()
    try:
        code, nodes, pairs = document(w)
    finally:
        brake.release()
    check(code == 1 and nodes["gamma"]["verdict"] in ("crowded", "slow"), "exit code %d, %r" % (code, nodes))
    check(nodes["gamma"]["devices"][0]["share"] < float(LEAST), "its share %r" % nodes["gamma"])
    for n in ("alpha", "beta"):
        check(nodes[n]["verdict"] == "ok" and nodes[n]["devices"][0]["ratio"] > float(LEAST), "%s: %r" % (n, nodes[n]))
    check(len(pairs) == 3 and pairs[frozenset(("alpha", "beta"))]["transport"] == "shm", "pairs %r" % pairs)
    end = [json.loads(l) for l in w.ctl("events", "-o", "jsonl").splitlines() if "check." in l or "admin.check" in l]
    check([e["type"] for e in end[-2:]] == ["admin.check", "check.end"], "events %r" % end)
    check(all(e["data"].get("actor") for e in end[-2:]) and "gamma/0 " in end[-1]["reason"], "%r" % end[-1])


def run(w):
    w.daemon(dead="5s")  # one that is held back still beats
    w.agent("alpha"), w.agent("beta")
    c = w.agent("gamma")
    for n in ("alpha", "beta", "gamma"):
        until(n + " is up", lambda: w.up(n))

    code, out, err = checked(w, "alpha", "beta", least=NONE)
    check(code == 0 and out.count("alpha") == 2 and "gamma" not in out and err == "", "%d %r %r" % (code, out, err))
    check(checked(w, "delta")[0] == 3, "an unknown node")
    one_is_slow(w, c.pid)

    c.send_signal(signal.SIGSTOP)  # the agent does not answer
    p = begins(w, "alpha", "beta", "gamma")  # named: on a busy machine it may be dead before
    out, err = p.communicate(timeout=120)
    check(p.returncode == 1 and "gamma is dead: silent" in out, "%d %r %r" % (p.returncode, out, err))
    c.send_signal(signal.SIGCONT)
    until("gamma is back", lambda: w.up("gamma"))

    c.send_signal(signal.SIGSTOP)
    p = begins(w, "alpha", "beta", "gamma")
    p.send_signal(signal.SIGINT)
    check(p.wait(LIMIT) == -signal.SIGINT, "^C ends it")
    until("hspmdd stops it", lambda: "check.stopped" in w.ctl("events"))
    c.kill()  # also while it is stopped
    c.wait()
    code, nodes, pairs = document(w, "alpha", "beta", "gamma")
    check(code == 1 and nodes["gamma"]["verdict"] == "failed"
          and list(pairs) == [frozenset(("alpha", "beta"))], "%r" % nodes)

    w.write("text.txt", "".join("the quick brown fox %d jumps over the lazy dog.\n" % i for i in range(20000)))
    t = Training(w, "small", 100000)
    t.on("beta/0")
    code, out, err = checked(w)
    check(code == 7 and "executes job small" in out and "--busy" in err, "%d %r %r" % (code, out, err))
    before = t.status()["epoch"]
    _, nodes, _ = document(w, "--busy")
    check(nodes["alpha"]["devices"] and nodes["beta"]["devices"], "busy ones are measured when asked: %r" % nodes)
    check(t.status()["epoch"] == before, "which costs the job no epoch")


if __name__ == "__main__":
    sys.exit(main(World, run, ["hspmdd", "hspmd-worker", "hspmdctl"], "slow nodes are found"))
