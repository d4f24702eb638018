#!/usr/bin/env python3
"""Asks whether hspmd works on this GPU at all (first light). About five minutes, one page.

In this order, since each is worth less where the one before fails: does the device open;
device_test with two seeds; which calls of CUDA block while kernels wait; attention and products
beside PyTorch's; how NCCL starts. Each program has a limit of its own, and a failure of one does
not end the rest. Full outputs go to the folder HSPMD_LOGS, else to a new one among the temporary
files, which the page names.

77 without a GPU, without the CUDA backend, and where something is missing that a program needs.
"""
import collections
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "claims", "lib")]
import gpu  # noqa: E402
import page  # noqa: E402
from report import BUILD, Claim, Unjudged, say  # noqa: E402

TOTAL_SECONDS = 360
KILL_SECONDS = 5
TEXT_BYTES = 4 << 20
SUITE = "tests/unit/worker/backend/device_test"
SHAPES = os.path.join(HERE, "shapes.txt")
LIBRARIES = ("libcuda.so", "libcublasLt.so", "libcudnn.so", "libnccl.so", "libcupti.so")
CUDA_SETTINGS = ("CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS")
VERSIONS = ("import torch; print('PyTorch', torch.__version__, 'CUDA', torch.version.cuda,"
            " 'cuDNN', torch.backends.cudnn.version(), 'NCCL', '.'.join(map(str, torch.cuda.nccl.version())))")

# env: None takes a variable away.
Step = collections.namedtuple("Step", "name seconds args env")
LOG = "outputs.log"  # one file for all outputs: some machines can send back only one


def steps(seeds, python):
    """The programs to run, in order; python: the interpreter whose PyTorch sees the GPU, or
    None."""
    suite = [Step("device_test, seed %d" % s, 60, [os.path.join(BUILD, SUITE)],
                  {"HSPMD_SEED": str(s), "CMOCKA_MESSAGE_OUTPUT": "stdout"}) for s in seeds]
    calls = os.path.join(BUILD, "tests/gpu/blocking_calls")
    return [Step("probe", 30, [os.path.join(BUILD, "hspmd-worker"), "--probe-device", "cuda:0"], {})] + suite + [
        Step(page.AS_HSPMD, 45, [calls], dict(zip(CUDA_SETTINGS, ("EAGER", "32")))),
        Step(page.AS_CUDA, 45, [calls], dict.fromkeys(CUDA_SETTINGS)),
        Step("op_speed", 60, [os.path.join(BUILD, "tests/gpu/op_speed"), SHAPES], {}),
        Step("torch_speed", 90, [python, os.path.join(HERE, "torch_speed.py"), SHAPES], {}),
        Step("netlink", 10, [os.path.join(BUILD, "tests/gpu/netlink_refused")], {})]


# ---- running -------------------------------------------------------------------------------------

def environment(changes):
    env = dict(os.environ, PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1")
    for k, v in changes.items():
        env.pop(k, None)
        env.update({k: v} if v is not None else {})
    return env


def run_to_log(args, env, seconds, log):
    """Runs a program for at most @seconds; its output goes to @log as it is written. Returns (exit
    status, or None if the time was over; seconds taken)."""
    began = time.monotonic()
    p = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                         env=env, start_new_session=True)
    try:
        status = p.wait(seconds)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        try:
            os.killpg(p.pid, signal.SIGKILL)  # also its children
        except ProcessLookupError:
            pass
        try:
            p.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:  # a driver that hangs keeps a process until it is done
            say("   it cannot be killed, and may keep the GPU")
    return status, time.monotonic() - began


def run(step, logs, left):
    """Runs a step for at most @left seconds, and returns its Result."""
    say("%s .." % step.name)
    if step.args[0] is None or not os.access(step.args[0], os.X_OK):
        needs = "PyTorch that sees the GPU" if step.args[0] is None else "%s, which is not built" % step.args[0]
        return page.Result(step.name, page.MISSING, 0, needs)
    if left < 2:
        return page.Result(step.name, page.MISSING, 0, "more time than %d s" % TOTAL_SECONDS)
    try:
        return run_logged(step, os.path.join(logs, LOG), min(step.seconds, left))
    except OSError as e:  # a full disk; a program that cannot be executed
        return page.Result(step.name, page.NOT_RUN, 0, "cannot be run, or its log not be written: %s" % e)


