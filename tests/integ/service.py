#!/usr/bin/env python3
"""Runs the unit files, unchanged, under a real systemd: a job trains with everything closed that
they close, a stuck daemon is killed by the watchdog and started again, executors die with their
agent, a wrong configuration is not tried again. What the worker's unit must leave open is open:
network cards are found, NCCL starts (skipped without libnccl.so.2), rdma_cm may be used, and no
other device of its kind, and the driver may keep kernels that it compiled.

A service manager of our own runs as process 1 of new namespaces (mount, process, cgroup, network,
IPC, host name), on a throw-away copy of the root folder (an overlay whose upper layer is in
memory): nothing of this machine is changed. Needs root, overlay and the name=systemd cgroup
hierarchy; 77 where they are not to be had."""
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True  # the source tree stays as it is
from wire import LIMIT, check, children, until

BUILD = os.path.abspath(os.environ.get("HSPMD_BUILD", "build"))
SRC = os.path.abspath(os.environ.get("HSPMD_SRC", "."))
CGROUP = "/sys/fs/cgroup/systemd"
DEVICES = "/sys/fs/cgroup/devices"
RDMA_CM, OTHER = "/dev/infiniband/rdma_cm", "/dev/other"
MISC = ("tun", "vsock", "userfaultfd", "fuse")  # devices that may be opened without consequences
NCCL = "/run/libnccl.so.2"
JOB = {"apiVersion": "hspmd/v1", "name": "small", "data": {"path": "/var/lib/hspmd-worker/text.txt"},
       "model": {"family": "gpt", "layers": 2, "hidden": 64, "heads": 2, "vocab": 256, "sequence": 32,
                 "tied_head": True},
       "train": {"steps": 100000, "global_batch": 8, "optimizer": {"name": "adamw", "lr": 1e-3}},
       "resources": {"min": 1, "max": 2},
       "checkpoint": {"path": "/var/lib/hspmd-worker/out", "every_steps": 20}}


class Absent(Exception):
    """The things that the test needs and this machine lacks."""


# ---- inside of the namespaces, before systemd
# ------------------------------------------------------

def sh(*args):
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode != 0:
        raise Absent("%s: %s" % (" ".join(args), (r.stderr or r.stdout).strip()))


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


def loopback_up():
    with socket.socket() as s:
        request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(s, 0x8914, request)  # SIOCSIFFLAGS


def make_root(at):
    sh("mount", "--make-rprivate", "/")
    sh("mount", "-t", "tmpfs", "tmpfs", at)
    for d in ("up", "work", "root"):
        os.mkdir(os.path.join(at, d))
    root = os.path.join(at, "root")
    sh("mount", "-t", "overlay", "overlay", "-o", "lowerdir=/,upperdir=%s/up,workdir=%s/work" % (at, at), root)
    for kind, where, options in (("proc", "proc", "rw"), ("sysfs", "sys", "ro"), ("tmpfs", "dev", "mode=755"),
                                 ("tmpfs", "run", "mode=755"), ("tmpfs", "tmp", "mode=1777")):
        sh("mount", "-t", kind, "-o", options, kind, os.path.join(root, where))
    # Settings of the kernel are everybody's.
    sh("mount", "--bind", "-o", "ro", root + "/proc/sys", root + "/proc/sys")
    for d in ("shm", "pts"):
        os.mkdir("%s/dev/%s" % (root, d))
    sh("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", root + "/dev/shm")
    for name, minor in (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)):
        sh("mknod", "-m", "666", "%s/dev/%s" % (root, name), "c", "1", str(minor))
    os.symlink("pts/ptmx", root + "/dev/ptmx")
    sh("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", root + "/sys/fs/cgroup")
    os.mkdir(root + CGROUP)
    sh("mount", "-t", "cgroup", "-o", "none,name=systemd", "cgroup", root + CGROUP)
    return root


def misc_devices(root):
    """Two devices of one major number. One plays rdma_cm, which is of that number, too; the other
    is none of ours."""
    with open("/proc/misc") as f:
        minors = [m for m, name in (l.split() for l in f) if name in MISC]
    os.mkdir(root + os.path.dirname(RDMA_CM))
    for path, minor in zip((RDMA_CM, OTHER), minors):
        sh("mknod", "-m", "666", root + path, "c", "10", minor)


