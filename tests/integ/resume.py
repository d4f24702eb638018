#!/usr/bin/python3
"""Resumes a job whose nodes share no folder: its checkpoints are whole on two of three nodes, any
one node may go, and a resume from the rest brings it to the end of an undisturbed device. Every
node also has checkpoints of a former job of the same name and data, of the same steps: none of them
is ever taken, also not when nothing else is there."""
import json
import os
import shutil
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403

STEPS, EVERY = 80, 20


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


def submit(c, claim, job, name, text, plans, **train):
    """Of job apart, under any file name."""
    path = write_job(claim, job, name, text, annotations=plans, **train)
    with open(path) as f:
        job = json.load(f)
    job["name"] = "apart"
    job["checkpoint"] = {"path": "/proc/self/cwd/ckpt", "shared": False, "every_steps": EVERY, "keep": 2}
    with open(path, "w") as f:
        json.dump(job, f)
    c.submit(path)


def latest(c):
    """The job as status has it, which also has the former one."""
    return [j for j in c.status()["jobs"] if j["name"] == "apart"][-1]


def content(c, node, step):
    """Of a checkpoint in a node's folder, as its manifest says."""
    with open(os.path.join(c.folder(node), "ckpt/apart/step-%010d/manifest.json" % step)) as f:
        return json.load(f)["content"]


def leave_former(c, names):
    """The checkpoints of a job that is over in the folders of all."""
    at = {n: os.path.join(c.folder(n), "ckpt", "apart") for n in names}
    # each has run it, not all write
    has = {n: any(f.startswith("step-") for f in os.listdir(at[n])) for n in names}
    first = next(n for n in names if has[n])
    for n in names:
        if not has[n]:
            shutil.copytree(at[first], at[n], dirs_exist_ok=True)


def resume_without_it(c, node, step):
    """The only node that has it has it not: the job waits, and says why; it goes on when it is
    there again."""
    it = os.path.join(c.folder(node), "ckpt/apart/step-%010d" % step)
    os.rename(it, it + "-away")
    c.ctl("resume", "apart")
    wait_for("the job to say what it waits for", lambda: (
        "checkpoint %d cannot be used: no connected node has it: waiting for a node that has it" % step
        in (latest(c).get("reason") or "")), 30, poll=0.2)
    os.rename(it + "-away", it)


def body(claim):
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["model"].update(hidden=32, sequence=32)
    job["train"].update(steps=STEPS, global_batch=9)
    job["resources"] = {"min": 1, "max": 3}
    # the third rank keeps a box of each half that the other two have: homes of several boxes
    plans = [write_plan(claim, {"ranks": 3, "zero": 1, "zero_pattern": "interleaved", "pipelines": [
        {"sequences": 6, "micro_batches": 2, "stages": [{"layers": 3, "ranks": [0, 1]}]},
        {"sequences": 3, "micro_batches": 2, "stages": [{"layers": 3, "ranks": [2]}]}]}, "tp3"),
             write_plan(claim, {"ranks": 2, "zero": 1, "pipelines": [
                 {"sequences": 5 - r, "micro_batches": 2, "stages": [{"layers": 3, "ranks": [r]}]}
                 for r in range(2)]}, "dp2")]
    reference, _ = run_offline(claim, write_job(claim, job, "one", text), "one")
    with Folders(claim) as c:
        names = c.start_workers([1.0, 1.0, 1.0])
        submit(c, claim, job, "former", text, plans, steps=2 * EVERY + 1)
        c.wait_done("apart", 60)
        leave_former(c, names)
        former = content(c, names[0], 2 * EVERY)
        submit(c, claim, job, "apart", text, plans)
        wait_for("checkpoint %d of the second job" % (2 * EVERY),
                 lambda: (latest(c).get("checkpoint_step") or 0) >= 2 * EVERY, 60)
        c.ctl("cancel", "apart")
        have = {n: c.checkpoints(n, "apart") for n in names}
        step = latest(c).get("checkpoint_step")
        if step != 2 * EVERY:
            raise Failed("checkpoint %d, the former job has %d" % (step, 2 * EVERY))
        holders = [n for n in names if content(c, n, step) != former]
        if len(holders) != 2 or len({content(c, n, step) for n in holders}) != 1:
            raise Failed("checkpoints on two nodes: %r" % have)
        if not all(x["good"] and x["files"] == 1 and x["bytes"] > 0 for n in holders for x in have[n].values()):
            raise Failed("good ones: %r" % have)
        c.kill_agent(holders[0])
        wait_for("the node to be gone", lambda: c.node_state(holders[0]) != "ready", 20)
        resume_without_it(c, holders[1], step)
        c.wait_done("apart", 90)
        resumed = [e for e in c.events("apart") if e["type"] == "admin.resume"]
        if not resumed or latest(c)["step"] != STEPS:
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
    return distance <= 1e-9, {"loss": distance, "resumed_from": step}


Claim("resume").run(body)
