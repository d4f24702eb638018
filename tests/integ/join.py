#!/usr/bin/env python3
"""hspmdd and its agents, over TLS: agents join and are seen, one is killed and noticed, one without the key is
turned away, one leaves as planned, hspmdd is restarted and its agents come back."""
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True  # the source tree stays as it is
from wire import LIMIT, alive, ask, check, children, until

BUILD = os.environ.get("HSPMD_BUILD", "build")


class World:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="hspmd-join-")
        self.started = []
        self.sock = self.path("d.sock")
        self.tcp = None
        for k in ("worker.key", "admin.key", "wrong.key"):
            self.write(k, secrets.token_hex(32))
            os.chmod(self.path(k), 0o600)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)

    def spawn(self, program, config):
        with open(self.path("log"), "ab") as f:
            p = subprocess.Popen([os.path.join(BUILD, program), "--config", self.path(config)], stderr=f, stdout=f,
                                 stdin=subprocess.DEVNULL, env=dict(os.environ, OPENBLAS_NUM_THREADS="1"))
        self.started.append(p)
        return p

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

    def log(self):
        with open(self.path("log"), errors="replace") as f:
            return f.read()

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

    def close(self):
        for p in self.started:
            if p.poll() is None:
                p.kill()
            p.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


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


def main():
    for p in ("hspmdd", "hspmd-worker"):
        if not os.access(os.path.join(BUILD, p), os.X_OK):
            print("%s is not built" % p)
            return 77
    w = World()
    try:
        run(w)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as e:
        print("failed: %r" % e)
        print("\n".join(w.log().splitlines()[-60:]))
        traceback.print_exc(file=sys.stdout)
        return 1
    finally:
        w.close()
    print("agents join and leave")
    return 0


if __name__ == "__main__":
    sys.exit(main())
