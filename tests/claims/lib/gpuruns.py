"""Serves the GPU claims: finds the GPU or says why there is none, runs on a device, makes weights,
and runs the peers in PyTorch."""
import array
import json
import os
import re
import subprocess

import gpu
import peer
from harness import *  # noqa: F403

DEVICE, TORCH_DEVICE = "cuda:0", "cuda"
Cluster.state_bytes = 2 << 30  # noqa: F405 - models of GPUs are larger


def need_gpu():
    """The first GPU, {name, bytes, sm}; Unjudged where our programs cannot use one."""
    seen = gpu.look()
    if "missing" in seen:
        raise Unjudged(seen["missing"])
    if gpu.plugin(BUILD) is None:
        raise Unjudged("the CUDA backend, which %s does not have (nvcc, configure --with-cuda)" % BUILD)
    first = seen["gpus"][0]
    r = call(prog("hspmd-worker"), "--probe-device", DEVICE, check=False)
    refused(r.stderr)
    if r.returncode == 0 and json.loads(r.stdout)["name"] != first["name"]:  # a stand-in, for tests
        raise Unjudged("a plugin for this GPU: %s, which ours calls %s" % (first["name"], json.loads(r.stdout)["name"]))
    say("%s, %.0f GiB, sm_%d, driver with CUDA %s" % (first["name"], first["bytes"] / 2**30, first["sm"], seen["cuda"]))
    return first


def need_torch():
    """The interpreter whose PyTorch sees the GPU."""
    python, version = gpu.torch_python()
    if python is None:
        raise Unjudged(version)
    say("PyTorch %s" % version)
    return python


def refused(text):
    """Unjudged where a program says that it cannot use the GPU: a library is missing, the driver is
    too old."""
    m = re.search(r"no GPU: (.*)", text)
    if m:
        raise Unjudged("a GPU that our programs can use: " + m.group(1))


def compile_job(claim, path, name, plan=None):
    program = os.path.join(claim.dir, name + ".prog")
    r = call(prog("hspmdctl"), "compile", path, "-o", program, *(["--plan", plan] if plan else []), check=False)
    if r.returncode in (6, 7) and is_own():
        raise Unjudged("another job or text: %s" % r.stderr.strip()[-250:])
    if r.returncode != 0:
        raise Failed("hspmdctl compile of %s: exit %d: %s" % (name, r.returncode, r.stderr.strip()[-300:]))
    return program


def train(claim, program, name, device, steps, *more, env=None):
    """hspmd-worker --run on a device; the metrics of its steps."""
    metrics = os.path.join(claim.dir, name + ".jsonl")
    r = call(prog("hspmd-worker"), "--run", program, "--device", device, "--steps", steps,
             "--metrics", metrics, "--quiet",
             *more, timeout=max(30, claim.left()), env=env, check=False)
    refused(r.stderr)
    if r.returncode != 0:
        raise Failed("%s on %s: exit %d: %s" % (name, device, r.returncode, r.stderr.strip()[-300:]))
    return read_jsonl(metrics)


def one_device(claim, job, name, micro_batches=1):
    """A plan for one rank."""
    return write_plan(claim, {"ranks": 1, "pipelines": [
        {"sequences": job["train"]["global_batch"], "micro_batches": micro_batches,
         "stages": [{"layers": job["model"]["layers"], "ranks": [0]}]}]}, name)


# ---- weights and windows for both sides ----------------------------------------------------------

def shapes(claim, job, text, name):
    """Parameters of a job, name -> shape, as its model of a step is written."""
    program = compile_job(claim, write_job(claim, job, name, text, steps=1), name)
    out = os.path.join(claim.dir, name + ".out")
    train(claim, program, name, "cpu", 1, "--out", out)
    return {k: s for k, (s, _) in peer.load_tensors(out + "/final/model.safetensors").items()}


def is_norm(name):
    return ".ln_" in name or "norm" in name or name.startswith("ln_f")


def draw_weights(claim, job, text, name):
    """A safetensors file of first weights, no bias or norm at its usual place; its path."""
    tensors = {}
    for k, shape in shapes(claim, job, text, name + "-shapes").items():
        n = 1
        for e in shape:
            n *= e
        center = 1.0 if is_norm(k) and k.endswith("weight") else 0.0
        tensors[k] = (shape, array.array("f", (claim.random.gauss(center, 0.02) for _ in range(n))))
    path = os.path.join(claim.dir, name + ".init.safetensors")
    peer.save_tensors(path, tensors)
    return path


def write_windows(claim, job, data, steps, name):
    """The tokens that both sides read in each step: int32, steps x batch x (sequence + 1)."""
    batches = peer.Batches(job, data)
    path = os.path.join(claim.dir, name + ".windows")
    with open(path, "wb") as f:
        for t in range(steps):
            for w in batches.train(t):
                f.write(array.array("i", w).tobytes())
    return path


# ---- PyTorch -------------------------------------------------------------------------------------

class Peer:
    """lib/torch_gpu.py in a process of its own. Its answers come from result(), one JSON object a
    line."""

    def __init__(self, claim, python, name, spec):
        self.claim, self.name = claim, name
        path = os.path.join(claim.dir, name + ".json")
        with open(path, "w") as f:
            json.dump(spec, f)
        self.log = os.path.join(claim.dir, name + ".log")
        env = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=os.path.join(claim.dir, "inductor"))
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [python, os.path.join(ROOT, "tests/claims/lib/torch_gpu.py"), path], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True, env=env)

    def result(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        with open(self.log, errors="replace") as f:
            text = f.read().strip()
        if "OutOfMemoryError" in text or "CUDA out of memory" in text:
            raise Unjudged("a GPU with more memory: PyTorch has run out of it (%s)" % self.name)
        raise Failed("PyTorch ended with status %s: %s" % (self.process.wait(), text[-300:]))

    def ask(self, steps):
        """{seconds: of one step, loss: of the last} of @steps more steps."""
        self.process.stdin.write("%d\n" % steps)
        self.process.stdin.flush()
        return self.result()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Peers(list):
    """The peers of a `with`: all have ended behind it."""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for p in self:
            p.end()
