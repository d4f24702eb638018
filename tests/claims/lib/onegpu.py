"""Plays the story of one-gpu-demo: a job alone on a GPU, then by four executors that share it,
disturbed; both losses. Runs on any device that hspmd-worker knows (tests/integ/onegpu.py: on one
that is not there)."""
import os
import time

from gpuruns import *  # noqa: F403
from harness import *  # noqa: F403

BOUND = 1e-4
STEPS, LEAST_STEPS = 300, 60
# at least: a node that joins first measures its device, for seconds on any machine, and the job is
# to last that long
STEP_SECONDS = 0.1
# seconds: nothing keeps a job from the next step so long, and each disturbance has come about
STILL, ACTED = 180, 90
WORKERS, JOINS = ["w1", "w2", "w3", "w4"], "w5"
ACTS = ["kill a worker", "kill an executor", "drain", "join", "kill hspmdd"]


def own_job():
    return {"apiVersion": "hspmd/v1", "name": "demo",
            "model": {"family": "gpt", "layers": 8, "hidden": 512, "heads": 8, "vocab": 256, "sequence": 256,
                      "tied_head": True},
            "data": {"path": "", "format": "text", "validation_fraction": 0.05, "validation_every": 50},
            "train": {"steps": STEPS, "global_batch": 32, "dtype": "fp32", "seed": 1, "clip_norm": 1.0,
                      "optimizer": {"name": "adamw", "lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-8,
                                    "weight_decay": 0.1},
                      "schedule": {"name": "cosine", "warmup_steps": 20, "min_lr": 3e-5}},
            "resources": {"min": 1, "max": 8}, "checkpoint": {"path": "", "every_steps": 0}}


