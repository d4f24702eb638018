#!/usr/bin/python3
"""A job whose steps are run by plans of a pool, hit by what hits jobs: an executor dies, an agent with its node, a node
is drained, one joins, the coordinator starts again, the job is canceled and resumed from its checkpoint. It goes from pool to
pool, from pool to plan and back. A second one runs its pool on one device, its state kept elsewhere, and loses it twice. Losses
are those of one undisturbed device; whatever the plan, a step's documents are the same."""
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403

STEPS, EVERY, LENGTHS = 120, 30, (32, 64, 128)


def write_documents(claim, text):
    """Most lines are short, so steps of each class come again and again."""
    words, at = open(text, "rb").read(200000).split(), 0
    path = os.path.join(claim.dir, "documents.txt")
    with open(path, "wb") as out:
        for _ in range(1500):
            n, line = claim.random.choice([12] * 12 + [20] * 6 + [50, 110]), b""
            while len(line) < n:
                line += words[at % len(words)] + b" "
                at += 1
            out.write(line[:LENGTHS[-1] - 1].strip() + b"\n")
    return path


def data(n, micro):
    """A stream on each of @n devices."""
    return [{"sequences": 1, "micro_batches": micro, "stages": [{"layers": 3, "ranks": [r]}]} for r in range(n)]


def write_pool(claim, name, n, plans, **more):
    path = os.path.join(claim.dir, name + ".yaml")
    with open(path, "w") as f:
        json.dump({"apiVersion": "hspmd/v1", "kind": "pool", "plans": [
            {"max_length": l, "plan": dict({"ranks": n, "streams": p}, **more)} for l, p in zip(LENGTHS, plans)]}, f)
    return path


def annotations(claim):
    """For four, three and two devices; the last is no pool."""
    cut = {"layers": 3, "split": "sequence", "shares": [2, 1], "groups": [{"ranks": [0, 1], "tensor": [1, 1]}, {"ranks": [2]}]}
    pair = [{"sequences": 2, "micro_batches": 2, "stages": [{"layers": 3, "ranks": [0, 1]}]},
            {"sequences": 1, "micro_batches": 1, "stages": [{"layers": 2, "ranks": [2]}, {"layers": 1, "ranks": [3]}]}]
    return [write_pool(claim, "four", 4, [data(4, 1), data(4, 2), pair], zero=1),
            write_pool(claim, "three", 3, [data(3, 1), data(3, 2), [{"sequences": 1, "micro_batches": 2, "stages": [cut]}]]),
            write_plan(claim, {"ranks": 2, "streams": [{"sequences": 1, "micro_batches": 4, "stages": [
                {"layers": 1, "ranks": [0]}, {"layers": 2, "ranks": [1]}]}]}, "two")]


def own_job(claim):
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["model"].update(hidden=16, sequence=LENGTHS[-1])
    job["train"].update(steps=STEPS, global_batch=8)
    job["checkpoint"] = {"every_steps": EVERY}
    job["data"].update(packing="documents", document_end=10, samples="documents")
    return job


def settled(c, name, n, after):
    """It runs on @n devices, in an epoch behind @after; which one."""
    def look():
        j = c.job(name)
        return j if j["state"] == "running" and len(j["devices"]) == n and j["epoch"] > after else None
    j = wait_for("%s on %d devices" % (name, n), look, 40)
    c.wait_step(name, j["step"] + 6, 60)
    return j["epoch"]


def shown(c, name, lengths):
    """What is shown of a running job: the plan, with all there are for lengths; each one's programs."""
    plan, program = c.ctl("plan", "show", name).stdout, c.ctl("program", "show", name, "--rank", "0").stdout
    for l in lengths:
        if "max_length: %d" % l not in plan or "plan for sequences of %d tokens" % l not in program:
            raise Failed("the plan for %d tokens is not shown" % l)


def lengths_of(rows, epochs):
    return {m.get("sequence") for m in rows if m["epoch"] in epochs}


def disturbed(claim, c, job, text):
    plans = annotations(claim)
    c.submit(write_job(claim, job, "pooled", text, plans, steps=STEPS))
    four = settled(c, "pooled", 4, 0)
    shown(c, "pooled", LENGTHS)
    c.kill_executor("w1")
    at = wait_for("the loss", lambda: (lambda e: e if e > four else None)(c.job("pooled")["epoch"]), 40)
    four = {four, settled(c, "pooled", 4, at - 1)}
    c.kill_agent("w2")
    three = settled(c, "pooled", 3, max(four))
    c.kill_daemon()
    c.start_daemon()
    c.wait_step("pooled", EVERY + 2, 40)
    c.drain("w0")
    two = settled(c, "pooled", 2, three)
    c.start_worker("late", wait=False)
    back = settled(c, "pooled", 3, two)
    c.ctl("cancel", "pooled")
    wait_for("the job to resume", lambda: c.ctl("resume", "pooled", check=False).returncode == 0, 30, poll=0.2)
    c.wait_done("pooled", 120)
    rows = c.metrics("pooled")
    if lengths_of(rows, four | {three, back}) != set(LENGTHS) or lengths_of(rows, {two}) != {None}:
        raise Failed("plans of steps: %r" % [(m["step"], m["epoch"], m.get("sequence")) for m in rows])
    return rows


def alone(claim, c, job, text):
    """One device trains, another node keeps; the one that trains goes with its memory, and again."""
    plans = [write_pool(claim, "one", 1, [data(1, 1), data(1, 2), data(1, 8)])]
    job = dict(job, resources={"min": 1, "max": 1})
    c.submit(write_job(claim, job, "alone", text, plans, steps=STEPS))
    for i in range(2):
        j = wait_for("a keeper", lambda: (lambda j: j if j["state"] == "running" and j["keepers"] else None)(c.job("alone")), 40)
        c.wait_step("alone", j["step"] + 8, 40)
        before = c.job("alone")
        node = before["devices"][0].split("/")[0]
        c.kill_agent(node)
        settled(c, "alone", 1, before["epoch"])
        c.start_worker(node + "x", wait=False)
    c.wait_done("alone", 120)
    if sum(e["lost_steps"] for e in c.job("alone")["epochs"]):
        raise Failed("committed steps were computed again")
    return c.metrics("alone")


def body(claim):
    text = write_documents(claim, make_text(claim))
    job = own_job(claim)
    reference, _ = run_offline(claim, write_job(claim, job, "undisturbed", text), "undisturbed")
    with Cluster(claim) as c:
        c.start_workers([1.0, 0.9, 0.9, 0.8])
        worst = loss_distance(reference, disturbed(claim, c, job, text), STEPS)
        worst = max(worst, loss_distance(reference, alone(claim, c, job, text), STEPS))
    return worst <= 1e-9, {"loss": worst}


Claim("pool").run(body)
