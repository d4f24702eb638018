#!/usr/bin/python3
"""Runs a job on one device with other nodes in the cluster: they keep its state. The node that
trains is killed with its memory, then one that keeps, one joins, one that keeps is drained; nothing
committed is ever computed again."""
import json
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403

SAFE = "copies 2: every part of the state is on at least 2 nodes"


def nodes_of(j, key):
    return [d.split("/")[0] for d in j[key]]


def settled(c, job, what, ok=lambda j: True):
    """The job runs in an epoch of its own with a keeper elsewhere."""
    def look():
        j = c.job(job)
        good = j and j["state"] == "running" and len(j["keepers"]) == 1 and j.get("durability") == SAFE and ok(j)
        if good and set(nodes_of(j, "keepers")) & set(nodes_of(j, "devices")):
            raise Failed("%s keeps its own state: %s" % (job, j["devices"]))
        return j if good else None
    return wait_for("%s: %s" % (job, what), look, 30)


def hit(c, what, do, ok, most):
    """After do() the job goes on at once, from the newest version that was committed: at most
    @most steps are made again."""
    before = c.job("alone")
    do(before)
    j = settled(c, "alone", what, lambda j: j["epoch"] > before["epoch"] and ok(before, j))
    end = [e for e in j["epochs"] if e["epoch"] > before["epoch"]][0]
    if end["first_step"] < before["step"] or end["lost_steps"] > most:
        raise Failed("%s: step %d was committed, it goes on from %d, lost %d" %
                     (what, before["step"], end["first_step"], end["lost_steps"]))
    c.wait_step("alone", j["step"] + 5, 30)
    return j


def whole(claim, c, steps):
    """Each step has one line, in the file beside the model and in hspmdd: also those of devices
    that are gone."""
    with open(os.path.join(claim.dir, "out", "alone", "final", "metrics.jsonl")) as f:
        written = [json.loads(line)["step"] for line in f]
    for what, got in (("metrics.jsonl", written), ("hspmdctl metrics", [m["step"] for m in c.metrics("alone")])):
        if got != list(range(steps)):
            raise Failed("%s lacks %s of %d steps" % (what, sorted(set(range(steps)) - set(got)), steps))
    gaps = [e for e in c.events("alone") if e["type"] == "metrics.gap"]
    if gaps:
        raise Failed("told: %s" % gaps)


def body(claim):
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["model"].update(layers=2, hidden=32, heads=2, sequence=32)
    job["train"].update(steps=1200, global_batch=8)
    job["resources"] = {"min": 1, "max": 1}
    job["recovery"] = {"every": 1}
    steps = job["train"]["steps"]
    path = write_job(claim, job, "alone", text)
    reference, _ = run_offline(claim, write_job(claim, job, "one", text), "one")
    with Cluster(claim) as c:
        c.start_workers([0.9, 0.9, 0.9])
        c.submit(path)
        c.wait_step("alone", 10, 60)
        first = settled(c, "alone", "a keeper from the start")
        if any(n["job"] for n in c.nodes()[first["keepers"][0].split("/")[0]]["devices"]):
            raise Failed("the keeper's device is leased")
        # the node that trains goes, with its memory
        j = hit(c, "the loss of the node that trains", lambda j: c.kill_agent(nodes_of(j, "devices")[0]),
                lambda old, j: nodes_of(old, "devices") != nodes_of(j, "devices"), 1)
        # two nodes are left; the one that keeps goes: the job goes on alone and says so
        keeper, trainer = nodes_of(j, "keepers")[0], nodes_of(j, "devices")[0]
        before = c.job("alone")
        c.kill_agent(keeper)
        j = wait_for("the job to go on without a keeper", lambda: (
            lambda j: j if j["epoch"] > before["epoch"] and j["state"] == "running" and not j["keepers"] else None)
            (c.job("alone")), 30)
        c.wait_step("alone", before["step"] + 5, 30)
        said = c.job("alone")["durability"]
        if not said.startswith("a loss of node %s would cost " % trainer):
            raise Failed("without a keeper it says: " + said)
        # two nodes join: one of them gets the part, without a pause for more than the switch
        c.start_worker("late", wait=False)
        c.start_worker("later", wait=False)
        j = settled(c, "alone", "a joiner to keep", lambda j: j["epoch"] > before["epoch"])
        wait_for("both to be here", lambda: c.node_state("late") == c.node_state("later") == "ready", 30)
        # drained: the other one takes over, nothing is lost
        j = hit(c, "the drain of the keeper", lambda j: c.drain(nodes_of(j, "keepers")[0]),
                lambda old, j: nodes_of(old, "keepers") != nodes_of(j, "keepers"), 0)
        wait_for("the drained node to be free", lambda: any(
            e["type"] == "node.drained" for e in c.events()), 20)
        # and again the node that trains
        hit_at = c.job("alone")
        c.kill_agent(nodes_of(hit_at, "devices")[0])
        c.wait_done("alone", 120)
        ends = c.job("alone")["epochs"]
        distance = loss_distance(reference, c.metrics("alone"), steps)
        lost = sum(e["lost_steps"] for e in ends)
        if lost > 3:  # one for each node that was lost
            raise Failed("%d committed steps were computed again" % lost)
        whole(claim, c, steps)
        wait_for("the state to be released", lambda: not [
            f for _, _, files in os.walk(c.state) for f in files if f.endswith(".seg")], 10)
    return distance <= 1e-9, {"loss": distance, "epochs": len(ends), "lost_steps": lost}


Claim("keeper").run(body)
