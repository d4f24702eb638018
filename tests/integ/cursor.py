#!/usr/bin/python3
"""Checks the position in the data. hspmdd and all agents are killed, and the job goes on from its
checkpoint with exactly the next sample: in another layout, with packed documents, and through
passes that end inside of a global batch. Other data are refused. A damaged checkpoint is refused,
too, and the job goes on from the one before it."""
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403
from peer import Batches  # noqa: E402

STEPS, EVERY, BATCH, SEQUENCE = 90, 10, 9, 32


def read_audit(c):
    """step -> epoch -> samples."""
    steps = {}
    for f in os.listdir(c.audit):
        for line in read_jsonl(os.path.join(c.audit, f)) if f.endswith(".jsonl") else []:
            steps.setdefault(line["step"], {}).setdefault(int(line["epoch"]), []).extend(line["samples"])
    return steps


def check_place(what, place, batches, step):
    """The place of version @step as a document tells it."""
    used = step * BATCH
    want = {"pass": used // batches.n_train, "sample": used % batches.n_train, "pass_samples": batches.n_train,
            "tokens_read": used * SEQUENCE, "bytes": len(batches.text)}
    if {k: place.get(k) for k in want} != want:
        raise Failed("%s: at step %d %r, not %r" % (what, step, place, want))


def kill_all(c):
    c.kill_daemon()
    for name in list(c.workers):
        c.kill_agent(name)


def cold_start(c, names, devices):
    c.start_daemon()
    for n in names:
        c.start_worker(n, [{}] * devices)


def first_after(c, n_epochs):
    """Returns the first step of the first epoch after @n_epochs epochs, and the devices of the job
    then."""
    job = wait_for("the job to run again",
                   lambda: (lambda j: j if len(j["epochs"]) > n_epochs else None)(c.job("place")), 60)
    return job["epochs"][n_epochs]["first_step"], job["devices"]


def other_data(c, text, names):
    """With another file the job waits and says why; with the old one it goes on."""
    with open(text, "rb") as f:
        good = f.read()
    with open(text, "r+b") as f:
        f.write(b"A")
    cold_start(c, names, 1)
    said = wait_for("the reason", lambda: (lambda r: r if "differs" in r else None)(c.job("place")["reason"]), 60)
    want = (r"w[01]: \S+/text.txt differs from the file that the job began with; put that file back, or cancel the job "
            r"and submit it again to start anew")
    if not re.search(want, said) or "\n" in said or "digest" in said:
        raise Failed("refused with %r" % said)
    newest = wait_for("its checkpoint to be known", lambda: c.job("place").get("checkpoint_step"), 60)
    c.ctl("scale", "place", "--min", "4", "--max", "4")
    kill_all(c)
    with open(text, "wb") as f:
        f.write(good)
    return newest


def damage(claim, c, step):
    """Flips a bit in the tensors of each shard file of a checkpoint; header and length of the file
    stay right. Every shard is damaged, because several shards may hold a copy of the same box."""
    folder = os.path.join(claim.dir, "out/place/step-%010d" % step)
    for shard in (os.path.join(folder, f) for f in sorted(os.listdir(folder)) if f.startswith("shard-")):
        with open(shard, "r+b") as f:
            contents = os.path.getsize(shard) - 8 - int.from_bytes(f.read(8), "little")
            if contents == 0:  # of a rank that owns nothing
                continue
            at = os.path.getsize(shard) - 1 - claim.random.randrange(min(64, contents))
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 1 << claim.random.randrange(8)]))


def check_fallback(c, newest):
    told = [e for e in c.events("place") if e["type"] == "ckpt.fallback"]
    want = (r"checkpoint %d cannot be used: .*shard-\d+\S+( \S+)? is damaged; the job resumes from "
            r"checkpoint %d and computes %d steps again")
    if len(told) != 1 or not re.match(want % (newest, newest - EVERY, EVERY), told[0]["reason"]):
        raise Failed("the damaged checkpoint %d: %r" % (newest, told))
    listed = [json.loads(x)["type"] for x in c.ctl("ckpt", "list", "place", "-o", "jsonl").stdout.splitlines()]
    if "ckpt.fallback" not in listed:
        raise Failed("ckpt list: %r" % listed)


def check_audit(steps, batches):
    """Every committed step has read its own samples, once, in any epoch that committed it."""
    for t in range(STEPS):
        epochs = steps.get(t, {})
        got = sorted(epochs[max(epochs)]) if epochs else []
        want = sorted(batches.sample(t * BATCH + k) for k in range(BATCH))
        if got != want:
            raise Failed("step %d read %s, not %s" % (t, got, want))


