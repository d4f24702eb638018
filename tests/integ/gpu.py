#!/usr/bin/env python3
"""Devices of kind cuda, by a plugin whose GPUs are mockdevs: a job trains on them, an executor is
killed, a GPU fails, one joins and another leaves; the end is that of CPUs. A node whose GPU cannot
be used comes up with its other devices."""
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from join import World
from train import Training, left_over
from wire import LIMIT, check, children, until
from world import BUILD, main

# so that two devices are worth it under any measured rate of their link
MUCH = {"global_batch": 64}
MOCKDEVS = os.path.join(BUILD, "tests", "lib", "mockdevgpu")


class Gpus(World):
    def node(self, name, devices, mockdevs=True, **env):
        """An agent that has these devices; without @mockdevs there is no driver."""
        self.write(name + ".yaml", "node: %s\ncoordinator: 127.0.0.1:%d\nstate_dir: %s\nkey: %s\ndevices: [%s]\n"
                   % (name, self.tcp, self.path("segments"), self.path("worker.key"), devices))
        if mockdevs:
            env.update(LD_LIBRARY_PATH=MOCKDEVS, HSPMD_PLUGINS=MOCKDEVS)
        return self.spawn("hspmd-worker", name + ".yaml", **env)


def without_a_gpu(w):
    """One line says why, and the CPU beside it is there."""
    p = w.node("delta", "{kind: cuda, index: 0, memory: 512MiB}, {speed: 0.5, memory: 64MiB}", mockdevs=False,
               HSPMD_PLUGINS=w.dir)
    n = until("delta is up", lambda: w.up("delta"))
    check(n["devices"][0]["kind"] == "cuda" and n["devices"][0]["memory_bytes"] == 0 and
          n["devices"][0]["health"] == "lost", "it is lost: %r" % n)
    check(n["devices"][1]["kind"] == "cpu" and n["devices"][1]["memory_bytes"] == 64 << 20, "the CPU is: %r" % n)
    lines = [l for l in w.log().splitlines() if "device 0 cannot be used: no GPU: " in l]
    check(len(lines) == 1, "the reason, once: %r" % lines)
    p.terminate()
    check(p.wait(LIMIT) == 0, "planned leave of delta")


def run(w):
    w.write("text.txt", "".join("the quick brown fox %d jumps over the lazy dog.\n" % i for i in range(20000)))
    w.daemon()
    without_a_gpu(w)
    cpu = w.agent("alpha")
    until("alpha is up", lambda: w.up("alpha"))
    calm = Training(w, "calm", train=MUCH).end()["loss"]
    until("no state is left", lambda: not left_over(w))
    cpu.terminate()
    check(cpu.wait(LIMIT) == 0, "planned leave of alpha")

    fail = w.path("fail")
    a = w.node("beta", "{kind: cuda, index: 0, memory: 512MiB, speed: 1}", HSP_MOCKDEV_FAIL=fail)
    w.node("gamma", "{kind: cuda, index: 1, memory: 512MiB}")
    n = until("beta is up", lambda: w.up("beta"))["devices"][0]
    until("gamma is up", lambda: w.up("gamma"))
    check(n["kind"] == "cuda" and n["memory_bytes"] == 480 << 20, "what it offers: %r" % n)
    check("device 0: GPU 0, mockdev at 0000:01:00.0" in w.log(), "what it is")
    t = Training(w, "stormy", least=2, train=MUCH)
    t.reach(20)
    with open(fail, "w") as f:  # of the next executor's work
        f.write("4000")
    os.kill(children(a.pid)[0], 9)
    until("a GPU fails", lambda: "device 0 has failed: mockdev: the device failed" in w.log())
    until("it is told", lambda: "executor 0: its GPU failed (exit 4)" in w.log())
    t.reach(min(t.status()["step"] + 20, t.steps))
    w.node("epsilon", "{kind: cuda, index: 0, memory: 512MiB}")
    until("epsilon is up", lambda: w.up("epsilon"))
    a.terminate()
    check(a.wait(LIMIT) == 0, "planned leave of beta")
    t.on("epsilon/0")
    stormy = t.end()
    check(abs(stormy["loss"] / calm - 1) < 1e-6, "loss %.15g, of CPUs %.15g" % (stormy["loss"], calm))
    check(len(stormy["epochs"]) >= 4, "epochs %r" % stormy["epochs"])


if __name__ == "__main__":
    sys.exit(main(Gpus, run, ["hspmdd", "hspmd-worker", "tests/lib/mockdevgpu/hspmd-cuda.so"], "GPUs train like CPUs"))
