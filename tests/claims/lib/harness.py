"""Gives claims a private cluster, jobs, and the report in the last line.

A claim is a script in tests/claims that makes a Claim, measures, and ends with claim.end(holds,
figures). Environment: HSPMD_BUILD (default build), HSPMD_SEED, HSPMD_JOB, HSPMD_TEXT; see
tests/README.md.
"""
import json
import math
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from jobs import *  # noqa: F403
from report import BUILD, ROOT, Claim, Failed, Unjudged, say
from store import begin


# ---- offline runs --------------------------------------------------------------------------------

def call(*args, check=True, timeout=600, env=None):
    r = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=timeout,
                       env=dict(os.environ, **(env or {})))
    if check and r.returncode != 0:
        raise Failed("%s: exit %d: %s" % (" ".join(str(a) for a in args[:3]), r.returncode,
                                          (r.stderr or r.stdout).strip()[-300:]))
    return r


def prog(name):
    path = os.path.join(BUILD, name)
    if not os.access(path, os.X_OK):
        raise Unjudged("%s, which is not built: make -C %s check TESTS=" % (name, BUILD))
    return path


def run_offline(claim, job, name, plan=None, steps=None, gradients=False):
    """Compiles @job (with @plan) and runs it in one process. Returns (metrics, path of gradients).
    """
    program = os.path.join(claim.dir, name + ".prog")
    metrics = os.path.join(claim.dir, name + ".jsonl")
    grads = os.path.join(claim.dir, name + ".grad.safetensors")
    call(prog("hspmdctl"), "compile", job, "-o", program, *(["--plan", plan] if plan else []))
    args = ["--run", program, "--metrics", metrics, "--quiet"]
    args += ["--steps", steps] if steps else []
    args += ["--dump-gradients", grads] if gradients else []
    call(prog("hspmd-worker"), *args)
    return read_jsonl(metrics), grads