def four(claim, job):
    """A plan for all four: two pipelines, each layer of which two ranks have together."""
    batch, layers = job["train"]["global_batch"], job["model"]["layers"]
    return write_plan(claim, {"ranks": 4, "pipelines": [
        {"sequences": n, "micro_batches": 1, "stages": [{"layers": layers, "ranks": r, "tensor": [1, 1]}]}
        for n, r in ((batch // 2, [0, 1]), (batch - batch // 2, [2, 3]))]}, "four")


def share(gpu_bytes):
    """A device of kind cuda whose memory is a part of the GPU's: four of them fit beside the memory
    of drivers and libraries."""
    return {"kind": "cuda", "index": 0, "memory": "%dMiB" % min(8192, gpu_bytes // 5 >> 20)}


def alone(claim, job, name, device, steps, micro_batches=1):
    path = write_job(claim, job, name, claim.text, steps=steps)
    try:
        return train(claim,
                     compile_job(claim, path, name, one_device(claim, job, name, micro_batches)), name, device, steps)
    except Failed as e:
        if is_own():
            raise Unjudged("another job or text: %s" % e)
        raise


def suited(claim, job, device):
    """@job with steps long enough to be disturbed in, by its batch, and no more of them than there
    is time for."""
    def step(name):
        return sorted(m["seconds"] for m in alone(claim, job, name, device, 12))[6]
    steps = min(job["train"]["steps"], STEPS)
    if steps < LEAST_STEPS:
        raise Unjudged("a longer job: %d steps are too few to be disturbed in, %d are not" % (steps, LEAST_STEPS))
    one = step("probe")
    if one < 0.7 * STEP_SECONDS:
        job["train"]["global_batch"] = min(512, math.ceil(job["train"]["global_batch"] * STEP_SECONDS / one))
        one = step("probe-again")
    steps = min(steps, int(claim.left() / 6 / one))
    if steps < LEAST_STEPS:
        raise Unjudged("a smaller job: a step of this one takes %.2f s" % one)
    job["train"]["steps"] = steps
    say("%d steps of %.3f s alone, %d sequences each" % (steps, one, job["train"]["global_batch"]))
    return job


def moments(random, steps):
    """Steps for the disturbances, between a tenth and six tenths of the job, each in the first half
    of a part of its own: the effects of one are seen before the next one comes."""
    first, part = steps // 10, steps / 2 / len(ACTS)
    return [first + int(part * (i + random.random() / 2)) for i in range(len(ACTS))]


def epoch_of(cluster, name):
    j = cluster.job(name)
    if j is None or j["state"] in ("done", "failed", "cancelled"):
        raise Failed("job %s is %s before it was disturbed" %
                     (name, "gone" if j is None else "%s: %s" % (j["state"], j.get("reason"))))
    return int(j["epoch"])


def step_of(cluster, name):
    return (cluster.job(name) or {}).get("step") or 0


def go_on(claim, cluster, name, condition):
    """Waits for training to come to @condition. A job that stands still fails, however soon the
    claim must end; one that is slow is late."""
    best = step_of(cluster, name)
    while True:
        try:
            return cluster.wait(name, condition, bound(claim, STILL))
        except Failed:
            now = step_of(cluster, name)
            if now <= best:
                raise
            if claim.left() < 1:
                claim.late()
            best = now


def bound(claim, seconds):
    return min(seconds, max(10, claim.left()))


def on_job(cluster, name):
    """Nodes that are ready and train the job now, if others are ready too; else none, and nobody
    waits for a job that is over."""
    epoch_of(cluster, name)
    trains = {d.split("/")[0] for d in cluster.job(name)["devices"]}
    ready = cluster.ready_nodes()
    return [n for n in ready if n in trains and len(ready) > 1]


def act_once(claim, cluster, name, card, act):
    """Returns the worker that it hit. A disturbance that takes a device away is over when the job
    runs in another epoch."""
    before, victim = epoch_of(cluster, name), ""
    if act == "join":
        cluster.start_worker(JOINS, [card], wait=False)
        wait_for("%s to be ready" % JOINS, lambda: cluster.node_state(JOINS) == "ready", bound(claim, ACTED))
    elif act == "kill hspmdd":
        cluster.kill_daemon()
        cluster.start_daemon()
    else:
        victim = claim.random.choice(wait_for("a node that trains", lambda: on_job(cluster, name),
                                              bound(claim, ACTED), 0.1))
        {"kill a worker": cluster.kill_agent, "kill an executor": cluster.kill_executor,
         "drain": cluster.drain}[act](victim)
        wait_for("another epoch after: %s %s" % (act, victim),
                 lambda: epoch_of(cluster, name) > before, bound(claim, ACTED), 0.1)
    return victim


def disturb(claim, cluster, name, card, steps):
    """Each at a step of its own, in this order."""
    for step, act in zip(moments(claim.random, steps), ACTS):
        go_on(claim, cluster, name, "step=%d" % step)
        began = time.monotonic()
        victim = act_once(claim, cluster, name, card, act)
        claim.figures["survived"] = claim.figures.get("survived", 0) + 1
        say("step %3d: %s %s (%.1f s)" % (step, act, victim, time.monotonic() - began))


def together(claim, job, card):
    """Trained by four, disturbed: (metrics, epochs, nodes that trained, the first plan)."""
    steps = job["train"]["steps"]
    job["resources"] = dict(job.get("resources") or {}, min=2, max=8)  # the mesh has work, always
    path = write_job(claim, job, "together", claim.text, [] if os.environ.get("HSPMD_JOB") else [four(claim, job)])
    with Cluster(claim, "together") as cluster:
        for w in WORKERS:
            cluster.start_worker(w, [card], wait=False)
        for w in WORKERS:
            wait_for("worker %s to be ready" % w, lambda: cluster.node_state(w) == "ready", 90)
        cluster.submit(path)
        with claim.awaiting("training to go on"):
            disturb(claim, cluster, "together", card, steps)
            go_on(claim, cluster, "together", "done")
        epochs = cluster.job("together")["epochs"]
        nodes = [w for w in WORKERS + [JOINS] if w + "/" in json.dumps(epochs)]
        return cluster.metrics("together"), len(epochs), nodes, epochs[0]["plan"]


def reference_of(claim, job, device):
    """The metrics of the undisturbed run. Of a job whose loss, in fp32, depends on the order of its
    sums nothing can be said."""
    steps = job["train"]["steps"]
    reference = alone(claim, job, "alone", device, steps)
    apart = loss_distance(reference,
                          alone(claim, job, "order", device, steps, min(2, job["train"]["global_batch"])), steps)
    say("sums in another order: %.1e" % apart)
    if apart > BOUND / 2 and is_own():
        raise Unjudged("a job that is steadier in fp32: with its sums in another order its losses "
                       "differ by %.1e" % apart)
    return reference


def story(claim, job, device, card):
    """(whether the losses are equal, figures)."""
    job["train"].update(dtype="fp32", compute="fp32")
    job = suited(claim, job, device)
    reference = reference_of(claim, job, device)
    metrics, epochs, nodes, plan = together(claim, job, card)
    say("first plan: %s" % plan)
    if epochs < 4:
        raise Failed("%d epochs: not disturbed as often as it was meant to be" % epochs)
    loss = loss_distance(reference, metrics, job["train"]["steps"])
    say("%s loss %.1e in %d epochs by %s" % ("ok" if loss <= BOUND else "BAD", loss, epochs, " ".join(nodes)))
    return loss <= BOUND, {"loss": loss, "steps": job["train"]["steps"], "epochs": epochs, "trained_by": len(nodes)}