def run_logged(step, path, seconds):
    """Runs a step, and returns its Result. The output of the step is added to the file @path; the
    Result has the last TEXT_BYTES of the output."""
    with open(path, "ab") as log:
        log.write(("\n# %s: %s\n" % (step.name, " ".join(step.args))).encode())
        log.flush()
        start = log.tell()
        status, seconds = run_to_log(step.args, environment(step.env), seconds, log)
    with open(path, "rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(start, size - TEXT_BYTES))
        text = log.read().decode(errors="replace")
    say("   %s, %.1f s" % ("ended, it took too long" if status is None else "exit %d" % status, seconds))
    return page.Result(step.name, status, seconds, text)


# ---- the machine ---------------------------------------------------------------------------------

def output(*args, seconds=20):
    """The output of a program; "" where there is none, or it fails."""
    try:
        return subprocess.run(args, capture_output=True, text=True, errors="replace", timeout=seconds).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def whereabouts(library):
    """The file our programs load for @library (without its version), or where else it lies; None.
    """
    first = [d for d in os.environ.get("HSPMD_LIBRARY_PATH", "").split(":") if d]
    cache = re.findall(r"=> (/\S+/%s\S*)$" % re.escape(library),
                       output(shutil.which("ldconfig") or "/sbin/ldconfig", "-p"), re.M)
    for folders, more in ((first, cache), (gpu.toolkit_folders(), [])):
        found = [p for d in folders for p in sorted(glob.glob(os.path.join(d, library + ".[0-9]*")))]
        if found + more:
            return (found + more)[0]
    return None


def driver_version(smi):
    """As nvidia-smi or the kernel's module says; None."""
    m = re.search(r"Driver Version: *(\S+)", smi)
    if m is None and os.path.exists("/proc/driver/nvidia/version"):
        with open("/proc/driver/nvidia/version", errors="replace") as f:
            m = re.search(r"Module +(\S+)", f.read())
    return m and m.group(1)


def facts(seen, python, torch, logs):
    """[(title, lines)] of the machine; all of it begins the log."""
    smi = output("nvidia-smi")
    where = [(name, whereabouts(name)) for name in LIBRARIES]
    peer = output(python, "-c", VERSIONS, seconds=60).strip() if python else "not here: %s" % torch
    out = [("run", ["%s, hspmd %s" % (time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), commit())]),
           ("driver", ["%s, with CUDA %s" % (driver_version(smi) or "of unknown version", seen["cuda"])]),
           ("libraries", [path or name + " is not here" for name, path in where]),
           ("peer", [peer or "PyTorch " + torch])]
    with open(os.path.join(logs, LOG), "w") as f:
        f.write("\n".join("%s: %s" % (t, "; ".join(lines)) for t, lines in out) + "\n\n" + (smi or "no nvidia-smi\n"))
    return out


def commit():
    """Of which the bundle was made."""
    try:
        with open(os.path.join(BUILD, "MANIFEST.json")) as f:
            return json.load(f)["commit"]
    except OSError:
        return "of a build tree"


def log_folder():
    """A folder for the outputs, which this run owns."""
    try:
        folder = os.environ.get("HSPMD_LOGS") or tempfile.mkdtemp(prefix="hspmd-first-light-")
        os.makedirs(folder, exist_ok=True)
        open(os.path.join(folder, LOG), "w").close()
        return os.path.abspath(folder)
    except OSError as e:
        raise Unjudged("a folder for its logs (HSPMD_LOGS): %s" % e)


def body(claim):
    # a folder that cannot be used is told in a rehearsal, too
    logs = log_folder() if os.environ.get("HSPMD_LOGS") else None
    seen = gpu.look()
    if "missing" in seen:
        raise Unjudged(seen["missing"])
    if gpu.plugin(BUILD) is None:
        raise Unjudged("the CUDA backend, which %s does not have (nvcc, configure --with-cuda)" % BUILD)
    logs = logs or log_folder()
    python, torch = gpu.torch_python(60)
    machine = facts(seen, python, torch, logs)
    seeds = [claim.random.randrange(1, 2**31) for _ in range(2)]
    results = []
    for step in steps(seeds, python):
        try:
            results.append(run(step, logs, claim.left(TOTAL_SECONDS) - 5))
        except Unjudged as e:  # the claim is ended: the page has the part so far
            results.append(page.Result(step.name, page.MISSING, 0, str(e)))
            break
    show(page.page(machine, results, logs), logs)
    return page.verdict(results)


def show(text, logs):
    say(text)
    try:
        with open(os.path.join(logs, "page.txt"), "w") as f:
            f.write(text + "\n")
    except OSError as e:
        say("this page is kept nowhere: %s" % e)


if __name__ == "__main__":
    Claim("first-light").run(body)