class Offline:
    """The same, beside other work: `with` starts it, losses() waits for its end."""

    def __init__(self, claim, job, name):
        self.claim, self.metrics = claim, os.path.join(claim.dir, name + ".jsonl")
        self.program = os.path.join(claim.dir, name + ".prog")
        call(prog("hspmdctl"), "compile", job, "-o", self.program)

    def __enter__(self):
        self.process = subprocess.Popen([prog("hspmd-worker"), "--run", self.program, "--metrics",
                                         self.metrics, "--quiet"],
                                        env=dict(os.environ, OPENBLAS_NUM_THREADS="1"), stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def losses(self):
        try:
            rc = self.process.wait(max(10, self.claim.left()))
        except subprocess.TimeoutExpired:
            raise Failed("the undisturbed run takes too long")
        if rc != 0:
            raise Failed("the undisturbed run ended with status %d" % rc)
        return read_jsonl(self.metrics)


def processor_seconds(claim, job, name, limit=30):
    """Processor time of one step of @job alone; that of the clock would be other people's too.
    @limit: about how long it may be measured."""
    def cpu(n):
        r = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = r.ru_utime + r.ru_stime
        run_offline(claim, job, name, steps=n)
        r = resource.getrusage(resource.RUSAGE_CHILDREN)
        return r.ru_utime + r.ru_stime - began

    total = load_job(job)["train"]["steps"]
    two = cpu(min(2, total))
    more = max(0, min(total - 2, 20, int(limit / max(two, 1e-4))))
    return max(1e-4, (cpu(2 + more) - two) / more if more else two / min(2, total))


def heavier(claim, job, text, seconds):
    """Processor time of a step. One of a job that is not ours is made to take about @seconds at
    least, by its batch, so that nodes of the slowest speed there is train it for minutes."""
    step = processor_seconds(claim, write_job(claim, job, "probe", text), "probe")
    if os.environ.get("HSPMD_JOB") and step < 0.8 * seconds:
        batch = job["train"]["global_batch"]
        job["train"]["global_batch"] = min(4096, math.ceil(batch * seconds / step))
        say("steps of %.4f s are too short: global_batch %d instead of %d" %
            (step, job["train"]["global_batch"], batch))
        step = processor_seconds(claim, write_job(claim, job, "probe", text), "probe")
    return step


def probe(claim, job, text):
    """An objection of the programs to a job or a text that is not ours is a reason not to judge."""
    path = write_job(claim, job, "first", text)
    program = os.path.join(claim.dir, "first.prog")
    for args in (["hspmdctl", "compile", path, "-o", program],
                 ["hspmd-worker", "--run", program, "--steps", 1, "--quiet"]):
        r = call(prog(args[0]), *args[1:], check=False)
        if r.returncode < 0:
            raise Failed("%s ended with signal %d" % (args[0], -r.returncode))
        if r.returncode != 0:
            raise Unjudged("another job or text: %s" % r.stderr.strip()[-250:])


def the_job(claim, name):
    """(job, text): those of HSPMD_JOB and HSPMD_TEXT, which the programs have taken, or ours."""
    text = make_text(claim)
    job = judged_job(claim, name)
    if is_own():
        probe(claim, job, text)
    return job, text


def read_jsonl(path):
    with open(path) as f:
        return [json.loads(l) for l in f if l.strip()]


def read_safetensors(path):
    """name -> list of floats (this needs no numpy)."""
    import array
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        head = json.loads(f.read(n))
        data = f.read()
    out = {}
    for name, t in head.items():
        if name != "__metadata__":
            a = array.array({"F32": "f", "F64": "d"}[t["dtype"]])
            a.frombytes(data[t["data_offsets"][0]:t["data_offsets"][1]])
            out[name] = a
    return out


def gradient_distance(a, b):
    """Largest difference of one parameter's gradient, over the global norm of @a."""
    a, b = read_safetensors(a), read_safetensors(b)
    if set(a) != set(b):
        raise Failed("gradients of different parameters: %s" % sorted(set(a) ^ set(b))[:3])
    norm = sum(x * x for t in a.values() for x in t) ** 0.5
    apart = [sum((x - y) ** 2 for x, y in zip(a[k], b[k])) ** 0.5 for k in a]
    if not all(math.isfinite(d) for d in apart) or norm == 0:
        raise Failed("gradients that are not finite, or all zero")
    return max(apart) / norm


def loss_distance(a, b, steps):
    """Largest relative difference of training and validation loss over all steps."""
    a, b = {m["step"]: m for m in a}, {m["step"]: m for m in b}
    worst = 0.0
    for t in range(steps):
        if t not in a or t not in b:
            raise Failed("step %d is missing in %s" % (t, "the disturbed run" if t in a else "the reference"))
        if ("val_loss" in a[t]) != ("val_loss" in b[t]):
            raise Failed("only one of the runs has validated at step %d" % t)
        for key in ("loss", "val_loss"):
            if key in a[t]:
                x, y = finite(a[t], key), finite(b[t], key)
                if x is None:
                    raise Unjudged("a job that stays finite: its %s at step %d is %s" % (key, t, a[t][key]))
                if y is None:
                    raise Failed("%s at step %d is %s in the disturbed run" % (key, t, b[t][key]))
                worst = max(worst, abs(x - y) / max(abs(x), 1e-300))
    return worst


# ---- a cluster -----------------------------------------------------------------------------------

def wait_for(what, cond, timeout, poll=0.02):
    """Waits until cond() is true and returns its value; Failed with @what otherwise."""
    end = time.monotonic() + timeout
    while True:
        value = cond()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed("waited %.0f s for %s" % (timeout, what))
        time.sleep(poll)


class Cluster:
    """hspmdd and agents as real processes, which meet at its socket, everything under one folder.
    """

    state_bytes = 64 << 20  # of all agents, about

    def __init__(self, claim, name="c", detection="3s", heartbeat="200ms", audit=False):
        self.claim = claim
        self.dir = os.path.join(claim.dir, name)
        os.makedirs(self.dir)
        self.socket = os.path.join(self.dir, "d.sock")
        self.state = self.state_folder()
        self.detection, self.heartbeat = detection, heartbeat
        self.audit = os.path.join(self.dir, "audit") if audit else None
        if audit:
            os.makedirs(self.audit)
        self.daemon = None
        self.workers = {}
        self.holders = set()
        self.worker_config = {}
        self.worker_options = []  # of the command line
        self.logs = {}

    def state_folder(self):
        """A folder for the state of the agents, in memory where there is room (containers may have
        64 MB)."""
        try:
            s = os.statvfs("/dev/shm")
            roomy = s.f_bavail * s.f_frsize >= self.state_bytes and os.access("/dev/shm", os.W_OK)
        except OSError:
            roomy = False
        return tempfile.mkdtemp(prefix="hspmd-claim-", dir="/dev/shm" if roomy else None)

    def __enter__(self):
        try:
            self.start_daemon()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *exc):
        try:
            if exc[0] is not None and not self.claim.over:
                self.show_logs()
        finally:
            self.end_all()

    def end_all(self):
        for p in [w for w in self.workers.values()] + [self.daemon]:
            if p is not None and p.poll() is None:
                p.send_signal(signal.SIGCONT)
                p.kill()
                p.wait()
        wait_for("executors to end with their agents", lambda: not self.executors(), 10)
        shutil.rmtree(self.state, ignore_errors=True)

    def show_logs(self):
        for name, path in sorted(self.logs.items()):
            with open(path, errors="replace") as f:
                for line in f.read().splitlines()[-15:]:
                    say("    %s: %s" % (name, line[:300]))

    def spawn(self, name, args):
        self.logs[name] = os.path.join(self.dir, name + ".log")
        log = open(self.logs[name], "a")
        return subprocess.Popen(args, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                env=dict(os.environ, OPENBLAS_NUM_THREADS="1"))

    def daemon_config(self):
        return {"listen": "", "socket": self.socket,
                "state_dir": os.path.join(self.dir, "daemon"), "heartbeat": self.heartbeat,
                "failure_detection": self.detection}

    def start_daemon(self):
        conf = os.path.join(self.dir, "hspmdd.yaml")
        with open(conf, "w") as f:
            json.dump(self.daemon_config(), f)
        self.daemon = self.spawn("hspmdd", [prog("hspmdd"), "--config", conf, *begin(conf)])
        wait_for("hspmdd to answer", lambda: self.daemon.poll() is not None or
                 self.ctl("status", "-o", "json", check=False).returncode == 0, 20)
        if self.daemon.poll() is not None:
            raise Failed("hspmdd ended with status %d" % self.daemon.returncode)

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait()

    def start_worker(self, name, devices=({},), wait=True, **more):
        """@devices: dicts of kind, speed, memory. self.worker_config: more keys for all workers,
        @more: for this one. The node may keep copies for others, if hspmdd is there to be told."""
        if name not in self.holders and self.ctl("node", "allow", name, "--holder", check=False).returncode == 0:
            self.holders.add(name)
        conf = os.path.join(self.dir, name + ".yaml")
        config = {"coordinator": self.socket, "node": name,
                  "state_dir": os.path.join(self.state, name),
                  "devices": [dict({"kind": "cpu", "speed": 1, "memory": "1GiB"}, **d) for d in devices]}
        if self.audit:
            config["audit_dir"] = self.audit
        config.update(self.worker_config, **more)
        with open(conf, "w") as f:
            json.dump(config, f)
        self.workers[name] = self.spawn(name, [prog("hspmd-worker"), "--config", conf, *self.worker_options])
        if wait:
            wait_for("node %s to be ready" % name, lambda: self.node_state(name) == "ready", 30)

    def start_workers(self, speeds, **device):
        names = ["w%d" % i for i in range(len(speeds))]
        for n, s in zip(names, speeds):
            self.start_worker(n, [dict(device, speed=s)], wait=False)
        for n in names:
            wait_for("node %s to be ready" % n, lambda: self.node_state(n) == "ready", 60)
        return names

    def ctl(self, *args, check=True, timeout=600):
        return call(prog("hspmdctl"), "--address", self.socket, *args, check=check, timeout=timeout)

    def status(self):
        r = self.ctl("status", "-o", "json", check=False)
        return json.loads(r.stdout) if r.returncode == 0 else None

    def nodes(self):
        """name -> node of the status; state "ready": live with all its devices up."""
        s = self.status()
        out = {}
        for n in s["nodes"] if s else []:
            if n["state"] == "live" and n["devices"] and all(d["up"] for d in n["devices"]):
                n["state"] = "ready"
            out[n["name"]] = n
        return out

    def node_state(self, name):
        return self.nodes().get(name, {}).get("state")

    def ready_nodes(self):
        return sorted(n for n, v in self.nodes().items() if v["state"] == "ready")

    def job(self, name):
        s = self.status()
        return next((j for j in s["jobs"] if j["name"] == name), None) if s else None

    def submit(self, path, *options):
        r = self.ctl("submit", path, *options, check=False)
        if r.returncode in (6, 7) and is_own():
            raise Unjudged("another job: %s" % r.stderr.strip()[-250:])
        if r.returncode != 0:
            raise Failed("hspmdctl submit: exit %d: %s" % (r.returncode, r.stderr.strip()[-300:]))
        return r

    def wait(self, job, condition, timeout):
        """Blocks in hspmdctl wait: polling would take time from the workers that share the machine.
        """
        r = self.ctl("wait", job, "--for=" + condition, "--timeout", "%dms" % max(1000, timeout * 1000), check=False)
        if r.returncode != 0:
            raise Failed("waiting for %s of %s: exit %d: %s" % (condition, job, r.returncode,
                                                                (r.stderr or r.stdout).strip()[-200:]))

    def wait_step(self, job, step, timeout=120):
        self.wait(job, "step=%d" % step, timeout)

    def wait_done(self, job, timeout):
        self.wait(job, "done", timeout)

    def metrics(self, job):
        return [json.loads(l) for l in self.ctl("metrics", job, "-o", "jsonl").stdout.splitlines()]

    def events(self, job=None):
        args = ["events"] + ([job] if job else []) + ["-o", "jsonl"]
        return [json.loads(l) for l in self.ctl(*args).stdout.splitlines()]

    # ---- processes and their ends ----

    def executors(self, name=None):
        """Process ids of executors, all or of one node; those of devices before those that keep
        copies."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    args = f.read().split(b"\0")
                with open("/proc/%s/stat" % pid) as f:
                    state = f.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if b"--executor" in args and state != "Z" and any(a.startswith(self.state.encode()) for a in args):
                node = args[args.index(b"--node") + 1].decode() if b"--node" in args else None
                if name is None or node == name:
                    found.append((int(args[args.index(b"--device") + 1]), int(pid)))
        return [pid for _, pid in sorted(found)]

    def kill_executor(self, name):
        for pid in self.executors(name)[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # the process has just ended by itself

    def kill_agent(self, name):
        """The agent with its executors, as when the machine goes."""
        pids = self.executors(name)
        self.workers[name].kill()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.workers[name].wait()
        shutil.rmtree(os.path.join(self.state, name), ignore_errors=True)

    def drain(self, name):
        self.ctl("drain", name, "--reason", "claim")
