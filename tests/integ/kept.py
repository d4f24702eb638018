#!/usr/bin/python3
"""A job diverges and fails: its devices are free, its state stays, also over an hspmdd that is
killed. resume is refused and names the newest checkpoint with a finite loss; from there the job
fails as before, and what was given up is shown as such meanwhile. forget deletes the state and the
record, not the checkpoints. A job that fails for another reason goes on from its state: with
recovery.every 1, one step at most is made again."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
import store  # noqa: E402
from harness import *  # noqa: E402,F403


def segments(c):
    return sorted(f for at, _, files in os.walk(c.state) for f in files if f.endswith(".seg"))


def fails(c, times):
    """Waits until it has failed so often. Returns the step up to which it has diverged, as the
    ranks say: hspmdd may have heard of fewer steps."""
    def ends():
        return [e["reason"] for e in c.events("wild") if e["type"] == "job.failed"]
    wait_for("the job to fail", lambda: len(ends()) == times, 120, 0.2)
    j, said = c.job("wild"), re.search(r"diverged: .* up to step (\d+)", ends()[-1])
    if not said or j["state"] != "failed" or not j["keeps_state"]:
        raise Failed("state %s, %s, keeps_state %s" % (j["state"], ends(), j["keeps_state"]))
    return int(said.group(1))


def jobs(c):
    return [j["name"] for j in c.status()["jobs"]]


def from_before(c):
    """resume does not begin with a state of which the loss is no number; it goes on from the
    checkpoint that it names."""
    refused = c.ctl("resume", "wild", check=False)
    said = re.search(r"its loss is not finite from step (\d+) on; "
                     r"hspmdctl resume wild --from (\d+) uses", refused.stderr)
    older = said and int(said.group(2)) < int(said.group(1))
    if refused.returncode != 7 or not older or not c.job("wild")["keeps_state"]:
        raise Failed("resume: exit %d: %s" % (refused.returncode, refused.stderr))
    m, first = c.metrics("wild"), int(said.group(1))
    bad = {s["step"] for s in m if isinstance(s["loss"], str) or isinstance(s["grad_norm"], str)}
    if first - 1 in bad or not set(range(first, m[-1]["step"] + 1)) <= bad:
        raise Failed("%s; metrics %s" % (refused.stderr, m))
    good = int(said.group(2))
    c.ctl("scale", "wild", "--min", "3", "--max", "3")  # it waits for a device that is not there
    c.ctl("resume", "wild", "--from", str(good))
    given_up(c, good, m[-1]["step"])
    c.ctl("scale", "wild", "--min", "1", "--max", "8")
    return good


def given_up(c, good, last):
    """Before the job has made a step again: what was given up, up to step @last, is nowhere shown
    as what it does now."""
    j, shown = c.job("wild"), c.metrics("wild")
    every = [json.loads(line) for line in c.ctl("metrics", "wild", "--all", "-o", "jsonl").stdout.splitlines()]
    listed, verified = c.ctl("ckpt", "list", "wild").stdout, c.ctl("ckpt", "verify", "wild").stdout
    odd = j["diverged"] or isinstance(j.get("loss"), str)
    if odd or j["step"] != good or shown[-1]["step"] != good or every[-1]["step"] != last:
        raise Failed("back to %d from %d: %s, metrics %s, all of them %s" % (good, last, j, shown[-1], every[-1]))
    late = {int(n) for n in re.findall(r"version (\d+) of epoch \d+, complete, given-up, seen by ", listed)}
    steps = ", ".join(map(str, sorted(late, reverse=True)))
    told = "given-up, because the job resumed from an earlier checkpoint: step %s;" % steps
    counts = re.search(r"version %d of epoch \d+, complete, seen by " % good, listed)
    if not late or min(late) <= good or not counts or told not in verified:
        raise Failed("back to %d from %d:\n%s%s" % (good, last, listed, verified))


def store_of(c):
    return os.path.join(c.dir, "daemon", "state.db")


def again(c):
    c.kill_daemon()
    yield
    c.start_daemon()
    wait_for("the workers to be back", lambda: len(c.ready_nodes()) == 2, 30, 0.1)


def steady(c, path):
    """Its row cannot be read for a while, so it fails; it goes on from its state when the row is
    there again."""
    c.submit(path)
    wait_for("some steps", lambda: c.job("steady")["step"] >= 20, 120, 0.2)
    c.ctl("scale", "steady", "--max", "8")  # so that its row tells of a step
    key = "app/job/%d" % c.job("steady")["id"]
    before = c.job("steady")["step"]
    for _ in again(c):
        row = store.replace_row(store_of(c), key, b"\0")
    j = c.job("steady")
    if j["state"] != "failed" or not j["keeps_state"]:
        raise Failed("a row that cannot be read: %s" % j)
    # Its row says so before they hear of it; of a kill before that the job, which still runs, would
    # go on by itself.
    wait_for("its devices to stop",
             lambda: not any(d["job"] for n in c.nodes().values() for d in n["devices"]), 30, 0.1)
    for _ in again(c):
        store.replace_row(store_of(c), key, row)
    c.ctl("resume", "steady")
    wait_for("it to go on", lambda: c.job("steady")["state"] == "running" and c.job("steady")["step"] > before, 60, 0.2)
    told = [e["reason"] for e in c.events("steady") if e["type"] == "admin.resume"]
    last = c.job("steady")["epochs"][-1]
    say("resumed %s, %s" % (told, last))
    if "from the state of its nodes" not in told[-1] or last["lost_steps"] > 1 or last["first_step"] < before:
        raise Failed("resumed %s: %s, was at step %d" % (told, last, before))
    c.ctl("cancel", "steady")


def body(claim):
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["train"].update(steps=500, global_batch=8)
    job["recovery"] = {"every": 1}
    job["checkpoint"].update(every_steps=2, keep=16)
    calm = dict(job, train=dict(job["train"], steps=10), checkpoint=dict(job["checkpoint"], every_steps=0))
    endless = dict(job, train=dict(job["train"], steps=1000000), checkpoint=dict(job["checkpoint"], every_steps=0))
    job["train"] = dict(job["train"], dtype="fp32", schedule={"name": "constant"},
                        # grows thirtyfold a step
                        optimizer=dict(job["train"]["optimizer"], lr=30, weight_decay=1.0))
    with Cluster(claim) as c:
        c.start_workers([1, 1])
        c.submit(write_job(claim, job, "wild", text))
        step = fails(c, 1)
        kept = segments(c)
        if not kept or "stored by its workers" not in c.ctl("status", "wild").stdout:
            raise Failed("segments %s, status %s" % (kept, c.ctl("status", "wild").stdout))
        c.submit(write_job(claim, calm, "calm", text))
        c.wait_done("calm", 120)
        for _ in again(c):
            pass
        if c.job("wild")["state"] != "failed" or not c.job("wild")["keeps_state"] or not set(kept) <= set(segments(c)):
            raise Failed("after a restart: %s, %s" % (c.job("wild")["state"], segments(c)))
        good = from_before(c)
        second = fails(c, 2)
        told = [e["reason"] for e in c.events("wild") if e["type"] == "admin.resume"]
        say("failed at step %d, resumed %s, failed at step %d" % (step, told, second))
        if told != ["from version %d" % good] or second != step:
            raise Failed("resumed %s" % told)
        path = c.job("wild")["checkpoint_path"]
        checkpoints = sorted(os.listdir(os.path.join(path, "wild")))
        c.ctl("forget", "wild")
        wait_for("its state to go", lambda: not segments(c), 30, 0.1)
        left = sorted(os.listdir(os.path.join(path, "wild")))
        if "wild" in jobs(c) or not left or left != checkpoints:
            raise Failed("jobs %s, checkpoints %s, before %s" % (jobs(c), left, checkpoints))
        refused = c.ctl("forget", "wild", check=False)
        steady(c, write_job(claim, endless, "steady", text))
    return refused.returncode != 0 and "no job wild" in refused.stderr, {"failed_at": step, "again": second}


Claim("kept").run(body)
