#!/usr/bin/python3
"""Runs a job that seals each fifth version, on two devices, then on one device with a replica
holder. Executors die, a node dies with its memory, a node is drained, hspmdd is killed. The
steps after the newest sealed version are computed again, no more than were announced, with the
same losses; after a drain none is. Another job has three replicas and seals each eighth
version, a third one has two replicas and a replica holder, for three copies, and seals each
24th: executors and a node die between two sealed versions, and no step is computed again."""
import json
import os
import shutil
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403
from killpoints import KillCluster  # noqa: E402

EVERY = 5


def after(c, before, what):
    """Waits until the job runs in a later epoch than in @before, and returns the records of the
    later epochs."""
    def look():
        j = c.job("due")
        return j if j and j["state"] == "running" and j["epoch"] > before["epoch"] else None
    j = wait_for(what, look, 30)
    c.wait_step("due", j["step"] + 2 * EVERY, 60)
    return [e for e in c.job("due")["epochs"] if e["epoch"] > before["epoch"]]


def hit(c, what, do, most):
    before = c.job("due")
    do(before)
    lost = sum(e["lost_steps"] for e in after(c, before, what))
    if lost > most:
        raise Failed("%s: %d steps were computed again, %d were announced" % (what, lost, most))
    return lost


def trains_on(c, key):
    return c.job("due")[key][0].split("/")[0]


def whole(claim, c, steps):
    with open(os.path.join(claim.dir, "out", "due", "final", "metrics.jsonl")) as f:
        written = [json.loads(line)["step"] for line in f]
    for what, got in (("metrics.jsonl", written), ("hspmdctl metrics", [m["step"] for m in c.metrics("due")])):
        if got != list(range(steps)):
            raise Failed("%s lacks %s of %d steps" % (what, sorted(set(range(steps)) - set(got)), steps))


def story(claim, text, job, devices, reference):
    """Runs the job through all disturbances, with at most *devices* devices; with one device,
    another node is its replica holder. Returns the largest relative difference of its losses to the
    reference, and the number of steps that were computed again."""
    job["resources"] = {"min": 1, "max": devices}
    steps, most = job["train"]["steps"], 2 * EVERY - 1
    path = write_job(claim, job, "due", text)
    with Cluster(claim, name="on%d" % devices) as c:
        c.start_workers([0.9, 0.9, 0.9])
        c.submit(path)
        c.wait_step("due", 10, 60)
        wait_for("a keeper where there is one device", lambda: len(c.job("due")["keepers"]) == 2 - devices, 30)
        lost = hit(c, "the loss of an executor", lambda j: c.kill_executor(trains_on(c, "devices")), most)
        lost += hit(c, "the loss of a node", lambda j: c.kill_agent(trains_on(c, "devices")), most)
        c.kill_daemon()
        c.start_daemon()
        c.start_worker("late")
        c.wait_step("due", c.job("due")["step"] + 2 * EVERY, 60)
        hit(c, "a drain", lambda j: c.drain(trains_on(c, "devices")), 0)
        lost += hit(c, "the loss of another executor", lambda j: c.kill_executor(trains_on(c, "devices")), most)
        c.ctl("ckpt", "save", "due")
        c.wait_done("due", 300)
        distance = loss_distance(reference, c.metrics("due"), steps)
        whole(claim, c, steps)
        gone = [e for e in c.events("due") if e["type"] in ("state.lost", "metrics.gap", "ckpt.failed")]
        if gone:
            raise Failed("told: %s" % gone)
        wait_for("the state to be released", lambda: not [
            f for _, _, files in os.walk(c.state) for f in files if f.endswith(".seg")], 10)
    shutil.rmtree(os.path.join(claim.dir, "out", "due"))
    return distance, lost


def replicas_on(claim, job, n):
    """A plan file: data parallel, each of @n ranks has the whole state."""
    pipelines = [{"sequences": k, "micro_batches": 1, "stages": [{"layers": job["model"]["layers"], "ranks": [r]}]}
               for r, k in enumerate(parts(job["train"]["global_batch"], [1] * n))]
    return write_plan(claim, {"ranks": n, "pipelines": pipelines}, "replicas-on-%d" % n)


def all_there(c, n_devices, n_keepers):
    """The job, where it runs on so many."""
    j = c.job("due")
    there = j and j["state"] == "running" and (len(j["devices"]), len(j["keepers"])) == (n_devices, n_keepers)
    return j if there else None


def replicas(claim, text, job, reference, ranks, copies, far, ends):
    """Ends come right before the vote in front of a due version, of which each @far-th is one: the
    one before is stable then. Its copies for a keeper wait up to half of that distance."""
    job = dict(job, resources={"min": 1, "max": ranks}, recovery={"every": far, "copies": copies})
    steps = job["train"]["steps"]
    path = write_job(claim, job, "due", text, [replicas_on(claim, job, n) for n in range(ranks, 0, -1)])
    with KillCluster(claim, "replicas%d" % ranks) as c:
        c.start_workers([0.9, 0.9, 0.9])
        c.submit(path)
        for rank, who in ends:
            j = wait_for("all devices and keepers", lambda: all_there(c, ranks, max(copies - ranks, 0)), 60)
            c.order(rank, "vote.before", (j["step"] // far + 3) * far - 2, who)
            hit = wait_for("the end of rank %d" % rank, lambda: c.hit(rank), 60)
            if who == "agent":
                c.workers[hit.node].wait(30)
                c.start_worker(hit.node, wait=False)
            begun = wait_for("a recovery", lambda: [
                e for e in c.events("due") if e["type"] == "switch.end" and int(e["epoch"]) > hit.epoch], 30)[0]
            if int(begun["data"]["first_step"]) != hit.number or begun["data"].get("lost_steps", 0) != 0:
                raise Failed("%s of rank %d at step %d: goes on from %s" % (who, rank, hit.number, begun["data"]))
        c.wait_done("due", 300)
        distance = loss_distance(reference, c.metrics("due"), steps)
        whole(claim, c, steps)
    shutil.rmtree(os.path.join(claim.dir, "out", "due"))
    return distance


def body(claim):
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["model"].update(layers=2, hidden=32, heads=2, sequence=32)
    job["train"].update(steps=1500, global_batch=8)
    job["checkpoint"] = dict(job.get("checkpoint") or {}, every_steps=97)
    job["recovery"] = {"every": EVERY}
    reference, _ = run_offline(claim, write_job(claim, job, "one", text), "one")
    told = [story(claim, text, job, devices, reference) for devices in (2, 1)]
    none = [replicas(claim, text, job, reference, 3, 2, 8,
                     ((1, "executor"), (0, "executor"), (2, "agent"), (2, "executor"))),
            replicas(claim, text, job, reference, 2, 3, 24, ((1, "executor"), (0, "executor")))]
    loss = max(*none, *(d for d, _ in told))
    return loss <= 1e-9, {"loss": loss, "lost_steps": sum(n for _, n in told)}


Claim("due").run(body)