def asking_unit(root, units, nccl):
    """The worker's unit with another program in it: ask(). No restriction is changed."""
    shutil.copy(os.path.join(SRC, "systemd/hspmd-worker.service"), os.path.join(units, "asking.service"))
    folder = root + "/usr/lib/hspmd-asking"
    os.mkdir(folder)
    for name in ("service.py", "wire.py"):
        shutil.copy(os.path.join(SRC, "tests/integ", name), folder)
    write(root + "/etc/systemd/system/asking.service.d/test.conf",
          "[Service]\nType=oneshot\nRestart=no\nWatchdogSec=0\nStandardOutput=file:/run/answer\n"
          "StandardError=file:/run/answer-errors\nExecStart=\n"
          "ExecStart=/usr/bin/python3 /usr/lib/hspmd-asking/service.py --ask\n")
    if nccl:
        write(root + NCCL, "")
        sh("mount", "--bind", nccl, root + NCCL)


def fill(root, nccl):
    """Our programs, units and user; of the distribution's units only those that never start by
    itself.
    """
    for folder in ("etc/systemd/system", "etc/hspmd", "var/lib/hspmd", "var/lib/hspmd-worker"):
        shutil.rmtree(os.path.join(root, folder), ignore_errors=True)
    units = os.path.join(root, "lib/systemd/system")
    for name in os.listdir(units):
        if name.endswith(".wants") or name.endswith(".requires"):
            shutil.rmtree(os.path.join(units, name))
    for name in ("hspmdd", "hspmd-worker", "hspmdctl"):
        to = os.path.join(root, "usr/bin" if name == "hspmdctl" else "usr/sbin", name)
        if os.path.lexists(to):
            os.unlink(to)
        shutil.copy(os.path.join(BUILD, name), to)
    for name in ("hspmdd.service", "hspmd-worker.service"):
        shutil.copy(os.path.join(SRC, "systemd", name), units)
        # The watchdog bites sooner, words go to a file, for there is no journal, and the machines
        # of tests may not lower an OOM score; nothing else is changed.
        write("%s/etc/systemd/system/%s.d/test.conf" % (root, name),
              "[Service]\nWatchdogSec=2\nStandardError=append:/run/log-%s\nOOMScoreAdjust=0\n" % name)
    write(root + "/etc/systemd/system/test.target", "[Unit]\nDescription=nothing\nDefaultDependencies=no\n"
          "AllowIsolate=yes\n")
    write(root + "/etc/hspmd/hspmdd.yaml", "heartbeat: 200ms\nfailure_detection: 1500ms\n")
    write(root + "/etc/hspmd/hspmd-worker.yaml", "node: alpha\nleave_timeout: 2s\n"
          "devices: [{speed: 0.5, memory: 64MiB}]\n")
    write(root + "/tmp/job.json", json.dumps(JOB))
    shutil.copy(os.path.join(SRC, "systemd/hspmd.conf"), root + "/usr/lib/sysusers.d/hspmd.conf")
    sh("systemd-sysusers", "--root=" + root, "hspmd.conf")
    for key, group in (("worker.key", "hspmd"), ("admin.key", "hspmdd")):
        write("%s/etc/hspmd/%s" % (root, key), os.urandom(32).hex() + "\n", 0o640)
        sh("chroot", root, "chgrp", group, "/etc/hspmd/" + key)
    misc_devices(root)
    asking_unit(root, units, nccl)


def inner(at, nccl):
    try:
        loopback_up()
        root = make_root(at)
        fill(root, nccl)
    except (OSError, Absent) as e:
        print("ABSENT %s" % e, flush=True)
        return
    os.chroot(root)
    os.chdir("/")
    # As the only unit is one without dependencies, nothing of the distribution is started.
    os.execve("/lib/systemd/systemd", ["systemd", "--system", "--unit=test.target", "--log-target=console",
                                       "--log-level=notice", "--show-status=no"],
              {"container": "test", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})


# ---- under the worker's unit
# -----------------------------------------------------------------------

def ask_nccl():
    nccl, ident = ctypes.CDLL(NCCL), ctypes.create_string_buffer(128)
    nccl.ncclGetLastError.restype = ctypes.c_char_p
    rc = nccl.ncclGetUniqueId(ident)
    return "ok" if rc == 0 else "%d %s" % (rc, nccl.ncclGetLastError(None).decode())


def ask_cards():
    libc, cards = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p()
    return "ok" if libc.getifaddrs(ctypes.byref(cards)) == 0 else os.strerror(ctypes.get_errno())


def ask_open(path, flags):
    try:
        os.close(os.open(path, flags))
        return "ok"
    except OSError as e:
        return e.strerror


