"""Compares a disturbed run on unequal devices with one undisturbed device: shared by loss-equality
and families-equal."""
import os

from harness import *  # noqa: F403

BOUND = {"fp64": (1e-9, 1e-11), "fp32": (1e-4, 1e-5)}


def stage(layers, ranks, tensor=None):
    s = {"layers": layers, "ranks": ranks}
    return dict(s, tensor=tensor) if tensor else s


class Ranks:
    """Hands out the ranks of a plan, one after the other."""

    def __init__(self):
        self.n = 0

    def stages(self, layers, weights, widths, cut):
        """Makes a pipeline of at most as many stages as the model has layers. @widths: the number
        of ranks of each stage; @cut: the shares of each stage of two ranks."""
        out, cut = [], list(cut)
        for n, width in zip(parts(layers, weights), widths):
            ranks = list(range(self.n, self.n + width))
            self.n += width
            out.append(stage(n, ranks, cut.pop(0) if width > 1 else None))
        return out


def plans(job):
    """Returns the starting plans for the numbers of layers and sequences of this job. Plans that
    cut a layer are among them only if the layer can be cut."""
    layers, batch = job["model"]["layers"], job["train"]["global_batch"]
    ways = cuts(job)

    def plan(sequences, micro, *pipes, **more):
        """@pipes: (weights, widths, cut) of a pipeline's stages."""
        ranks = Ranks()
        pipelines = [{"sequences": n, "micro_batches": min(m, n), "stages": ranks.stages(layers, *p)}
                   for n, m, p in zip(sequences, micro, pipes)]
        return dict({"ranks": ranks.n}, pipelines=pipelines, **more)

    one = ([1], [1], [])
    out = {"dp": plan(parts(batch, [2, 1, 1]), (2, 1, 1), one, one, one),
           "pp3": plan([batch], [4], ([1, 1, 1], [1, 1, 1], [])),
           "zero1": plan(parts(batch, [4, 1, 1]), (2, 1, 1), one, one, one, zero=1)}
    if ways:
        even = [1, 1] if [1, 1] in ways else ways[0]
        out["tp2"] = plan([batch], [2], ([1], [2], ways[:1]))
        out["tp2pp2"] = plan([batch], [3], ([1, 2], [2, 2], [even, even]))
        out["mixed"] = plan(parts(batch, [2, 1]), (3, 2), ([1, 2], [1, 2], [even]), one)
    return out


def optimizer(job, index):
    """Every third case of our own jobs uses SGD with momentum."""
    if index % 3 != 2 or os.environ.get("HSPMD_JOB"):
        return {}
    schedule = job["train"].get("schedule", {})
    return {"optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.0},
            "schedule": dict(schedule, min_lr=0.005) if schedule.get("name") == "cosine" else schedule}


def come_to(claim, cluster, name, condition):
    """Waits for the condition until the time of the claim is over. If the user chose the job or its
    text (HSPMD_JOB, HSPMD_TEXT), the time may be over because the job is only slow: the claim then
    ends by Claim.late."""
    try:
        cluster.wait(name, condition, max(1, claim.left()))
    except Failed:
        if claim.left() < 1 and is_own():
            claim.late()
        raise


def disturb(claim, cluster, name, speed, events):
    """Makes the three disturbances in the order of their steps, and returns a log of them."""
    log = []
    for at, what in events:
        come_to(claim, cluster, name, "step=%d" % at)
        ready = cluster.ready_nodes()
        if what == "join":
            cluster.start_worker("joiner", [{"speed": speed}], wait=False)
        elif what == "kill":
            cluster.kill_executor(claim.random.choice(ready))
        elif len(ready) > 1:
            cluster.drain(claim.random.choice(ready))
        log.append("%s at %d" % (what, at))
    return log


LEAST_STEPS = 10  # for three disturbances at steps of their own


def shorten(claim, job, text, most):
    """For a job that is not ours: at most @most steps, and no more than leave time for some cases.
    Returns the speed of a device that gives its steps some seconds, so that they can be disturbed;
    ours are as fast as they go."""
    if not os.environ.get("HSPMD_JOB"):
        return 1.0
    wide = dict(job, train=dict(job["train"], dtype="fp64"))
    step = processor_seconds(claim, write_job(claim, wide, "probe", text), "probe")
    steps = min(job["train"]["steps"], most, max(40, int(20 / step)))
    if steps < LEAST_STEPS:
        raise Unjudged("a job of at least %d steps, to be disturbed in" % LEAST_STEPS)
    if 4 * steps * step > 400:
        raise Unjudged("a smaller job: %d steps of this one take %.0f s" % (steps, steps * step))
    job["train"].update(warm_up(dict(job["train"], steps=steps)), steps=steps)
    say("%d steps of %.3f s alone" % (steps, step))
    return min(1.0, max(0.02, steps * step / 9))


def fits(claim, job, text, plan):
    """Returns whether the programs accept the plan for a job that is not ours; prints the reason if
    they do not."""
    path = write_job(claim, job, "fits", text)
    r = call(prog("hspmdctl"), "compile", path, "-o", os.path.join(claim.dir, "fits.prog"), "--plan",
             write_plan(claim, plan, "fits"), check=False)
    if r.returncode != 0:
        say("left out:", r.stderr.strip()[-200:])
    return r.returncode == 0


def one_case(claim, job, text, index, label, plan, dtype, speed=1.0):
    name = "%s-%s-%s" % (job["model"]["family"], label, dtype)
    train = dict(optimizer(job, index), dtype=dtype, seed=claim.random.randrange(1, 10**6))
    steps = job["train"]["steps"]
    job = dict(job, resources={"min": 1, "max": 8})  # the plans are for up to four, and one joins
    single = write_job(claim, job, name + "-one", text, **train)
    plan_file = write_plan(claim, plan, name)
    path = write_job(claim, job, name, text, [plan_file], **train)
    reference, g0 = run_offline(claim, single, name + "-one", gradients=True)
    _, g1 = run_offline(claim, single, name + "-plan", plan=plan_file, steps=1, gradients=True)
    events = sorted((claim.random.randrange(steps // 10, steps * 8 // 10), w) for w in ("kill", "drain", "join"))
    with Cluster(claim, name) as cluster:
        cluster.start_workers([speed] * plan["ranks"])
        cluster.submit(path)
        log = disturb(claim, cluster, name, speed, events)
        come_to(claim, cluster, name, "done")
        loss = loss_distance(reference, cluster.metrics(name), steps)
        epochs = len(cluster.job(name)["epochs"])
    if epochs < 2:
        raise Failed("%s was not disturbed: it ended before (%s)" % (name, ", ".join(log)))
    grad = gradient_distance(g0, g1)
    ok = loss <= BOUND[dtype][0] and grad <= BOUND[dtype][1]
    say("%-4s %-22s loss %.2e gradient %.2e epochs %d (%s)" % ("ok" if ok else "BAD", name, loss, grad, epochs,
                                                               ", ".join(log)))
    return ok, loss, grad
