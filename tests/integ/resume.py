#!/usr/bin/python3
"""A job whose nodes share no folder: its checkpoints are whole on two of three nodes, any one node may go, and a
resume from what is left brings it to the end of an undisturbed device."""
import json
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403

STEPS, EVERY = 120, 20


class Folders(Cluster):
    """Each worker in a folder of its own, so /proc/self/cwd/ckpt is another disk for each."""

    def folder(self, name):
        return os.path.join(self.dir, "at-" + name)

    def spawn(self, name, args):
        before = os.getcwd()
        os.makedirs(self.folder(name), exist_ok=True)
        os.chdir(self.folder(name))
        try:
            return super().spawn(name, args)
        finally:
            os.chdir(before)

    def checkpoints(self, name, job):
        """hspmdctl ckpt verify of a node's own folder: {step: its line}; none there: {}."""
        r = self.ctl("ckpt", "verify", os.path.join(self.folder(name), "ckpt", job), "-o", "json", check=False)
        return {x["step"]: x for x in json.loads(r.stdout)["checkpoints"]} if r.stdout else {}


def body(claim):
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["model"].update(hidden=32, sequence=32)
    job["train"].update(steps=STEPS, global_batch=9)
    job["resources"] = {"min": 1, "max": 3}
    plans = [write_plan(claim, {"ranks": n, "zero": 1, "streams": [
        {"sequences": 9 // n + (r < 9 % n), "micro_batches": 2, "stages": [{"layers": 3, "ranks": [r]}]}
        for r in range(n)]}, "dp%d" % n) for n in (3, 2)]
    reference, _ = run_offline(claim, write_job(claim, job, "one", text), "one")
    path = write_job(claim, job, "apart", text, annotations=plans)
    with open(path) as f:
        job = json.load(f)
    job["checkpoint"] = {"path": "/proc/self/cwd/ckpt", "shared": False, "every_steps": EVERY, "keep": 2}
    with open(path, "w") as f:
        json.dump(job, f)
    with Folders(claim) as c:
        names = c.start_workers([1.0, 1.0, 1.0])
        c.submit(path)
        c.wait_step("apart", 2 * EVERY + 5, 60)
        c.ctl("cancel", "apart")
        have = {n: c.checkpoints(n, "apart") for n in names}
        holders = [n for n in names if have[n]]
        newest = {n: max(have[n]) for n in holders}
        if len(holders) != 2 or len(set(newest.values())) != 1 or newest[holders[0]] % EVERY:
            raise Failed("checkpoints on two nodes: %r" % have)
        if not all(x["good"] and x["files"] == 1 and x["bytes"] > 0 for n in holders for x in have[n].values()):
            raise Failed("good ones: %r" % have)
        c.kill_agent(holders[0])
        wait_for("the node to be gone", lambda: c.node_state(holders[0]) != "ready", 20)
        c.ctl("resume", "apart")
        c.wait_done("apart", 60)
        resumed = [e for e in c.events("apart") if e["type"] == "admin.resume"]
        if not resumed or c.job("apart")["step"] != STEPS:
            raise Failed("resumed: %r" % c.events("apart"))
        distance = loss_distance(reference, c.metrics("apart"), STEPS)
        shard = next(os.path.join(at, f) for at, _, files in os.walk(os.path.join(c.folder(holders[1]), "ckpt"))
                     for f in files if f.startswith("shard-"))
        with open(shard, "r+b") as f:
            f.seek(-5, os.SEEK_END)
            byte = f.read(1)[0]
            f.seek(-5, os.SEEK_END)
            f.write(bytes([byte ^ 16]))
        bad = [x for x in c.checkpoints(holders[1], "apart").values() if not x["good"]]
        if len(bad) != 1 or os.path.basename(shard) not in bad[0]["reason"]:
            raise Failed("damaged: %r" % bad)
    return distance <= 1e-9, {"loss": distance, "resumed_from": newest[holders[0]]}


Claim("resume").run(body)
