#!/usr/bin/python3
"""Runs a job whose parameters are stored cut and gathered for each use (zero 3), under the usual
blows: an executor dies, an agent with its node, the coordinator starts again, a node is drained,
one joins, the job is canceled and resumed from its checkpoint. The job goes to zero 0, 1 and back.
Losses are those of one undisturbed device, checkpoints are good."""
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403

STEPS, EVERY = 160, 20


def pipeline(sequences, micro, *stages, **more):
    """@stages: (layers, ranks)."""
    return dict({"sequences": sequences, "micro_batches": micro,
                 "stages": [{"layers": n, "ranks": r} for n, r in stages]}, **more)


def annotations(claim):
    """For four devices, three, two and one. Four: two stages beside pipelines of one
    stage; three and two: all the model on each."""
    deep = pipeline(6, 4, (2, [0]), (1, [1]))
    deep["stages"][1]["saved"] = "recompute"
    plans = {"four": {"ranks": 4, "zero": 3, "pipelines": [deep, pipeline(3, 1, (3, [2])), pipeline(3, 3, (3, [3]))]},
             "three": {"ranks": 3, "zero": 3, "zero_pattern": "interleaved", "pipelines": [
                 pipeline(7, 2, (3, [0, 2])), pipeline(5, 3, (3, [1]))]},
             "two": {"ranks": 2, "zero": 1, "pipelines": [pipeline(6, 2, (3, [0])), pipeline(6, 2, (3, [1]))]},
             "one": {"ranks": 1, "pipelines": [pipeline(12, 3, (3, [0]))]}}
    return [write_plan(claim, plan, name) for name, plan in plans.items()]


def settled(c, n, after):
    """The job runs on @n devices, in an epoch behind @after; which one."""
    def look():
        j = c.job("gathered")
        return j if j["state"] == "running" and len(j["devices"]) == n and j["epoch"] > after else None
    j = wait_for("gathered on %d devices" % n, look, 40)
    c.wait_step("gathered", j["step"] + 4, 60)
    return j["epoch"]


def shown(c, zero):
    """The plan that runs is the one that was stated."""
    plan = c.ctl("plan", "show", "gathered").stdout
    if "\nzero: %d\n" % zero not in plan:
        raise Failed("another plan: %s" % plan[:300])


def disturbed(c):
    four = settled(c, 4, 0)
    shown(c, 3)
    c.kill_executor("w1")  # the device comes again
    at = wait_for("the loss", lambda: (lambda e: e if e > four else None)(c.job("gathered")["epoch"]), 40)
    at = settled(c, 4, at - 1)
    c.kill_agent("w2")
    at = settled(c, 3, at)
    shown(c, 3)
    c.kill_daemon()
    c.start_daemon()
    c.wait_step("gathered", EVERY + 2, 60)
    c.ctl("scale", "gathered", "--max", 3)  # a fourth one measures itself, for later
    c.start_worker("late", wait=False)
    for devices, zero in ((1, 0), (3, 3), (2, 1)):
        c.ctl("scale", "gathered", "--max", devices)
        at = settled(c, devices, at)
        shown(c, zero)
    c.drain("w0")
    c.ctl("scale", "gathered", "--max", 3)
    settled(c, 3, at)
    c.ctl("cancel", "gathered")
    c.ctl("resume", "gathered")
    c.wait_done("gathered", 120)


def body(claim):
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["model"].update(hidden=16)
    job["resources"] = {"min": 1, "max": 4}
    job["checkpoint"] = {"every_steps": EVERY}
    reference, _ = run_offline(claim, write_job(claim, job, "undisturbed", text, steps=STEPS), "undisturbed")
    with Cluster(claim) as c:
        c.start_workers([0.3] * 4)  # slow enough for all that happens to it
        c.submit(write_job(claim, job, "gathered", text, annotations(claim), steps=STEPS))
        disturbed(c)
        worst = loss_distance(reference, c.metrics("gathered"), STEPS)
        found = json.loads(c.ctl("ckpt", "verify", os.path.join(claim.dir, "out", "gathered"), "-o", "json").stdout)
    if not found["checkpoints"] or not all(x["good"] for x in found["checkpoints"]):
        raise Failed("checkpoints: %r" % found)
    return worst <= 1e-9, {"loss": worst, "checkpoints": len(found["checkpoints"])}


Claim("gathered").run(body)
