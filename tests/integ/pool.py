#!/usr/bin/python3
"""Runs a job whose steps are run by plans of a pool, and disturbs it: an executor dies, an agent
dies with its node, a node is drained, a node joins, the coordinator restarts, the job is canceled
and resumed from its checkpoint. The job switches from pool to pool, from pool to plan and back. A
second job runs its pool on one device, with a replica holder for its state, and loses the device
twice. For a third job hspmdd plans the pool, because no device has memory for a whole sequence; the
job loses an executor. The losses are those of one undisturbed device, and a step has the same
documents under any plan."""
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403

STEPS, EVERY, LENGTHS = 160, 40, (32, 64, 128)


def write_documents(claim, text, name, longest):
    """Most lines are short, so steps of each class come again and again."""
    words, at = open(text, "rb").read(200000).split(), 0
    path = os.path.join(claim.dir, name)
    with open(path, "wb") as out:
        for _ in range(1500):
            n, line = claim.random.choice([12] * 12 + [20] * 6 + [longest // 3, longest * 7 // 8]), b""
            while len(line) < n:
                line += words[at % len(words)] + b" "
                at += 1
            out.write(line[:longest - 1].strip() + b"\n")
    return path


def data(n, micro):
    """A plan with a pipeline on each of @n devices."""
    return [{"sequences": 1, "micro_batches": micro, "stages": [{"layers": 3, "ranks": [r]}]} for r in range(n)]


def write_pool(claim, name, n, plans, **more):
    path = os.path.join(claim.dir, name + ".yaml")
    with open(path, "w") as f:
        json.dump({"apiVersion": "hspmd/v1", "kind": "pool", "plans": [
            {"max_length": l, "plan": dict({"ranks": n, "pipelines": p}, **more)} for l, p in zip(LENGTHS, plans)]}, f)
    return path


def annotations(claim):
    """The annotations for four, three and two devices; the last is a plan and no pool."""
    cut = {"layers": 3, "split": "sequence", "shares": [2, 1],
           "groups": [{"ranks": [0, 1], "tensor": [1, 1]}, {"ranks": [2]}]}
    pair = [{"sequences": 2, "micro_batches": 2, "stages": [{"layers": 3, "ranks": [0, 1]}]},
            {"sequences": 1, "micro_batches": 1, "stages": [{"layers": 2, "ranks": [2]}, {"layers": 1, "ranks": [3]}]}]
    return [write_pool(claim, "four", 4, [data(4, 1), data(4, 2), pair], zero=1),
            write_pool(claim, "three", 3,
                       [data(3, 1), data(3, 2), [{"sequences": 1, "micro_batches": 2, "stages": [cut]}]]),
            write_plan(claim, {"ranks": 2, "pipelines": [{"sequences": 1, "micro_batches": 4, "stages": [
                {"layers": 1, "ranks": [0]}, {"layers": 2, "ranks": [1]}]}]}, "two")]


def own_job():
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["model"].update(hidden=16, sequence=LENGTHS[-1])
    job["train"].update(steps=STEPS, global_batch=8)
    job["checkpoint"] = {"every_steps": EVERY}
    job["recovery"] = {"every": 1}
    job["data"].update(packing="documents", document_end=10, samples="documents")
    return job


def settled(c, name, n, after):
    """Waits until the job runs on @n devices in an epoch later than @after; returns the epoch."""
    def look():
        j = c.job(name)  # None when hspmdd is too busy to answer
        return j if j and j["state"] == "running" and len(j["devices"]) == n and j["epoch"] > after else None
    j = wait_for("%s on %d devices" % (name, n), look, 40)
    c.wait_step(name, j["step"] + 6, 60)
    return j["epoch"]


def shown(c, name, lengths):
    """The shown plan of a running job, with all there are for lengths; each one's
    programs."""
    plan, program = c.ctl("plan", "show", name).stdout, c.ctl("program", "show", name, "--rank", "0").stdout
    for l in lengths:
        if "max_length: %d" % l not in plan or "plan for sequences of %d tokens" % l not in program:
            raise Failed("the plan for %d tokens is not shown" % l)


def ran(c, epoch, lengths):
    """Which plans the steps of an epoch were run by; None: by one that is alone."""
    found = {m.get("sequence") for m in c.metrics("pooled") if m["epoch"] == epoch}
    if not found or not found <= set(lengths):
        raise Failed("epoch %d was run by the plans for %r" % (epoch, found))


def disturbed(claim, c, job, text):
    plans = annotations(claim)
    c.submit(write_job(claim, job, "pooled", text, plans, steps=STEPS))
    four = settled(c, "pooled", 4, 0)
    shown(c, "pooled", LENGTHS)
    c.kill_executor("w1")
    at = wait_for("the loss", lambda: (lambda e: e if e > four else None)(c.job("pooled")["epoch"]), 40)
    ran(c, settled(c, "pooled", 4, at - 1), LENGTHS)
    c.kill_agent("w2")
    three = settled(c, "pooled", 3, at)
    ran(c, three, LENGTHS)
    c.kill_daemon()
    c.start_daemon()
    c.wait_step("pooled", EVERY + 2, 40)
    c.drain("w0")
    two = settled(c, "pooled", 2, three)
    ran(c, two, [None])
    c.start_worker("late", wait=False)
    ran(c, settled(c, "pooled", 3, two), LENGTHS)
    c.ctl("cancel", "pooled")
    c.ctl("resume", "pooled")
    c.wait_done("pooled", 120)
    rows = c.metrics("pooled")
    # None: by the plan for two
    if {m.get("sequence") for m in rows if m["step"] > EVERY} - {None} != set(LENGTHS):
        raise Failed("not all plans have run steps behind the checkpoint")
    return rows


def alone(claim, c, job, text):
    """One device trains, and another node is the replica holder. The training device is lost with
    its memory, twice.
    """
    plans = [write_pool(claim, "one", 1, [data(1, 1), data(1, 2), data(1, 8)])]
    job = dict(job, resources={"min": 1, "max": 1})
    c.submit(write_job(claim, job, "alone", text, plans, steps=STEPS))
    for i in range(2):
        j = wait_for("a keeper",
                     lambda: (lambda j: j if j["state"] == "running" and j["keepers"] else None)(c.job("alone")), 40)
        c.wait_step("alone", j["step"] + 8, 40)
        before = c.job("alone")
        node = before["devices"][0].split("/")[0]
        c.kill_agent(node)
        settled(c, "alone", 1, before["epoch"])
        c.start_worker(node + "x", wait=False)
    c.wait_done("alone", 120)
    if sum(e["lost_steps"] for e in c.job("alone")["epochs"]) > 2:  # one for each loss
        raise Failed("committed steps were computed again")
    return c.metrics("alone")


def planned(claim, job, words):
    """Tests a pool that the planner made: the plan for steps with the longest sequences cuts each
    sequence over the devices, and steps without such a sequence run other plans."""
    longest = 1024
    text = write_documents(claim, words, "long.txt", longest)
    job = dict(job, model=dict(job["model"], sequence=longest), resources={"min": 3, "max": 3})
    steps = {"steps": 30, "global_batch": 6}
    reference, _ = run_offline(claim, write_job(claim, job, "alike", text, **steps), "alike")
    with Cluster(claim, "little") as c:
        # so slow that to compute twice is worse than to talk
        c.start_workers([0.2, 0.18, 0.18], memory="12MiB")
        c.submit(write_job(claim, job, "planned", text, **steps))
        first = settled(c, "planned", 3, 0)
        plan = c.ctl("plan", "show", "planned").stdout
        if "kind: pool" not in plan or "split: sequence" not in plan:
            raise Failed("the plan is no pool, or cuts no sequences: %s" % plan[:400])
        c.kill_executor("w1")
        settled(c, "planned", 3, first)
        c.wait_done("planned", 120)
        rows = c.metrics("planned")
    if longest not in {m["sequence"] for m in rows} or min(m["sequence"] for m in rows) == longest:
        raise Failed("plans of steps: %r" % [m["sequence"] for m in rows])
    return loss_distance(reference, rows, steps["steps"])


def body(claim):
    words = make_text(claim)
    text = write_documents(claim, words, "documents.txt", LENGTHS[-1])
    job = own_job()
    reference, _ = run_offline(claim, write_job(claim, job, "undisturbed", text), "undisturbed")
    with Cluster(claim) as c:
        c.start_workers([0.15] * 4)  # slow enough for all that happens to it
        worst = loss_distance(reference, disturbed(claim, c, job, text), STEPS)
        worst = max(worst, loss_distance(reference, alone(claim, c, job, text), STEPS))
    worst = max(worst, planned(claim, job, words))
    return worst <= 1e-9, {"loss": worst}


Claim("pool").run(body)
