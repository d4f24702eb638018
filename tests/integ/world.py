"""Makes a private folder with processes in it, and begins and ends a test of whole programs.

join.py adds hspmdd with agents, ctl.py the commands, agent.py a coordinator of its own."""
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback

sys.path.append(os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from store import begin  # noqa: E402
from wire import LIMIT, check

BUILD = os.path.abspath(os.environ.get("HSPMD_BUILD", "build"))


class Folder:
    """Everything below one folder; all started processes are ended, and the folder goes."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="hspmd-integ-")
        self.started = []

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def keys(self, *names):
        for k in names:
            os.chmod(self.write(k, secrets.token_hex(32)), 0o600)

    def spawn(self, program, config, log="log", preexec=None, options=None, **env):
        """Starts a program of the build with a configuration; its words go to a file here. @preexec
        runs before it."""
        path = os.path.join(self.dir, config)
        more = options or (begin(path) if program == "hspmdd" else [])
        with open(self.path(log), "ab") as f:
            p = subprocess.Popen([os.path.join(BUILD, program), "--config", path] + more,
                                 stderr=f, stdout=f, stdin=subprocess.DEVNULL, preexec_fn=preexec,
                                 env=dict(os.environ, OPENBLAS_NUM_THREADS="1", **env))
        self.started.append(p)
        return p

    def log(self, name="log"):
        try:
            with open(self.path(name), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def close(self):
        for p in self.started:
            if p.poll() is None:
                p.kill()
            p.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def unread():
    """A service manager's socket that nobody reads, its queue full, and the NOTIFY_SOCKET that
    names it."""
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind("")  # an abstract name of the kernel's choice
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.setblocking(False)
        try:
            while True:
                s.sendto(b"X_FULL=1", manager.getsockname())
        except BlockingIOError:
            return manager, manager.getsockname().decode().replace("\0", "@")


def complete(*words, address="/nonexistent"):
    """The offers of bash for the last word of a hspmdctl command, with hspmdd at @address."""
    script = ("source %s/daemon/ctl/completion/hspmdctl; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($#-1)); _hspmdctl; "
              "printf '%%s\\n' \"${COMPREPLY[@]}\"" % os.environ.get("HSPMD_SRC", "."))
    r = subprocess.run(["bash", "-c", script, "bash", os.path.join(BUILD, "hspmdctl")] + list(words),
                       capture_output=True, text=True, timeout=LIMIT, env=dict(os.environ, HSPMD_ADDRESS=address))
    check(r.returncode == 0 and r.stderr == "", "completion of %s: %r" % (words, r))
    return r.stdout.split()


def main(make, run, programs, passed, lines=100):
    """run(make()); returns the exit status: 77 where a program is not built, 1 with the end of the
    log on failure."""
    for p in programs:
        if not os.access(os.path.join(BUILD, p), os.X_OK):
            print("%s is not built" % p)
            return 77
    # a shell ignores it in background processes
    signal.signal(signal.SIGINT, signal.default_int_handler)
    w = make()
    try:
        run(w)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as e:
        print("failed: %r" % e)
        print("\n".join(w.log().splitlines()[-lines:]))
        traceback.print_exc(file=sys.stdout)
        return 1
    finally:
        w.close()
    print(passed)
    return 0