def stale(claim, c, job, text):
    """A checkpoint of another job, with another order of samples, lies where the job's own should
    be: it is ignored."""
    out = os.path.join(claim.dir, "out")
    job = dict(job, resources={"min": 1, "max": 1})
    c.submit(write_job(claim, job, "mine", text, seed=job["train"].get("seed", 1) + 1, steps=100000))
    c.wait_step("mine", 3 * EVERY + 2, 60)  # more steps than those of the warm-up
    c.ctl("cancel", "mine")
    wait_for("the job to stop", lambda: not any(d["job"] for n in c.nodes().values() for d in n["devices"]), 20)
    newest = c.job("mine")["checkpoint_step"]
    c.submit(write_job(claim, job, "other", text, steps=newest + 2))
    c.wait_done("other", 120)
    mine = os.path.join(out, "mine", "step-%010d" % newest)
    other = os.path.join(out, "other", "step-%010d" % newest)
    with open(os.path.join(other, "manifest.json")) as f:
        about = json.load(f)
    if int(about["term"]) != c.status()["term"] or int(about["epoch"]) < 1 or int(about["step"]) != newest:
        raise Failed("the manifest says term %(term)s, epoch %(epoch)s, step %(step)s" % about)
    shutil.rmtree(mine)
    shutil.copytree(other, mine)
    c.ctl("resume", "mine")
    told = wait_for("an older one", lambda: [e for e in c.events("mine") if e["type"] == "ckpt.fallback"], 30)
    epochs = wait_for("the job to go on", lambda: (lambda e: e if len(e) > 1 else None)(c.job("mine")["epochs"]), 30)
    if int(epochs[-1]["first_step"]) != newest - EVERY or len(told) != 1:
        raise Failed("the job goes on from another's checkpoint: %r, %r" % (epochs, told))
    reason = told[0]["reason"]
    c.ctl("cancel", "mine")
    return reason


def layout(claim):
    """On four devices the plan is a pipeline and a tensor group; on two devices the planner
    chooses."""
    half, whole = {"layers": 2}, {"layers": 4}
    return write_plan(claim, {"ranks": 4, "pipelines": [
        {"sequences": 6, "micro_batches": 3, "stages": [dict(half, ranks=[0]), dict(half, ranks=[1])]},
        {"sequences": 3, "micro_batches": 1, "stages": [dict(whole, ranks=[2, 3], tensor=[1, 1])]}]}, "on4")


def body(claim):
    text = os.path.join(claim.dir, "text.txt")
    lines = ["".join(claim.random.choice("etaoinshrdlu")
                     for _ in range(claim.random.randint(3, 20))) for _ in range(400)]
    with open(text, "w") as f:
        f.write("\n".join(lines)[:1600])  # 44 samples
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/llama.yaml"))
    job["model"].update(layers=4, hidden=32, heads=4, kv_heads=2, intermediate=48, sequence=SEQUENCE)
    job["data"].update(packing="documents", document_end=10, validation_fraction=0.1)
    job["train"].update(steps=STEPS, global_batch=BATCH)
    job["resources"] = {"min": 2, "max": 4}
    reference, _ = run_offline(claim, write_job(claim, job, "one", text), "one")
    job["checkpoint"] = {"every_steps": EVERY, "shared": True}
    path = write_job(claim, job, "place", text, [layout(claim)])
    batches = Batches(job, text)
    if BATCH * STEPS < 5 * batches.n_train or not any(
            t * BATCH // batches.n_train < ((t + 1) * BATCH - 1) // batches.n_train for t in range(STEPS)):
        raise Failed("the passes over %d samples end nowhere inside" % batches.n_train)
    with Cluster(claim, detection="1s", heartbeat="200ms", audit=True) as c:
        c.worker_config = {"replica_holders": 0}
        names = c.start_workers([0.05, 0.05])
        c.submit(path)
        c.wait_step("place", 2 * EVERY + 3, 60)
        first = c.job("place")
        check_place("status", first["data"], batches, first["step"])
        kill_all(c)
        newest = other_data(c, text, names)
        damage(claim, c, newest)
        cold_start(c, names, 2)
        began, devices = first_after(c, len(first["epochs"]))
        c.wait_done("place", 120)
        last = c.job("place")
        if began != newest - EVERY or len(first["devices"]) != 2 or len(devices) != 4:
            raise Failed("went on from step %d, not %d, on %s" % (began, newest - EVERY, devices))
        check_fallback(c, newest)
        check_audit(read_audit(c), batches)
        distance = loss_distance(reference, c.metrics("place"), STEPS)
        check_place("status", last["data"], batches, STEPS)
        for x in json.loads(c.ctl("ckpt", "verify", "place", "-o", "json").stdout)["checkpoints"]:
            check_place("ckpt verify", x["data"], batches, x["step"])
        reason = stale(claim, c, job, text)
        if "cannot be used: it is not in checkpoint.path any more; the job resumes from checkpoint" not in reason:
            raise Failed("a checkpoint of another job: %r" % reason)
    return distance <= 1e-9, {"loss": distance, "began": began, "pass_samples": batches.n_train}


Claim("cursor").run(body)
