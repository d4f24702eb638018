#!/usr/bin/env python3
"""Makes GPUs sick, by a library of NVML that takes its events from a file: a job trains on two GPUs
of one node and one of another; a warning changes nothing; memory errors move its work away in
order; one that falls off the bus is lost, and its sealed state is served without it; the end is
that of calm training. A node without NVML comes up with one line."""
import json
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from gpu import MOCKDEVS, Gpus
from train import Training, left_over
from wire import LIMIT, check, until
from world import BUILD, main

NVML = os.path.join(BUILD, "tests", "lib", "fakenvml")
TWO = "{kind: cuda, index: 0, memory: 512MiB}, {kind: cuda, index: 1, memory: 512MiB}"


class Watched(Gpus):
    def watched(self, name, devices, script):
        """An agent whose driver's library is a fake that reads the file @script."""
        self.write(script, "gpu 2\ngpu 1\nlinks 0 1 4\n")  # NVML counts them the other way round
        both = MOCKDEVS + ":" + NVML
        return self.node(name, devices, mockdevs=False, LD_LIBRARY_PATH=both, HSPMD_PLUGINS=MOCKDEVS,
                         HSPMD_FAKENVML=self.path(script))

    def happens(self, script, line):
        with open(self.path(script), "a") as f:
            f.write(line + "\n")

    def device(self, node, index):
        return self.nodes()[node]["devices"][index]

    def health(self, node, index, word):
        return until("%s/%d is %s" % (node, index, word),
                     lambda: (lambda d: d if d["health"] == word else None)(self.device(node, index)))


def identity(w):
    """Users see NVML's word on the GPUs, in CUDA's numbers."""
    n = until("beta is up", lambda: w.up("beta"))
    check([d["uuid"] for d in n["devices"]] == ["GPU-fake-1", "GPU-fake-0"], "matched by their places: %r" % n)
    check(n["devices"][0]["compute_capability"] == "9.0", "compute capability: %r" % n)
    path, = n["paths"]  # kind and links by NVML, the rate as measured between the two
    check((path["devices"], path["kind"], path["links"]) == ([0, 1], "nvlink", 4), "paths: %r" % n)
    check(1e6 < path["bytes_per_second"] < 80e9, "the nominal rate is not what was measured: %r" % path)
    shown = w.ctl("node", "show", "beta")
    check("nvlink: 0-1 (" in shown and "NVIDIA Fake" in shown, "node show: %s" % shown)


def trouble(w, t):
    """A word, an order to leave, a loss; returns the epochs that followed."""
    t.reach(20)
    w.happens("beta.gpus", "xid 0 31")  # NVML's 0 is CUDA's 1
    d = w.health("beta", 1, "warned")
    check(d["reason"] == "XID 31: page fault of a kernel" and d["up"], "the warning: %r" % d)
    check("beta/1" in t.status()["devices"], "it works on")
    w.happens("beta.gpus", "uncorrected 0 3")
    w.health("beta", 1, "cordoned")
    until("its work has moved away", lambda: (lambda j: j["state"] == "running" and "next_epoch" not in j and
                                              "beta/1" not in j["devices"] and "beta/0" in j["devices"])(t.status()))
    t.reach(min(t.status()["step"] + 20, t.steps))
    w.happens("beta.gpus", "xid 1 79")
    d = w.health("beta", 0, "lost")
    check(d["reason"] == "XID 79: fallen off the bus", "the loss: %r" % d)
    until("it runs on without", lambda: (lambda j: j["state"] == "running" and j["devices"] == ["gamma/0"])(t.status()))
    listed = w.ctl("node", "list")
    check("0 (lost)" in listed and "1 (cordoned)" in listed and "XID 79: fallen off the bus" in listed, listed)


def run(w):
    w.write("text.txt", "".join("the quick brown fox %d jumps over the lazy dog.\n" % i for i in range(20000)))
    w.daemon()
    w.node("alpha", "{kind: cuda, index: 0, memory: 512MiB}")  # no NVML
    until("alpha is up", lambda: w.up("alpha"))
    line = "the health of GPUs is not watched, their links are not known: no NVML: "
    check(w.log().count(line) == 1, "one line says so")
    calm = Training(w, "calm").end()["loss"]
    until("no state is left", lambda: not left_over(w))
    w.started[-1].terminate()
    check(w.started[-1].wait(LIMIT) == 0, "planned leave of alpha")

    beta = w.watched("beta", TWO, "beta.gpus")
    identity(w)
    w.agent("gamma")
    until("gamma is up", lambda: w.up("gamma"))
    t = Training(w, "stormy")
    t.on("beta/1")
    trouble(w, t)
    stormy = t.end()
    check(abs(stormy["loss"] / calm - 1) < 1e-6, "loss %.15g, calm %.15g" % (stormy["loss"], calm))
    causes = [e["cause"] for e in stormy["epochs"]]
    check(any(c.startswith("cordon of beta/1: ") for c in causes), "causes %r" % causes)
    check(any(c == "device beta/0: XID 79: fallen off the bus" for c in causes), "causes %r" % causes)
    cordon = next(e for e in stormy["epochs"] if e["cause"].startswith("cordon of"))
    check(cordon["lost_steps"] == 0, "in order: %r" % cordon)
    words = [json.loads(l)["type"] for l in w.ctl("events", "-o", "jsonl").splitlines()]
    for word in ("device.warn", "device.cordon", "device.lost", "device.drained"):
        check(word in words, "%s in %r" % (word, words))
    beta.terminate()
    check(beta.wait(LIMIT) == 0, "planned leave of beta")


if __name__ == "__main__":
    sys.exit(main(Watched, run, ["hspmdd", "hspmd-worker", "tests/lib/mockdevgpu/hspmd-cuda.so",
                                 "tests/lib/fakenvml/libnvidia-ml.so.1"], "GPUs that are not well are left"))
