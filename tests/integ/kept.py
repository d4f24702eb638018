#!/usr/bin/python3
"""A job diverges and fails: its devices are free, its state stays, also over an hspmdd that is killed. resume goes on from
that state with no step made again, and fails as before; forget deletes the state and the record, not the checkpoints."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403


def segments(c):
    return sorted(f for at, _, files in os.walk(c.state) for f in files if f.endswith(".seg"))


def fails(c):
    wait_for("the job to fail", lambda: c.job("wild")["state"] == "failed", 120, 0.2)
    j = c.job("wild")
    if "diverged" not in j["reason"] or not j["keeps_state"]:
        raise Failed("state %s, %s, keeps_state %s" % (j["state"], j["reason"], j["keeps_state"]))
    return j["step"]


def jobs(c):
    return [j["name"] for j in c.status()["jobs"]]


def body(claim):
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["train"].update(steps=500, global_batch=8)
    job["checkpoint"].update(every_steps=2, keep=2)
    calm = dict(job, train=dict(job["train"], steps=10), checkpoint=dict(job["checkpoint"], every_steps=0))
    job["train"] = dict(job["train"], dtype="fp32", schedule={"name": "constant"},
                        optimizer=dict(job["train"]["optimizer"], lr=1e6, weight_decay=1.0))  # grows a millionfold a step
    with Cluster(claim) as c:
        c.start_workers([1, 1])
        c.submit(write_job(claim, job, "wild", text))
        step = fails(c)
        kept = segments(c)
        if not kept or "kept by its workers" not in c.ctl("status", "wild").stdout:
            raise Failed("segments %s, status %s" % (kept, c.ctl("status", "wild").stdout))
        c.submit(write_job(claim, calm, "calm", text))
        c.wait_done("calm", 120)
        c.kill_daemon()
        c.start_daemon()
        wait_for("the workers to be back", lambda: len(c.ready_nodes()) == 2, 30, 0.1)
        if c.job("wild")["state"] != "failed" or not c.job("wild")["keeps_state"] or not set(kept) <= set(segments(c)):
            raise Failed("after a restart: %s, %s" % (c.job("wild")["state"], segments(c)))
        c.ctl("resume", "wild")
        again = fails(c)
        told = [e["reason"] for e in c.events("wild") if e["type"] == "admin.resume"]
        last = [e for e in c.events("wild") if e["type"] == "switch.end"][-1]
        say("failed at step %d, resumed %s, %s, failed at step %d" % (step, told, last, again))
        if told != ["from the state of its nodes, version %d" % step] or last["data"].get("lost_steps", 0) != 0:
            raise Failed("resumed %s: %s" % (told, last))
        path = c.job("wild")["checkpoint_path"]
        checkpoints = sorted(os.listdir(os.path.join(path, "wild")))
        wait_for("the devices to be free", lambda: c.ctl("forget", "wild", check=False).returncode == 0, 30, 0.2)
        wait_for("its state to go", lambda: not segments(c), 30, 0.1)
        left = sorted(os.listdir(os.path.join(path, "wild")))
        if "wild" in jobs(c) or not left or left != checkpoints:
            raise Failed("jobs %s, checkpoints %s, before %s" % (jobs(c), left, checkpoints))
        refused = c.ctl("forget", "wild", check=False)
    return refused.returncode != 0 and "no job wild" in refused.stderr, {"failed_at": step, "again": again}


Claim("kept").run(body)