def ask():
    answer = {"cards": ask_cards(), RDMA_CM: ask_open(RDMA_CM, os.O_RDWR), OTHER: ask_open(OTHER, os.O_RDWR),
              "cache": ask_open(os.environ["CUDA_CACHE_PATH"] + "/kernels", os.O_CREAT | os.O_RDWR)}
    if os.path.exists(NCCL):
        answer["nccl"] = ask_nccl()
    print(json.dumps(answer))


# ---- outside
# ---------------------------------------------------------------------------------------

def own_groups():
    """A fresh group in every hierarchy, below the one we are in: systemd takes the root it sees for
    its own."""
    groups = []
    with open("/proc/self/cgroup") as f:
        lines = [l.strip().split(":", 2) for l in f]
    for _, names, path in lines:
        at = os.path.join("/sys/fs/cgroup", names[5:] if names.startswith("name=") else names or "unified")
        if not os.path.isdir(at):
            continue  # not mounted here: systemd cannot reach it either
        group = os.path.join(at, path.lstrip("/"), "hspmd-test-%d" % os.getpid())
        try:
            os.mkdir(group)
            groups.append(group)
            for name in ("cpuset.cpus", "cpuset.mems"):  # a new one has none and takes no process
                own = os.path.join(group, name)
                if os.path.exists(own):
                    with open(os.path.join(at, path.lstrip("/"), name)) as f, open(own, "w") as g:
                        g.write(f.read())
        except OSError as e:
            for g in groups:
                os.rmdir(g)
            raise Absent("cgroups: %s" % e)
    return groups


class Machine:
    """The namespaces with their systemd."""

    def __init__(self, at, nccl):
        self.at = at
        self.log = os.path.join(at, "log")
        self.groups = own_groups()
        self.init = None
        world = os.path.join(at, "world")
        os.mkdir(world)
        with open(self.log, "wb") as out:
            self.unshare = subprocess.Popen(
                ["unshare", "-C", "-m", "-p", "-n", "-u", "-i", "-f", "--kill-child", "--mount-proc", sys.executable,
                 os.path.abspath(__file__), "--inner", world, nccl], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                preexec_fn=self.enter)
        until("systemd runs", self.runs)

    def enter(self):
        for group in self.groups:
            with open(os.path.join(group, "cgroup.procs"), "w") as f:
                f.write(str(os.getpid()))

    def words(self):
        with open(self.log, errors="replace") as f:
            return f.read()

    def runs(self):
        if self.unshare.poll() is not None or "ABSENT" in self.words():
            raise Absent(self.words().strip()[-300:])
        kids = children(self.unshare.pid)
        if kids:
            self.init = kids[0]
            return self.call("systemctl", "is-system-running").stdout.strip() in ("running", "degraded")
        return False

    def call(self, *args, **more):
        return subprocess.run(["nsenter", "-t", str(self.init), "-m", "-p", "-C", "-n", "-u", "-i", "-r", "-w",
                               "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"] + list(args), capture_output=True,
                              text=True, timeout=60, **more)

    def ok(self, *args):
        r = self.call(*args)
        check(r.returncode == 0, "%s: exit %d: %s%s" % (" ".join(args), r.returncode, r.stdout, r.stderr))
        return r.stdout

    def shows(self, unit, key):
        return self.ok("systemctl", "show", "-P", key, unit).strip()

    def close(self):
        if self.unshare.poll() is None:
            self.unshare.kill()  # process 1 goes with it, and with that everything
        self.unshare.wait()
        end = time.monotonic() + LIMIT
        while any(os.path.exists(g) for g in self.groups) and time.monotonic() < end:
            for group in self.groups:
                for folder, _, _ in os.walk(group, topdown=False):
                    try:
                        os.rmdir(folder)
                    except OSError:
                        time.sleep(0.05)  # the last process is still on its way


def status(m):
    return json.loads(m.ok("hspmdctl", "status", "-o", "json"))


def job(m):
    return status(m)["jobs"][0]


def bitten(m, unit):
    """Stops the main process of @unit as a loop that hangs would: the watchdog ends it, and it
    comes back."""
    before, again = m.shows(unit, "MainPID"), int(m.shows(unit, "NRestarts"))
    m.ok("kill", "-STOP", before)
    until("the watchdog ends %s" % unit, lambda: m.shows(unit, "Result") == "watchdog")
    until("%s is started again" % unit, lambda: int(m.shows(unit, "NRestarts")) > again and
          m.shows(unit, "ActiveState") == "active")
    check(m.shows(unit, "MainPID") != before, "another process")


