#!/usr/bin/env python3
"""Runs hspmdd and its agents over TLS: agents join and are seen, one is killed and noticed, one
without the key is turned away, one leaves as planned, hspmdd is restarted and its agents come
back."""
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.append(os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from ports import free_port
from wire import LIMIT, alive, ask, check, children, until
from world import BUILD, Folder, main


class World(Folder):
    def __init__(self):
        super().__init__()
        self.sock = self.path("d.sock")
        self.tcp = free_port()
        self.keys("worker.key", "admin.key", "wrong.key")

    def daemon(self, more="", dead="1500ms", state="state", options=None):
        self.write("d.yaml", "listen: 127.0.0.1:%d\nsocket: %s\nstate_dir: %s\nworker_key: %s\nadmin_key: %s\n"
                   "heartbeat: 200ms\nfailure_detection: %s\n%s"
                   % (self.tcp, self.sock, self.path(state), self.path("worker.key"), self.path("admin.key"),
                      dead, more))
        p = self.spawn("hspmdd", "d.yaml", options=options)
        until("hspmdd answers", self.answers)
        return p

    def answers(self):
        try:
            return ask(self.sock, "status", QUERY)
        except (OSError, AssertionError):
            return None

    def try_ctl(self, *args):
        return subprocess.run([os.path.join(BUILD, "hspmdctl"), "-a", self.sock] + list(args), capture_output=True,
                              text=True, timeout=LIMIT)

    def ctl(self, *args):
        r = self.try_ctl(*args)
        check(r.returncode == 0, "hspmdctl %s: %r" % (" ".join(args), r))
        return r.stdout

    def agent(self, node, key="worker.key", more=""):
        self.write(node + ".yaml", "node: %s\ncoordinator: 127.0.0.1:%d\nstate_dir: %s\nkey: %s\n"
                   "devices: [{speed: 0.5, memory: 64MiB}]\n%s"
                   % (node, self.tcp, self.path("segments"), self.path(key), more))
        return self.spawn("hspmd-worker", node + ".yaml")

    def nodes(self):
        return {n["name"]: n for n in ask(self.sock, "status", QUERY)["nodes"]}

    def up(self, node):
        n = self.nodes().get(node)
        return n if n and n["state"] == "live" and all(d["up"] for d in n["devices"]) else None


QUERY = {"name": "", "what": "", "since": "0", "timeout_ms": 0, "follow": False}


def measured(w, node):
    return until("the uplink of %s is measured" % node, lambda: w.nodes()[node].get("uplink"))


def waits(w):
    """A job that wants more devices than are there: submit and status say so, and no plan for fewer
    is shown."""
    w.write("job.yaml", "{apiVersion: hspmd/v1, name: wide, model: {family: gpt, layers: 2, hidden: 32, heads: 4, "
            "sequence: 16}, data: {path: /srv/text}, train: {steps: 10, global_batch: 8, optimizer: {name: adamw, "
            "lr: 1e-3}}, resources: {min: 2, max: 4}, checkpoint: {every_steps: 0}}")
    r = w.try_ctl("submit", "--dry-run", w.path("job.yaml"))
    check(r.returncode == 7 and "job wide would wait for 2 devices (resources.min); 1 is there" in r.stderr,
          "a dry run: %r" % r)
    said = w.ctl("submit", w.path("job.yaml"))
    check("job wide was submitted and is pending: waits for 2 devices; 1 of 1 can be used; " in said and
          "RANK" not in said, "submit: %r" % said)
    check("waits for 2 devices; 1 of 1 can be used" in w.ctl("status"), "status: %r" % w.ctl("status"))
    w.ctl("cancel", "wide")


def moves(w, d):
    """hspmdd says where else it can be reached; there its agents find it when it is gone from where
    they know it."""
    other = free_port()
    first = w.tcp
    for listen in (first, other, first):
        d.kill()
        d.wait()
        w.tcp = listen
        d = w.daemon("advertise_address: 127.0.0.1:%d\n" % other)
        until("alpha finds it at %d" % listen, lambda: w.up("alpha"))
        until("beta finds it at %d" % listen, lambda: w.up("beta"))
        check("hspmdd: 127.0.0.1:%d\n" % other in w.ctl("status"), "status says where it is: %r" % w.ctl("status"))
        check("agents reach it at 127.0.0.1:%d" % other in w.log(), "so does the log")
    return d


def run(w):
    d = w.daemon()
    a, b = w.agent("alpha"), w.agent("beta")
    n = until("alpha is up", lambda: w.up("alpha"))
    until("beta is up", lambda: w.up("beta"))
    check(len(n["devices"]) == 1 and n["devices"][0]["speed"] == 0.5, "profile %r" % n)

    link = measured(w, "alpha")
    check(0 < link["latency_seconds"] < 1 and 1e4 < link["bytes_per_second"] < 1e12, "uplink %r" % link)
    measured(w, "beta")
    shown = w.ctl("node", "show", "alpha")
    check(re.search(r"^uplink: \S+ ?\S* one way, \S+ ?\S*/s$", shown, re.M), "node show says it: %r" % shown)

    stranger = w.agent("gamma", "wrong.key")
    until("hspmdd refuses the stranger", lambda: "was refused: TLS refused" in w.log())
    check("gamma" not in w.nodes() and stranger.poll() is None, "without the key nobody joins")
    told = "an agent at 127.0.0.1 is refused: its worker key is not the one of hspmdd"
    until("status tells where it is", lambda: re.search(r"^\d+ s ago: " + told, w.ctl("status"), re.M))
    denied = [l for l in w.ctl("events").splitlines() if "auth.denied" in l]
    check(len(denied) == 1 and told in denied[0], "so does one event: %r" % denied)
    todo = "different keys, or not hspmd: copy the worker key of that hspmdd to %s, and start hspmd-worker again\n"
    check(w.log().count(todo % w.path("wrong.key")) == 1, "its own log says what to do, once: %r" % w.log())
    stranger.terminate()
    check(stranger.wait(LIMIT) == 0, "an unknown agent may go")

    kids = children(b.pid)
    b.kill()
    until("beta is missed", lambda: not w.up("beta"))
    until("its executor is gone", lambda: not any(alive(k) for k in kids))
    until("beta is shown as dead", lambda: re.search(r"^beta +dead( +-){5} +gone for \d+ s: \S", w.ctl("status"), re.M))
    check(told in w.nodes()["beta"]["reason"], "its REASON names the agent that is refused: %r" % w.nodes()["beta"])
    waits(w)
    b = w.agent("beta")
    again = until("beta is back", lambda: w.up("beta"))
    check(again["incarnation"] > n["incarnation"], "with a new incarnation")
    check(again["reason"] == "" and "gone_since" not in again, "and nothing is said of its death: %r" % again)

    d.send_signal(signal.SIGKILL)
    d.wait()
    time.sleep(0.5)
    check(a.poll() is None and len(children(a.pid)) == 3, "agents live on without hspmdd")
    d = w.daemon()
    until("alpha comes back", lambda: w.up("alpha"))
    until("beta comes back", lambda: w.up("beta"))
    check(measured(w, "alpha") == link, "its uplink is what it measured when it joined")

    d = moves(w, d)

    kids, quiet = children(a.pid), len(w.log())
    a.terminate()
    check(a.wait(LIMIT) == 0, "planned leave")
    check(not any(alive(k) for k in kids), "its executor is gone")
    until("alpha has left", lambda: not w.up("alpha"))
    alarms = [l for l in w.log()[quiet:].splitlines() if re.search(r"^\S+ (warn|error) ", l) and "gamma" not in l]
    check(not alarms, "a planned leave is no failure: %r" % alarms)
    check(w.up("beta"), "beta stays")
    d.terminate()
    check(d.wait(LIMIT) == 0, "hspmdd ends in order")


if __name__ == "__main__":
    sys.exit(main(World, run, ["hspmdd", "hspmd-worker", "hspmdctl"], "agents join and leave"))
