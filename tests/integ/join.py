#!/usr/bin/env python3
"""hspmdd and its agents, over TLS: agents join and are seen, one is killed and noticed, one without the key is
turned away, one leaves as planned, hspmdd is restarted and its agents come back."""
import re
import signal
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from wire import LIMIT, alive, ask, check, children, until
from world import Folder, main


class World(Folder):
    def __init__(self):
        super().__init__()
        self.sock = self.path("d.sock")
        self.tcp = None
        self.keys("worker.key", "admin.key", "wrong.key")

    def daemon(self):
        """On a port the system chooses the first time, kept when it is started again."""
        self.write("d.yaml", "listen: 127.0.0.1:%d\nsocket: %s\nstate_dir: %s\nworker_key: %s\nadmin_key: %s\n"
                   "heartbeat: 200ms\nfailure_detection: 1500ms\n"
                   % (self.tcp or 0, self.sock, self.path("state"), self.path("worker.key"), self.path("admin.key")))
        p = self.spawn("hspmdd", "d.yaml")
        if self.tcp is None:
            self.tcp = int(until("hspmdd listens", self.port))
        until("hspmdd answers", self.answers)
        return p

    def port(self):
        for line in self.log().splitlines():
            if "listens on 127.0.0.1:" in line:
                return line.rsplit(":", 1)[1].strip()
        return None

    def answers(self):
        try:
            return ask(self.sock, "status", QUERY)
        except (OSError, AssertionError):
            return None

    def agent(self, node, key="worker.key"):
        self.write(node + ".yaml", "node: %s\ncoordinator: 127.0.0.1:%d\nstate_dir: %s\nkey: %s\n"
                   "devices: [{speed: 0.5, memory: 64MiB}]\n"
                   % (node, self.tcp, self.path("segments"), self.path(key)))
        return self.spawn("hspmd-worker", node + ".yaml")

    def nodes(self):
        return {n["name"]: n for n in ask(self.sock, "status", QUERY)["nodes"]}

    def up(self, node):
        n = self.nodes().get(node)
        return n if n and n["state"] == "live" and all(d["up"] for d in n["devices"]) else None


QUERY = {"name": "", "what": "", "since": "0", "timeout_ms": 0, "follow": False}


def run(w):
    d = w.daemon()
    a, b = w.agent("alpha"), w.agent("beta")
    n = until("alpha is up", lambda: w.up("alpha"))
    until("beta is up", lambda: w.up("beta"))
    check(len(n["devices"]) == 1 and n["devices"][0]["speed"] == 0.5, "profile %r" % n)

    stranger = w.agent("gamma", "wrong.key")
    until("hspmdd refuses the stranger", lambda: "was refused: TLS refused" in w.log())
    check("gamma" not in w.nodes() and stranger.poll() is None, "without the key nobody joins")
    stranger.terminate()
    check(stranger.wait(LIMIT) == 0, "an unknown agent may go")

    kids = children(b.pid)
    b.kill()
    until("beta is missed", lambda: not w.up("beta"))
    until("its executor is gone", lambda: not any(alive(k) for k in kids))
    b = w.agent("beta")
    again = until("beta is back", lambda: w.up("beta"))
    check(again["incarnation"] > n["incarnation"], "with a new incarnation")

    d.send_signal(signal.SIGKILL)
    d.wait()
    time.sleep(0.5)
    check(a.poll() is None and len(children(a.pid)) == 1, "agents live on without hspmdd")
    d = w.daemon()
    until("alpha comes back", lambda: w.up("alpha"))
    until("beta comes back", lambda: w.up("beta"))

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
    sys.exit(main(World, run, ["hspmdd", "hspmd-worker"], "agents join and leave"))