def left_open(m, nccl):
    """Checks the open parts of the worker's unit. Returns the parts that could not be tried."""
    m.ok("systemctl", "start", "asking")
    answer = json.loads(m.ok("cat", "/run/answer"))
    check(answer["cards"] == "ok", "getifaddrs under the worker's unit: %s" % answer["cards"])
    check(answer["cache"] == "ok", "kernels that the driver compiled are not kept: %s" % answer["cache"])
    if os.path.isdir(DEVICES) and m.call("test", "-e", OTHER).returncode == 0:
        check(answer[RDMA_CM] == "ok", "%s under the worker's unit: %s" % (RDMA_CM, answer[RDMA_CM]))
        check(answer[OTHER] == "Operation not permitted", "another device: %s" % answer[OTHER])
    if nccl:
        check(answer["nccl"] == "ok", "ncclGetUniqueId of %s under the worker's unit: %s" % (nccl, answer["nccl"]))
    return "" if nccl else "libnccl.so.2 is not here: ncclGetUniqueId was not tried; all else passed"


def apart(m):
    """The agent's user joins by the socket, and can do nothing else to hspmdd."""
    worker = lambda *args: m.call("setpriv", "--reuid=hspmd-worker", "--regid=hspmd-worker", "--groups=hspmd", *args)
    denied = worker("hspmdctl", "undrain", "alpha")
    check(denied.returncode == 4 and "not permitted" in denied.stderr, "the agent's user does not command: %r" % denied)
    check(worker("cat", "/etc/hspmd/worker.key").returncode == 0, "the agent reads its key")
    for path in ("/etc/hspmd/admin.key", "/var/lib/hspmd/state.db"):
        check("ermission denied" in worker("cat", path).stderr, "the agent's user does not read %s" % path)


def upgraded(m):
    """Acts as new packages do: other files, hspmdd started again, the agent left alone. Not a step
    is lost."""
    agent, before = m.shows("hspmd-worker", "MainPID"), job(m)
    kids = m.ok("pgrep", "-P", agent).split()
    for p in ("hspmdd", "hspmd-worker"):
        m.ok("sh", "-c", "cp /usr/sbin/%s /usr/sbin/new && mv -f /usr/sbin/new /usr/sbin/%s" % (p, p))
    m.ok("systemctl", "daemon-reload")
    m.ok("systemctl", "restart", "hspmdd")
    until("training goes on", lambda: job(m)["step"] > before["step"] + 20, 60)
    check(job(m)["epoch"] == before["epoch"], "in its epoch")
    check(m.shows("hspmd-worker", "MainPID") == agent and m.ok("pgrep", "-P", agent).split() == kids, "by whom it did")
    steps = [json.loads(l)["step"] for l in m.ok("hspmdctl", "metrics", "small", "-o", "jsonl").splitlines()]
    check(steps == list(range(steps[0], steps[0] + len(steps))) and steps[-1] > before["step"],
          "each step once: %r" % steps)
    m.ok("kill", "-KILL", kids[0])
    until("another executor, of the same version", lambda: job(m)["step"] > steps[-1] + 5 and
          "/hspmd-worker (deleted)" in m.call("readlink", "/proc/%s/exe" %
                                              m.ok("pgrep", "-P", agent).split()[0]).stdout)


