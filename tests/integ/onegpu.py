#!/usr/bin/env python3
"""Runs the claim one-gpu-demo on a GPU that is not there (tests/lib/mockdevgpu): its own story,
four executors of one GPU with memory of their own, a worker and an executor killed, a drain, a
join, hspmdd killed, and its judgement of the losses. The claim itself is never judged by such a
GPU.
Devices of one node that want more than their GPU has get a part each."""
import json
import os
import subprocess
import sys
from unittest import mock

sys.dont_write_bytecode = True  # the source tree stays as it is
SRC = os.path.abspath(os.environ.get("HSPMD_SRC", "."))
BUILD = os.path.abspath(os.environ.get("HSPMD_BUILD", "build"))
MOCKDEVS = os.path.join(BUILD, "tests", "lib", "mockdevgpu")
NEEDED = ["hspmdd", "hspmd-worker", "hspmdctl", "tests/lib/mockdevgpu/hspmd-cuda.so"]
sys.path.insert(0, os.path.join(SRC, "tests", "claims", "lib"))
import gpuruns  # noqa: E402
import harness  # noqa: E402
import onegpu  # noqa: E402
from report import Claim, Failed, Unjudged, say  # noqa: E402

# the longest, of a quarter of the work: a step takes more than a tenth of a second, hardly any of
# it of a processor
DELAY_US = "3000"
# The learning rate: sums of a step in another order change the losses by 5e-9 in fp32; at 1e-3 by
# 2e-4, and at 3e-3 (in fp64: 2e-8) nothing is left in common after 60 steps: of such a job the
# bound of the claim says nothing.
JOB = {"apiVersion": "hspmd/v1", "name": "demo",
       "model": {"family": "gpt", "layers": 4, "hidden": 32, "heads": 2, "vocab": 256,
                 "sequence": 32, "tied_head": True},
       "data": {"path": "", "format": "text", "validation_fraction": 0.05, "validation_every": 50},
       "train": {"steps": 100, "global_batch": 8, "seed": 1, "clip_norm": 1.0, "dtype": "fp32", "compute": "bf16",
                 "optimizer": {"name": "adamw", "lr": 3e-4}, "schedule": {"name": "constant", "warmup_steps": 10}},
       "resources": {"min": 1, "max": 8}, "checkpoint": {"path": "", "every_steps": 0}}


def check(cond, what):
    if not cond:
        raise Failed(what)


def never_a_gpu(claim):
    """With a driver and a plugin that are stand-ins; and with a driver that is none."""
    r = subprocess.run([sys.executable, os.path.join(SRC, "tests", "claims", "one-gpu-demo")],
                       capture_output=True, text=True,
                       timeout=300)
    last = json.loads(r.stdout.splitlines()[-1])
    check(r.returncode == 77 and last["claim"] == "one-gpu-demo" and last["holds"] is None
          and last["figures"]["missing"],
          "the claim with a GPU that is not there: %r" % r)
    seen = {"gpus": [{"name": "NVIDIA H200", "bytes": 141 << 30, "sm": 90}], "cuda": "13.0"}
    with mock.patch("gpu.look", return_value=seen), mock.patch("gpu.plugin", return_value=MOCKDEVS):
        try:
            gpuruns.need_gpu()
        except Unjudged as e:
            return check("mockdev" in str(e), "why it is not judged: %s" % e)
    raise Failed("a plugin that is a stand-in was taken for one")


def parts_of_a_gpu(claim):
    """Two devices of one node that may take more than their GPU has, together."""
    with harness.Cluster(claim, "parts") as c:
        c.start_worker("w", [{"kind": "cuda", "index": 0, "memory": m} for m in ("3600MiB", "1200MiB")])
        d = c.nodes()["w"]["devices"]
        total = sum(x["memory_bytes"] for x in d)
        check(2800 << 20 < total <= 4032 << 20 and abs(d[0]["memory_bytes"] / d[1]["memory_bytes"] - 3) < 0.1,
              "what they offer: %r" % d)
        with open(c.logs["w"]) as f:
            check("GPU 0 has 4096 MiB, not 4800" in f.read(), "it is said")


def slowly(*args, together=onegpu.together):
    """Four by GPUs whose work is late: a node that joins measures its device for seconds, however
    fast the machine is, and a step that only computed would let the job end before."""
    with mock.patch.dict(os.environ, HSP_MOCKDEV_DELAY=DELAY_US):
        return together(*args)


def body(claim):
    os.environ.update(LD_LIBRARY_PATH=MOCKDEVS, HSPMD_PLUGINS=MOCKDEVS)
    for name in ("HSPMD_JOB", "HSPMD_TEXT", "HSPMD_LIMIT"):
        os.environ.pop(name, None)
    never_a_gpu(claim)
    parts_of_a_gpu(claim)
    harness.make_text(claim)
    with mock.patch.multiple(onegpu, STEP_SECONDS=0.01, together=slowly):
        holds, figures = onegpu.story(claim, JOB, "cuda:0", onegpu.share(4 << 30))
    check(figures["trained_by"] >= 4, "who trained: %r" % figures)
    return holds, figures


if __name__ == "__main__":
    for n in NEEDED:
        if not os.path.exists(os.path.join(BUILD, n)):
            say("%s is not built" % n)
            sys.exit(77)
    Claim("one-gpu-demo on a stand-in").run(body)
