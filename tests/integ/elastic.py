#!/usr/bin/python3
"""Runs the whole system, small: hspmdd, three agents, a job that is hit by a kill, a join, a drain
and a restart of the daemon; its losses must be those of one undisturbed device, and nothing may be
left behind."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403


def verify(claim, c):
    """hspmdctl ckpt verify: the job's checkpoint is good; one flipped byte is found and named."""
    r = c.ctl("ckpt", "verify", "small")
    if "good" not in r.stdout:
        raise Failed("ckpt verify: %r" % r.stdout)
    out = os.path.join(claim.dir, "out", "small")
    shards = [os.path.join(at, f) for at, _, files in os.walk(out) for f in files if f.startswith("shard-")]
    with open(shards[0], "r+b") as f:
        f.seek(-5, os.SEEK_END)
        byte = f.read(1)[0]
        f.seek(-5, os.SEEK_END)
        f.write(bytes([byte ^ 16]))
    for what in ("small", out):
        r = c.ctl("ckpt", "verify", what, check=False)
        if r.returncode != 1 or os.path.basename(shards[0]) not in r.stdout or "is damaged" not in r.stdout:
            raise Failed("damaged: %d %r %r" % (r.returncode, r.stdout, r.stderr))
    r = c.ctl("ckpt", "verify", out + "/nothing", check=False)
    if r.returncode != 3 or "is not on this machine" not in r.stderr:
        raise Failed("no folder: %d %r" % (r.returncode, r.stderr))


def body(claim):
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["model"].update(hidden=32, sequence=32)
    job["train"].update(steps=600, global_batch=8)  # the joiner comes in their midst
    job["checkpoint"] = dict(job.get("checkpoint") or {}, every_steps=200)
    steps = job["train"]["steps"]
    single = write_job(claim, job, "one", text)
    path = write_job(claim, job, "small", text)
    reference, _ = run_offline(claim, single, "one")
    with Cluster(claim) as c:
        c.start_workers([1.0, 0.6, 0.3])
        r = c.submit(path, "--verify")
        if " one device: " not in r.stderr or "job small was submitted" not in r.stdout:
            raise Failed("submit --verify: %r %r" % (r.stdout, r.stderr))
        c.wait_step("small", 10, 60)
        if " one device: " not in c.ctl("verify", "small").stdout:
            raise Failed("verify of a running job does not say what was compared")
        c.kill_executor("w1")
        c.wait_step("small", 40, 60)
        c.start_worker("joiner", wait=False)
        c.wait_step("small", 60, 60)
        c.kill_daemon()
        c.start_daemon()
        c.wait_step("small", 80, 60)
        c.drain("w0")
        c.wait_done("small", 120)
        lines = c.metrics("small")
        distance = loss_distance(reference, lines, steps)
        final = os.path.join(claim.dir, "out", "small", "final")
        for f in ("model.safetensors", "config.json", "metrics.jsonl"):
            if not os.path.exists(os.path.join(final, f)):
                raise Failed("%s is not in %s" % (f, final))
        with open(os.path.join(final, "metrics.jsonl")) as f:
            lines += [json.loads(line) for line in f]
        # the first step of an epoch has a time, too
        without = [m for m in lines if not 0 < m["seconds"] < 60]
        if without:
            raise Failed("steps without a duration: %r" % without)
        verify(claim, c)
        wait_for("the state to be released", lambda: not [
            f for _, _, files in os.walk(c.state) for f in files if f.endswith(".seg")], 10)
    return distance <= 1e-9, {"loss": distance}


Claim("elastic").run(body)
