"""Finds and ends the processes that came of one run, also those in sessions of their own and those
whose parent is gone: all carry its mark in their environment."""
import os
import signal
import time
import uuid

VARIABLE = "HSPMD_RUN"  # marks, the outermost first


def new(env):
    """A mark for all that is started with @env from now on, behind those that it carries."""
    mark = uuid.uuid4().hex
    env[VARIABLE] = ":".join(filter(None, [env.get(VARIABLE), mark]))
    return mark


def marked(mark):
    """Process ids, without our own."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                env = f.read().split(b"\0")
        except OSError:
            continue
        if int(pid) != os.getpid() and any(e.startswith(VARIABLE.encode() + b"=") and mark.encode() in e for e in env):
            out.append(int(pid))
    return out


def end(mark, seconds=10):
    """Kills them until there are none; those that are left after @seconds (a driver that hangs
    keeps its process)."""
    late = time.monotonic() + seconds
    while True:
        pids = marked(mark)
        if not pids or time.monotonic() > late:
            return pids
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
