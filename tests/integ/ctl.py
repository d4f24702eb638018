#!/usr/bin/env python3
"""Runs hspmdd and hspmdctl without any worker: configurations that are refused, notices to systemd,
every command against an empty daemon with its exit code, jobs that wait and are there again after
an end and after kill -9, and the right to command."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import termios
import urllib.error
import urllib.request

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.append(os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
import store
from wire import LIMIT, check, until
from world import BUILD, Folder, main, unread

JOB = """apiVersion: hspmd/v1
name: small
model: {family: gpt, layers: 2, hidden: 32, heads: 4, sequence: 16}
data: {path: /srv/text}
train: {steps: 10, global_batch: 8, optimizer: {name: adamw, lr: 1e-3}}
resources: {min: 2, max: 4}
checkpoint: {path: /srv/ckpt, every_steps: 0}
annotations: [plans/one.yaml]
"""
PLAN = """apiVersion: hspmd/v1
kind: plan
ranks: 1
pipelines: [{sequences: 8, micro_batches: 2, stages: [{layers: 2, ranks: [0]}]}]
"""


class World(Folder):
    def __init__(self):
        super().__init__()
        self.sock = self.path("d.sock")
        self.keys("worker.key", "admin.key", "wrong.key")

    def config(self, name="d.yaml", **more):
        keys = {"listen": "127.0.0.1:0", "socket": self.sock, "state_dir": self.path("state"),
                "worker_key": '""', "admin_key": '""'}
        keys.update(more)
        return self.write(name, "".join("%s: %s\n" % kv for kv in keys.items()))

    def hspmdd(self, *args):
        """Runs it to its end."""
        return subprocess.run([os.path.join(BUILD, "hspmdd")] + list(args), capture_output=True, text=True,
                              timeout=LIMIT)

    def start(self, config, **env):
        p = self.spawn("hspmdd", config, **env)
        until("hspmdd answers", lambda: p.poll() is not None or self.ctl("status").returncode == 0)
        check(p.poll() is None, "hspmdd runs")
        return p

    def ctl(self, *args, address=None, folder=BUILD, **kw):
        env = dict(os.environ, HSPMD_ADDRESS=address or self.sock)
        return subprocess.run([os.path.join(folder, "hspmdctl")] + list(args), capture_output=True, text=True,
                              timeout=LIMIT, env=env, **kw)

    def expect(self, code, text, *args, **kw):
        r = self.ctl(*args, **kw)
        out = r.stdout if code == 0 else r.stderr
        check(r.returncode == code and text in out, "hspmdctl %s: %d %r %r, wanted %d %r"
              % (" ".join(args), r.returncode, r.stdout, r.stderr, code, text))
        if code != 0:
            check(r.stderr.startswith("hspmdctl: ") and r.stderr.count("\n") == 1, "one line: %r" % r.stderr)
        return r.stdout

    def on_terminal(self, columns, *args):
        """Lines of less than 4 KiB on a terminal so wide."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        r = subprocess.run([os.path.join(BUILD, "hspmdctl"), "-a", self.sock, *args], stdout=its, stderr=subprocess.PIPE,
                           text=True, timeout=LIMIT)
        os.close(its)
        text = os.read(ours, 4096).decode() if r.returncode == 0 else r.stderr
        os.close(ours)
        return text.splitlines()

    def waits(self, *args, address=None):
        """hspmdctl wait, connected."""
        p = subprocess.Popen([os.path.join(BUILD, "hspmdctl"), "--address", address or self.sock, "wait", *args],
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        fds = "/proc/%d/fd" % p.pid
        until("wait to connect", lambda: any(os.readlink(os.path.join(fds, f)).startswith("socket:") for f in os.listdir(fds)))
        self.expect(0, "", "status")  # the command has called before this
        return p

    def healthz(self):
        """Status and line of the last hspmdd with metrics_listen."""
        url = re.findall(r"metrics on (http://\S+)/metrics", self.log())[-1] + "/healthz"
        try:
            with urllib.request.urlopen(url, timeout=LIMIT) as r:
                return r.status, r.read().decode().strip()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode().strip()

    def port(self):
        return [x for x in self.log().splitlines() if "listens on 127.0.0.1:" in x][-1].rsplit(":", 1)[1].strip()


def no_rows(w):
    """A store that has been emptied."""
    path = w.write("half/state.db", "")
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE other(x)")
    return path


def refusals(w):
    """Everything that keeps hspmdd from starting, with its exit code and one line."""
    for code, text, args in [
            (2, "unexpected argument", ["x"]), (2, "unrecognized option", ["--nonsense"]),
            (6, "No such file", ["--config", w.path("missing.yaml")]),
            (6, 'unknown key "lisen", did you mean "listen"?', ["--config", w.write("a.yaml", "lisen: 1\n")]),
            (6, "at least 2.5 heartbeats", ["-c", w.write("b.yaml", "heartbeat: 2s\n")]),
            (6, "beyond loopback", ["--check-config", "-c", w.config("c.yaml", listen="0.0.0.0:7071")]),
            (6, "listen: address 7071: no host before the port, as in 10.0.0.1:7071",
             ["--check-config", "-c", w.config("u.yaml", listen="7071")]),
            (6, "listen: head.example.org:7071 is no address of this host with a port, like 10.0.0.1:7071; "
             "0.0.0.0:7071 is all of its addresses",
             ["-c", w.config("v.yaml", listen="head.example.org:7071")]),
            (6, "metrics_listen: foo is no address of this host with a port, like 10.0.0.1:7072",
             ["--check-config", "-c", w.config("w.yaml", metrics_listen="foo")]),
            (6, "metrics_listen: /run/x is no address of this host with a port",
             ["--check-config", "-c", w.config("x.yaml", metrics_listen="/run/x")]),
            (6, "not a host:port", ["--check-config", "-c", w.config("i.yaml", advertise_address="/run/x")]),
            (6, "there is no worker_key", ["-c", w.config("j.yaml", advertise_address="head.example.org:7071")]),
            (6, "is each host itself", ["-c", w.config("k.yaml", listen="0.0.0.0:0", worker_key=w.path("worker.key"),
                                                       advertise_address="127.0.0.1:7071")]),
            (6, "data_plane", ["-c", w.config("l.yaml", data_plane="plain")]),
            (6, "worker_key: there is no %s; make it with" % w.path("none"),
             ["--check-config", "-c", w.config("q.yaml", worker_key=w.path("none"))]),
            (6, "admin_key: there is no /none; make it with",
             ["--check-config", "-c", w.config("r.yaml"), "--set", "admin_key=/none"]),
            (6, "hold the same key, with which every agent could command", ["--check-config", "-c", w.config(
                "s.yaml", worker_key=w.path("admin.key"), admin_key=w.path("admin.key"))]),
            (6, "worker.key", ["-c", w.config("e.yaml", worker_key=w.write("bad/worker.key", "short"))]),
            (1, "state_dir", ["-c", w.config("f.yaml", state_dir=w.write("file", "") + "/x")]),
            (1, "is not there: mount or name the right folder, or begin a new cluster with --init",
             ["-c", w.config("n.yaml", state_dir=w.path("typo"))]),
            (1, "does not exist: create it for the user of hspmdd",
             ["-c", w.config("t.yaml", state_dir=w.path("typo")), "--restore", w.path("none")]),
            (1, "has no store: mount", ["-c", w.config("m.yaml", state_dir=w.path("bad"))]),
            (1, "has no store: mount", ["-c", w.config("p.yaml", state_dir=os.path.dirname(
                w.write("empty/state.db", "")))]),
            (1, "names no cluster", ["-c", w.config("o.yaml", state_dir=os.path.dirname(no_rows(w)))])]:
        r = w.hspmdd(*args)
        check(r.returncode == code and text in r.stderr and (code == 2 or len(r.stderr.splitlines()) == 1),
              "%s: %d %r" % (args, r.returncode, r.stderr))
    for args, text in [(["--version"], "hspmdd "), (["--help"], "--check-config"),
                       (["--print-config", "-c", w.config("g.yaml", heartbeat="250ms")], "heartbeat: 250ms"),
                       (["--check-config", "-c", w.config("h.yaml", listen='""')], "")]:
        r = w.hspmdd(*args)
        check(r.returncode == 0 and text in r.stdout and r.stderr == "", "%s: %r" % (args, r))
    for given in w.config("g.yaml"), w.write("defaults.yaml", ""):  # whose keys may be here, or not
        printed = w.write("again.yaml", w.hspmdd("--print-config", "-c", given).stdout)
        r = w.hspmdd("--check-config", "-c", printed)
        check(r.returncode == 0, "what is printed can be read: %r" % r)


def begins(w):
    """--init begins a cluster although it was given before, when it could not listen; and no second
    one there."""
    config = w.config("second.yaml", state_dir=w.path("second"), socket=w.path("second.sock"))
    d = w.spawn("hspmdd", config, "second.log", options=["--init"])
    until("it begins", lambda: "is ready" in w.log("second.log"))
    d.terminate()
    check(d.wait(LIMIT) == 0, "ends in order")
    r = w.hspmdd("--init", "-c", config)
    check(r.returncode == 1 and "start without --init" in r.stderr, "one cluster: %r" % r)


def notices(w):
    """READY when it serves, WATCHDOG meanwhile, STOPPING at the end; a second one does not take its
    socket away."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s, socket.create_server(("127.0.0.1", 0)) as taken_port:
        s.bind(w.path("notify"))
        s.settimeout(LIMIT)
        metrics = "127.0.0.1:%d" % taken_port.getsockname()[1]
        d = w.start(w.config(metrics_listen=metrics), NOTIFY_SOCKET=w.path("notify"), WATCHDOG_USEC="2000000")
        seen = ""
        while not ("READY=1" in seen and "WATCHDOG=1" in seen and "STATUS=0 nodes, 0 jobs" in seen):
            seen += s.recv(4096).decode() + "\n"
        check(seen.index("READY=1") < seen.index("WATCHDOG=1"), "ready first: %r" % seen)
        check('Address already in use; change it, or "" turns metrics off' in w.log(), "no metrics: %r" % w.log())
        r = w.hspmdd("--init", "-c", w.config("second.yaml", state_dir=w.path("second")))
        taken = "%s: Address already in use: stop the program that uses it, or change socket\n" % w.sock
        check(r.returncode == 1 and r.stderr.endswith(taken), "second daemon: %r" % r)
        check(not os.path.exists(w.path("second/state.db")), "it makes no store before it listens")
        begins(w)
        r = w.hspmdd("-c", w.config("third.yaml", socket=w.path("other.sock")))
        check(r.returncode == 1 and "another hspmdd uses it" in r.stderr, "second daemon on one state: %r" % r)
        w.expect(0, "no jobs", "status")
        d.send_signal(signal.SIGINT)
        while "STOPPING=1" not in seen:
            seen += s.recv(4096).decode() + "\n"
        check(d.wait(LIMIT) == 0, "ends in order")
        check(not os.path.exists(w.sock), "its socket is gone")


def unread_notices(w):
    """A service manager that does not read: hspmdd serves all the same, and says READY when it can.
    """
    manager, name = unread()
    with manager:
        d = w.start(w.config(state_dir=w.path("unread")), NOTIFY_SOCKET=name, WATCHDOG_USEC="200000")
        d.send_signal(signal.SIGHUP)
        until("configuration reloaded", lambda: "config.reloaded" in w.log())
        w.expect(0, "no jobs", "status")
        manager.settimeout(LIMIT)
        while b"READY=1" not in manager.recv(4096):
            pass
        d.send_signal(signal.SIGINT)
        check(d.wait(LIMIT) == 0, "ends in order")


def verify_alone(w):
    """Without a worker on this machine nothing is compiled, nor written."""
    alone = shutil.copy(os.path.join(BUILD, "hspmdctl"), w.path("hspmdctl-alone"))
    p = subprocess.run([alone, "verify", w.path("job.yaml")], capture_output=True, text=True, timeout=LIMIT,
                       env={"PATH": w.dir, "TMPDIR": w.path("nowhere")})
    check(p.returncode == 3 and p.stderr.endswith(
        "hspmd-worker is not on this machine: install it, or run this on a worker\n"), p.stderr)


def shown(w, *words):
    """Number, name and state in each line of status."""
    return [line.split()[:3] for line in w.expect(0, "", "status", "--no-headers", *words).splitlines()]


def commands(w):
    """Every command while there are no workers."""
    w.write("plans/one.yaml", PLAN)
    job = w.write("job.yaml", JOB)
    w.expect(5, "cannot reach hspmdd", "status", address=w.path("nothing"))
    w.expect(4, "name the key with --key FILE; the path of a socket begins with /\n", "status", address="hspmdd.sock")
    w.expect(3, "no job or node x", "status", "x")
    w.expect(3, "no job or node 1", "status", "1")
    w.expect(0, "no nodes", "node", "list")
    w.expect(3, "no node x; hspmdctl node list shows all", "node", "show", "x")
    check(json.loads(w.expect(0, "nodes", "node", "list", "-o", "json"))["nodes"] == [], "no nodes as JSON")
    w.expect(0, "coordinator.started", "events")
    w.expect(6, 'did you mean "layers"', "submit", w.write("bad.yaml", JOB.replace("layers", "layerz")))
    w.expect(6, "workers need the absolute path", "submit", w.write("rel.yaml", JOB.replace("/srv/text", "text")))
    w.expect(6, "two.yaml", "submit", w.write("ann.yaml", JOB.replace("one.yaml", "two.yaml")))
    w.write("plans/misfit.yaml", PLAN.replace("layers: 2", "layers: 3"))
    w.expect(6, "misfit.yaml", "submit", w.write("fit.yaml", JOB.replace("one.yaml", "misfit.yaml")))
    w.expect(7, "no worker is connected", "submit", "--dry-run", job)
    w.expect(7, "no worker is connected", "plan", "--live", job)
    check(json.loads(w.expect(0, "", "status", "-o", "json"))["jobs"] == [], "nothing was submitted")
    w.expect(0, "job small was submitted and is pending: waits for 2 devices; no node offers any; its model, and "
             "checkpoints of suspend and ckpt save alone, are written to /srv/ckpt/small of each of its nodes\n",
             "submit", "--verify", job)
    for path, said in (("/srv/ckpt", ""), ("/tmpfs/x", ""),
                       ("/tmp/x", "below /tmp, which is private to hspmd-worker.service"),
                       ("/var/tmp", "below /var/tmp, which is private"),
                       ("/dev/shm/x", "below /dev/shm, which is memory")):
        r = w.ctl("submit", w.write("plans/ckpt.yaml", JOB.replace("small", "fleet").replace("/srv/ckpt", path)
                                    .replace("annotations: [plans/one.yaml]\n", "")))
        check(r.returncode == 0 and (said in r.stderr if said else "checkpoint.path" not in r.stderr),
              "checkpoints in %s: %r" % (path, r))
        w.expect(0, "cancelled", "cancel", "fleet")
        w.expect(0, "", "forget", "fleet")
    w.expect(0, "; its checkpoints are written to /srv/ckpt/fleet; /srv/ckpt must exist on each of its nodes, "
             "and hspmd does not create it\n", "submit", w.write("plans/shared.yaml", JOB.replace(
                 "small", "fleet").replace("path: /srv/ckpt", "path: /srv/ckpt, shared: true").replace(
                 "annotations: [plans/one.yaml]\n", "").replace("every_steps: 0", "every_steps: 5")))
    w.expect(0, "cancelled", "cancel", "fleet")
    w.expect(0, "", "forget", "fleet")
    w.expect(7, "choose another name", "submit", job)
    w.expect(6, "must not be a number", "submit", w.write("number.yaml", JOB.replace("small", "12")))
    doc = json.loads(w.expect(0, "", "status", "small", "-o", "json"))["jobs"][0]
    check((doc["state"], doc["min"], doc["max"], doc["steps"]) == ("pending", 2, 4, 10) and
          doc["reason"] == "waits for 2 devices; no node offers any", doc)
    w.expect(0, "pending", "status")
    reason = " waits for 2 devices; no node offers any"
    check(w.expect(0, "", "status", "small").splitlines()[1].endswith(reason), "a pipe has no width")
    check(w.on_terminal(78, "status", "small")[2] == "    REASON:" + reason, "a narrow terminal")
    check(w.on_terminal(200, "status", "small")[1].endswith(reason), "a wide terminal")
    check("not for a terminal: give -o FILE; see hspmdctl help trace" in w.on_terminal(200, "trace", "small")[0], "trace")
    w.expect(124, "small is pending at step 0: waits for 2 devices; ", "wait", "small",
             "--for=running", "--timeout", "200ms")
    w.expect(1, "job small has no step 11: it is done after 10 (train.steps)", "wait", "small", "--for=step=11")
    w.expect(124, "small is pending", "wait", "small", "--for=step=10", "--timeout", "200ms")
    w.expect(0, "Formats of --output: table, json.\n", "help", "status")
    w.expect(0, "Formats of --output: table, jsonl.\n", "events", "--help")
    check("Formats" not in w.expect(0, "", "help", "suspend"), "suspend writes in no format")
    w.expect(2, "--for ever: use done, running or step=N", "wait", "small", "--for=ever")
    w.expect(2, "--for step=ten: use done, running", "wait", "small", "--for=step=ten")
    w.expect(3, "no job x", "wait", "x")
    w.expect(3, "no job x", "metrics", "x")
    one = "%d" % doc["id"]  # by number
    check([one, "small", "pending"] in shown(w, one), shown(w, one))
    for words in (("wait", "2"), ("logs", "2"), ("metrics", "2"), ("cancel", "2"),
                  ("graph", "show", "2"), ("trace", "2"),
                  ("ckpt", "list", "2"), ("plan", "show", "2"), ("scale", "2", "--min", "3"), ("wait", "4294967297")):
        w.expect(3, "no job " + next(x for x in words if x.isdigit()), *words)
    w.expect(124, "small is pending at step 0", "wait", one, "--for=running", "--timeout", "200ms")
    w.expect(0, "wte.weight", "graph", "show", one)
    w.expect(0, "admin.submit", "logs", one)
    w.expect(2, "scale needs", "scale", "small")
    w.expect(0, "small needs 3 devices at least", "scale", "small", "--min", "3")
    w.expect(1, "devices from 5 to 4: min is above max; --min and --max together change both\n", "scale", "small", "--min", "5")
    w.expect(2, "--reason", "drain", "w1")
    w.expect(0, "may store copies of state; no node of that name has joined yet: the setting is stored until "
             "hspmdctl node remove typo\n", "node", "allow", "typo", "--holder")
    w.expect(0, "has not joined yet", "status")
    w.expect(0, "typo is removed\n", "node", "remove", "typo")
    w.expect(3, "no node typo", "node", "show", "typo")
    w.expect(3, "no node w1", "drain", "w1", "--reason", "disk")
    w.expect(3, "no node w1", "undrain", "w1")
    w.expect(3, "no node w1", "undrain", "w1", "--reason", "disk changed")
    w.expect(7, "job small is pending: only a running job can save a checkpoint\n", "ckpt", "save", "small")
    w.expect(0, "not all could look: no node is connected", "ckpt", "list", "small")
    check((doc["checkpoint_path"], doc["checkpoint_shared"]) == ("/srv/ckpt", False), doc)
    w.expect(3, "/srv/ckpt/small is not on this machine (No such file or directory); run this command on a "
             "worker of the job", "ckpt",
             "verify", "small")
    w.expect(3, "no job x; a folder is given with a /", "ckpt", "verify", "x")
    w.expect(0, "1 rank equals one device", "verify", w.path("job.yaml"))
    w.expect(0, "1 rank equals one device", "verify", w.path("plans/one.yaml"))
    w.expect(7, "has no plan", "verify", "small")
    w.expect(3, "no job x", "verify", "x")
    check(not [f for f in os.listdir(w.dir) if f.startswith("hspmd-verify")], "verify leaves its file")
    verify_alone(w)
    w.expect(7, "has no plan", "program", "show", "small")
    w.expect(7, "has no plan", "plan", "show", "small")
    for live in ([], ["--live"]):
        w.expect(6, "there is no job file small; for a job at hspmdd use hspmdctl plan show small\n",
                 "plan", "small", *live)
    w.expect(0, "wte.weight", "graph", "show", "small")
    w.expect(0, "step,loss,val_loss", "metrics", "small", "-o", "csv")
    w.expect(3, "no job x", "metrics", "x")
    events = [json.loads(x) for x in w.expect(0, "", "logs", "small", "-o", "jsonl").splitlines()]
    seq = [e["seq"] for e in events]
    check(seq == sorted(set(seq)) and all(e["job"] == "small" for e in events), events)
    check({"admin.submit", "admin.scale", "job.blocked"} <= {e["type"] for e in events}, events)
    check(all(e["data"]["actor"].startswith("uid ") for e in events if e["type"].startswith("admin.")), events)
    after = w.expect(0, "", "events", "--since", str(seq[-1] - 1), "-o", "jsonl").splitlines()
    check(json.loads(after[0])["seq"] == seq[-1], after)
    other = w.expect(0, "", "events", "--since", str(seq[-1] + 1000), "-o", "jsonl").splitlines()
    check(other and json.loads(other[0])["seq"] == 1 and json.loads(other[-1])["seq"] >= seq[-1],
          "whoever knows another store is told all events of this one: %r" % other)


def follow(w, d):
    """A follower sees new lines behind the old ones, once, also over a restart of hspmdd, which it
    tells."""
    p = subprocess.Popen([os.path.join(BUILD, "hspmdctl"), "-a", w.sock, "events", "small", "--follow", "-o", "jsonl"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    w.started.append(p)
    seen = [json.loads(p.stdout.readline())]
    check(seen[0]["type"] == "admin.submit", "first event")

    def up_to(what):
        while seen[-1]["type"] != what:
            seen.append(json.loads(p.stdout.readline()))
    w.expect(0, "cancelled", "cancel", "small")
    up_to("job.cancelled")
    d.terminate()
    check(d.wait(LIMIT) == 0, "ends in order")
    away = "hspmdctl: hspmdd at %s closed the connection; training continues without hspmdd, and the events continue " \
        "if hspmdd is back within 5 minutes\n" % w.sock
    check(p.stderr.readline() == away, "it says that hspmdd is away")
    d = w.start(w.config())
    w.expect(0, "small resumes", "resume", "small")
    up_to("admin.resume")
    w.expect(0, "cancelled", "cancel", "small")
    up_to("job.cancelled")
    p.kill()
    p.wait()
    p.stdout.close()
    p.stderr.close()
    all_of_them = w.expect(0, "", "events", "small", "-o", "jsonl").splitlines()
    check(seen == [json.loads(x) for x in all_of_them], "each event once: %r" % seen)
    w.expect(5, "cannot reach hspmdd", "events", "--follow", address=w.path("nothing"))
    return d


def restarts(w, d):
    """Jobs are there again after an end in order, and after kill -9, and a command that waits for
    one waits on."""
    w.expect(8, "is cancelled", "wait", "small")
    w.expect(7, "cancelled", "cancel", "small")
    w.expect(0, "small resumes; it begins at step 0, as no checkpoint of it is known, or with a checkpoint that is "
             "found on disk, as soon as it has its devices\n", "resume", "small")
    waits = w.waits("small")
    for i in range(2):
        d.send_signal(signal.SIGTERM if i == 0 else signal.SIGKILL)
        check(d.wait(LIMIT) == (0 if i == 0 else -signal.SIGKILL), "end %d" % i)
        left = w.write("state/.restore-copy.db", "of a restore that was killed")
        d = w.start(w.config())
        check(not os.path.exists(left), "the next start removes it")
        doc = json.loads(w.expect(0, "", "status", "-o", "json"))
        j = doc["jobs"][0]
        check((j["name"], j["state"], j["min"]) == ("small", "pending", 3), j)
        w.expect(0, "wte.weight", "graph", "show", "small")  # its files are there too
        # is answered when its term is on disk, too
        w.expect(0, "small needs 3 devices at least", "scale", "small", "--min", "3")
    check(doc["term"] == 5, "a term each: %r" % doc["term"])
    w.expect(0, "small is cancelled", "cancel", "small")
    away = "hspmdctl: hspmdd at %s closed the connection; training continues without hspmdd, and the wait continues " \
        "if hspmdd is back within 5 minutes\n" % w.sock
    out, err = waits.communicate(timeout=LIMIT)
    check(waits.returncode == 8 and err.startswith(away) and "job small is cancelled" in err and err.count("\n") == 2,
          "a wait over two starts: %d %r %r" % (waits.returncode, out, err))
    w.expect(0, "small resumes", "resume", "small")
    waits = w.waits("small", "--timeout", "3s")
    d.terminate()
    check(d.wait(LIMIT) == 0, "ends in order")
    out, err = waits.communicate(timeout=LIMIT)  # called several times, and told once
    check(waits.returncode == 124 and err.startswith(away) and err.count("\n") == 2,
          "its time is over while hspmdd is away, too: %d %r" % (waits.returncode, err))


@contextlib.contextmanager
def silence(w):
    """A wait for one that never answers has one line: nothing goes on when its time is over."""
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(w.path("silent.sock"))
        s.listen()
        p = subprocess.Popen([os.path.join(BUILD, "hspmdctl"), "--address", w.path("silent.sock"), "wait", "small",
                              "--timeout", "1s"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        yield
        out, err = p.communicate(timeout=LIMIT)
    check(p.returncode == 124 and "did not answer within 11000 ms" in err and err.count("\n") == 1,
          "a silent one: %d %r %r" % (p.returncode, out, err))


def least(w):
    return json.loads(w.expect(0, "", "status", "-o", "json"))["jobs"][0]["min"]


def full_disk(w):
    """A disk that does not take the state: hspmdd says so, refuses requests that it could not keep,
    and goes on when the disk does."""
    for cut in (True, False):
        d = w.start(w.config())
        db = sqlite3.connect(w.path("state/state.db"), isolation_level=None)
        # the daemon waits two seconds for the lock, then the write fails
        db.execute("BEGIN IMMEDIATE")
        w.expect(1, "state.db: cannot write the state: database is locked; training continues", "scale", "small",
                 "--min", "2")
        w.expect(1, "nothing can be changed until it can be written", "cancel", "small")
        w.expect(0, "problem: %s/state.db" % w.path("state"), "status")
        if cut:  # rows that were not on disk were not promised
            d.kill()
            d.wait()
        db.execute("ROLLBACK")
        db.close()
        if cut:
            d = w.start(w.config())
            check(least(w) == 3, "nothing was changed")
        else:
            until("the state is written", lambda: "problem" not in w.ctl("status").stdout)
            check(least(w) == 2, "what was kept counts")
            until("events tell", lambda: "store.written" in w.ctl("events").stdout)
            check("store.stuck" in w.ctl("events").stdout, "both")
        d.terminate()
        check(d.wait(LIMIT) == 0, "ends in order")


def cut_off(w, d):
    """A handshake that is cut off while hspmdd is away is no wrong key, and ends no wait."""
    port, key = int(w.port()), w.path("admin.key")
    waits = w.waits("small", "--key", key, "--timeout", "4s", address="127.0.0.1:%d" % port)
    # the handshake before this one is over
    w.expect(0, "", "status", "--key", key, address="127.0.0.1:%d" % port)
    d.kill()
    d.wait()
    with socket.create_server(("127.0.0.1", port)) as s:
        s.settimeout(LIMIT)
        s.accept()[0].close()
    out, err = waits.communicate(timeout=LIMIT)
    check(waits.returncode == 124, "a handshake that is cut off: %d %r %r" % (waits.returncode, out, err))


def relay(a, b):
    """Each hears the other's bytes, until one closes."""
    while True:
        for s in select.select([a, b], [], [], LIMIT)[0]:
            data = s.recv(65536)
            if not data:
                return
            (b if s is a else a).sendall(data)


def sent_away(w):
    """hspmdctl that finds no place calls again for a second."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        s.settimeout(LIMIT)
        run = [os.path.join(BUILD, "hspmdctl"), "--address", "127.0.0.1:%d" % s.getsockname()[1], "--key", w.path("admin.key"),
               "status"]

        def away():
            with s.accept()[0] as c:
                check(c.recv(1) == b"\x16", "a handshake begins")

        with subprocess.Popen(run, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            for _ in range(3):
                away()
            with s.accept()[0] as c, socket.create_connection(("127.0.0.1", int(w.port()))) as d:
                relay(c, d)
            err = p.communicate(timeout=LIMIT)[1]
        check(p.returncode == 0 and err == "", "the fourth call: %d %r" % (p.returncode, err))
        with subprocess.Popen(run, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            for _ in range(11):
                away()
            err = p.communicate(timeout=LIMIT)[1]
        check(p.returncode == 5 and "closed by the peer during the handshake; check that it runs" in err
              and err.count("\n") == 1, "no place in a second: %d %r" % (p.returncode, err))


def rights(w):
    """The admin key commands, other keys do not; on the socket root and the daemon's user do,
    others do not."""
    d = w.start(w.config(worker_key=w.path("worker.key"), admin_key=w.path("admin.key")))
    tcp = "127.0.0.1:" + w.port()
    w.expect(0, "small", "status", "--key", w.path("admin.key"), address=tcp)
    for key in ("wrong.key", "worker.key"):
        w.expect(4, "not hspmd: compare the key %s here with the admin_key of hspmdd\n" % w.path(key), "status",
                 "--key", w.path(key), address=tcp)
    w.expect(5, "admin.key does not exist, name the key with --key FILE", "status", address=tcp)
    if os.getuid() == 0:
        os.chmod(w.dir, 0o755)
        os.chmod(w.sock, 0o666)
        # nobody may have no way into the build folder
        shutil.copy(os.path.join(BUILD, "hspmdctl"), w.dir)
        r = w.ctl("cancel", "small", folder=w.dir, user=65534)
        check(r.returncode == 4 and "not permitted" in r.stderr, r)
        until("the denial is an event", lambda: "auth.denied" in w.ctl("events").stdout)
        w.expect(0, "pending", "status", "small")
    sent_away(w)
    cut_off(w, d)
    d, opened = w.start(w.config()), w.log().count("listens on 127.0.0.1:")
    check("127.0.0.1:0 stays closed" in w.log(), "no port without keys")
    w.expect(5, "without keys it listens on its socket only", "status", address="127.0.0.1:1")
    check("insecure" not in w.expect(0, "", "status"), "and nothing to warn of")
    d.terminate()
    check(d.wait(LIMIT) == 0 and w.log().count("listens on 127.0.0.1:") == opened, "ends in order")
    d = w.start(w.config(insecure_loopback="true"))
    w.expect(0, "\ninsecure: every user", "status", address="127.0.0.1:" + w.port())
    d.terminate()
    check(d.wait(LIMIT) == 0, "ends in order")


def unreadable(w):
    """A job whose stored row cannot be read fails, with the reason; all else goes on, and nothing
    is deleted."""
    path = w.path("state/state.db")
    with contextlib.closing(sqlite3.connect(path)) as db:
        key = db.execute("SELECT key FROM kv WHERE key LIKE 'app/job/%'").fetchone()[0]
    row = store.replace_row(path, key, b"\0")
    d = w.start(w.config())
    doc = json.loads(w.expect(0, "", "status", "small", "-o", "json"))["jobs"][0]
    fault = "stored row %s is not readable" % key
    check(doc["state"] == "failed" and fault in doc["reason"] and fault in doc["problem"], doc)
    w.expect(0, "problem: " + fault, "status", "small")
    w.expect(7, fault, "resume", "small")
    w.expect(7, fault, "graph", "show", "small")
    w.expect(0, "job other was submitted", "submit", w.write("other.yaml", JOB.replace("small", "other")))
    w.expect(0, "", "cancel", "other")
    d.terminate()
    check(d.wait(LIMIT) == 0, "ends in order")
    store.replace_row(path, key, row)  # a version that reads it
    d = w.start(w.config())
    w.expect(0, "", "resume", "small")
    w.expect(0, "pending", "status", "small")
    d.terminate()
    check(d.wait(LIMIT) == 0, "ends in order")


def numbers(w):
    """Jobs of one name have numbers of their own, and share no state."""
    d = w.start(w.config())
    long = "small" * 12  # the end of an answer has the remedy, and is not cut
    w.expect(0, "", "submit", w.write("long.yaml", JOB.replace("small", long)))
    w.expect(7, "hspmdctl resume %s --from STEP\n" % long, "resume", long)
    w.expect(0, "", "cancel", long)
    w.expect(0, "", "forget", long)
    job = w.write("twin.yaml", JOB.replace("small", "twin"))
    ids = []
    for i in range(2):
        ids.append(str(json.loads(w.expect(0, "", "submit", job, "-o", "json"))["id"]))
        if i == 0:
            w.expect(0, "twin may use 3 devices at most; it waits for 2 devices; no node offers any\n",
                     "scale", "twin", "--max", "3")
            w.expect(0, "twin is cancelled", "cancel", "twin")
            w.expect(0, "twin may use 4 devices at most; it is cancelled: the bounds apply when it is resumed",
                     "scale", "twin", "--max", "4")
    first, last = ids
    check([first, "twin", "cancelled"] in shown(w), shown(w))
    check([last, "twin", "pending"] in shown(w, "twin"), shown(w))
    check("admin.scale" in w.expect(0, "admin.cancel", "events", first), "the first one's")
    check("admin.scale" not in w.expect(0, "admin.submit", "events", last), "not the other's")
    w.expect(7, "another job twin, number %s, is pending" % last, "resume", first)
    w.expect(0, "%s is cancelled" % last, "cancel", last)
    w.expect(0, "resumes", "resume", first)  # the older one, too
    check([first, "twin", "pending"] in shown(w, "twin"), shown(w))
    w.expect(0, "", "cancel", "twin")
    w.expect(7, "several jobs are called twin: %s (cancelled), %s (cancelled); give the number" %
             (first, last), "forget", "twin")
    w.expect(0, "%s is forgotten; it was job number %s, cancelled" % (first, first), "forget", first)
    w.expect(3, "no job or node " + first, "status", first)
    check([last, "twin", "cancelled"] in shown(w, "twin"), shown(w))
    d.terminate()
    check(d.wait(LIMIT) == 0, "ends in order")


def damaged_lines(w):
    """A line of events that the disk has changed is told at the start and by a backup, is left out,
    and stops nothing."""
    rows = lambda: sqlite3.connect(w.path("state/state.db"), isolation_level=None)
    change = "UPDATE event SET json = replace(json, 'admin.cancel', 'admin.canceL') WHERE seq = ?"
    seqs = [r[0] for r in rows().execute("SELECT seq FROM event WHERE json LIKE '%admin.cancel%'")]
    rows().execute(change, seqs[:1])
    d = w.start(w.config())
    until("the start tells", lambda: "damaged lines are left out: 1 of events, 0 of metrics" in w.ctl("events").stdout)
    check("store.damaged" in w.ctl("events").stdout and "canceL" not in w.ctl("events").stdout, "nobody believes it")
    with contextlib.closing(rows()) as db:
        db.execute(change, seqs[1:2])
    check("canceL" not in w.ctl("events").stdout, "nor one that is damaged now")
    r = w.ctl("backup", w.path("kept.db"))
    check(r.returncode == 0
          and r.stderr == "hspmdctl: damaged lines are left out: 1 of events, 0 of metrics\n", repr(r))
    r = w.ctl("backup", w.path("kept.db"))
    check(r.returncode == 0 and "1 of events" in r.stderr, "as long as it is there: %r" % r)
    d.terminate()
    check(d.wait(LIMIT) == 0, "ends in order")
    for damage, told in ((None, ""), (seqs[2], "damaged lines are left out: 1 of events, 0 of metrics\n")):
        if damage:
            with contextlib.closing(sqlite3.connect(w.path("kept.db"), isolation_level=None)) as db:
                db.execute(change, (damage,))
        r = w.hspmdd("--config", w.config(), "--restore", w.path("kept.db"))
        check(r.returncode == 0 and r.stderr.endswith(told) and bool(r.stderr) == bool(told), repr(r))
    damaged_page(w, rows)


def damaged_page(w, rows):
    """The first page of the events is lost: the store is written anew at the start, and a start
    that cannot do it says so."""
    jobs = "SELECT COUNT(*) FROM kv WHERE key GLOB 'job/*'"
    with contextlib.closing(rows()) as db:
        n_jobs = db.execute(jobs).fetchone()[0]
        page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'event'").fetchone()[0]
    with open(w.path("state/state.db"), "r+b") as f:
        f.seek((page - 1) * 4096)
        f.write(b"\xff" * 4096)
    os.mkdir(w.path("state/.restore-copy.db"))
    d = w.start(w.config(metrics_listen="127.0.0.1:0"))
    problem = "problem: %s: it is damaged, and cannot be rebuilt: cannot make " % w.path("state/state.db")
    check(problem in w.ctl("status").stdout, "a problem: %r" % w.ctl("status"))
    check(w.healthz() == (503, "the store is damaged: hspmdctl status says more"), "not healthy: %r" % (w.healthz(),))
    d.terminate()
    check(d.wait(LIMIT) == 0, "ends in order")
    os.rmdir(w.path("state/.restore-copy.db"))
    d = w.start(w.config(metrics_listen="127.0.0.1:0"))
    until("it is told", lambda: "store.damaged" in w.ctl("events").stdout)
    check(w.healthz() == (200, "ok"), "healthy: %r" % (w.healthz(),))
    check("pages were damaged" in w.ctl("events").stdout and "problem" not in w.ctl("status").stdout, "and mended")
    check(w.ctl("backup", w.path("mended.db")).returncode == 0, "a backup is whole")
    check(len([f for f in os.listdir(w.path("state")) if f.endswith("-damaged")]) == 1, "the damaged one is kept")
    with contextlib.closing(rows()) as db:
        check(db.execute(jobs).fetchone()[0] == n_jobs, "all jobs")


def run(w):
    with silence(w):
        refusals(w)
        notices(w)
        unread_notices(w)
        d = w.start(w.config())
        commands(w)
        d = follow(w, d)
        restarts(w, d)
    full_disk(w)
    rights(w)
    unreadable(w)
    numbers(w)
    damaged_lines(w)


if __name__ == "__main__":
    sys.exit(main(World, run, ["hspmdd", "hspmdctl"], "hspmdd and hspmdctl understand each other"))