def run(m):
    m.ok("systemctl", "start", "hspmdd", "hspmd-worker")
    for unit in ("hspmdd", "hspmd-worker"):
        check(m.shows(unit, "ActiveState") == "active", "%s is active" % unit)
        pid = m.shows(unit, "MainPID")
        check(m.ok("ps", "-o", "user:32=", "-p", pid).strip() == unit, "%s runs as its user" % unit)
        with_seccomp = m.ok("grep", "-E", "^(Seccomp|NoNewPrivs|CapBnd):", "/proc/%s/status" % pid).split()
        check(sorted(with_seccomp) == sorted(["CapBnd:", "0" * 16, "NoNewPrivs:", "1", "Seccomp:", "2"]),
              "%s is locked in: %r" % (unit, with_seccomp))
    until("a status for people", lambda: "nodes" in m.shows("hspmdd", "StatusText"))
    until("the node is up", lambda: [n for n in status(m)["nodes"] if n["state"] == "live" and n["devices"][0]["up"]])

    text = "".join("the quick brown fox %d jumps over the lazy dog.\n" % i for i in range(20000))
    check(m.call("sh", "-c", "cat >/var/lib/hspmd-worker/text.txt; chmod 644 /var/lib/hspmd-worker/text.txt",
                 input=text).returncode == 0, "the text is there")
    m.ok("hspmdctl", "submit", "/tmp/job.json")
    until("it trains and saves", lambda: job(m)["step"] > 25 and job(m).get("checkpoint_step", 0) >= 20, 60)
    check(m.ok("find", "/dev/shm", "-type", "f", "-size", "+4k").strip(), "the state is in /dev/shm")
    check(m.ok("find", "/var/lib/hspmd/jobs", "-path", "*/small-*/tb/events.out.tfevents.*").strip(), "event files")
    check("root" not in m.ok("stat", "-c", "%U %a", "/var/lib/hspmd/state.db", "/dev/shm"
                             ).splitlines()[0], "the store is its own")

    apart(m)
    upgraded(m)
    bitten(m, "hspmdd")
    step = until("hspmdd answers again", lambda: m.call("hspmdctl", "status").returncode == 0 and job(m)["step"])
    until("training went on", lambda: job(m)["step"] > step + 10, 60)
    bitten(m, "hspmd-worker")
    until("training goes on", lambda: job(m)["state"] == "running" and job(m)["step"] > step + 20, 60)

    agent = m.shows("hspmd-worker", "MainPID")
    kids = m.ok("pgrep", "-P", agent).split()
    check(kids, "the agent has executors")
    step = job(m)["step"]
    m.ok("kill", "-KILL", agent)
    until("executors die with their agent", lambda: not [k for k in kids if m.call(
        "grep", "-q", "^State:.[^ZX]", "/proc/%s/status" % k).returncode == 0])
    until("it is back and trains", lambda: m.shows("hspmd-worker", "MainPID") not in ("0", agent) and
          job(m)["state"] == "running" and job(m)["step"] > step + 5, 60)

    m.ok("systemctl", "stop", "hspmd-worker")
    check(m.shows("hspmd-worker", "Result") == "success", "the agent leaves in order")
    check(m.ok("find", "/dev/shm", "-name", "agent.lock").strip(), "nobody cleans /dev/shm when the service stops")
    m.ok("systemctl", "reload", "hspmdd")
    check(m.shows("hspmdd", "ActiveState") == "active", "a reload is no restart")
    m.ok("systemctl", "stop", "hspmdd")
    check(m.shows("hspmdd", "Result") == "success", "hspmdd ends in order")
    m.ok("sh", "-c", "echo 'lisen: x' >/etc/hspmd/hspmdd.yaml")
    check(m.call("systemctl", "start", "hspmdd").returncode != 0, "a wrong configuration does not start")
    check(m.shows("hspmdd", "ExecMainStatus") == "6" and m.shows("hspmdd", "ActiveState") == "failed", "nor again")


def main():
    if sys.argv[1:2] == ["--inner"]:
        return inner(*sys.argv[2:4])
    if sys.argv[1:2] == ["--ask"]:
        return ask()
    for p in ("hspmdd", "hspmd-worker", "hspmdctl"):
        path = os.path.join(BUILD, p)
        if not os.access(path, os.X_OK):
            print("%s is not built" % p)
            return 77
        with open(path, "rb") as f:
            if any(s in f.read() for s in (b"__asan_init", b"__tsan_init", b"__ubsan_handle")):
                print("a sanitizer needs calls that the units refuse")
                return 77
    if os.geteuid() != 0 or not os.path.exists("/lib/systemd/systemd") or not os.path.isdir(CGROUP):
        print("needs root, systemd and the cgroup hierarchy name=systemd")
        return 77
    sys.path.insert(0, os.path.join(SRC, "tests/claims/lib"))
    import gpu
    nccl = (gpu.libraries("libnccl.so.2") or [""])[0]
    at, m = tempfile.mkdtemp(prefix="hspmd-service-"), None
    try:
        m = Machine(at, nccl)
        skipped = left_open(m, nccl)
        run(m)
    except Absent as e:
        print("cannot be made here: %s" % e)
        return 77
    except Exception:
        traceback.print_exc()
        if m is not None:
            print(m.words()[-3000:])
            print(m.call("cat", "/run/answer-errors").stdout)
            for name in ("hspmdd", "hspmd-worker"):
                print(m.call("systemctl", "status", "-n0", name).stdout)
                print(m.call("tail", "-n", "25", "/run/log-%s.service" % name).stdout)
        return 1
    finally:
        if m is not None:
            m.close()
        shutil.rmtree(at, ignore_errors=True)
    if skipped:
        print(skipped)
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
