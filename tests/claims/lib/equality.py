"""A disturbed run on unequal devices against one undisturbed device: shared by loss-equality and families-equal."""
import os

from harness import *  # noqa: F403

BOUND = {"fp64": (1e-9, 1e-11), "fp32": (1e-4, 1e-5)}


def stage(layers, ranks, tensor=None):
    s = {"layers": layers, "ranks": ranks}
    return dict(s, tensor=tensor) if tensor else s


def plans(job):
    """Starting plans for this job's number of layers and sequences."""
    layers, batch = job["model"]["layers"], job["train"]["global_batch"]
    third = max(1, layers // 3)
    heads = job["model"].get("kv_heads") or job["model"].get("heads", 4)
    uneven = [3, 1] if heads % 4 == 0 else [1, 1]
    a, b = max(1, batch * 2 // 3), batch - max(1, batch * 2 // 3)

    def stream(n, stages, micro):
        return {"sequences": n, "micro_batches": min(micro, n), "stages": stages}

    return {
        "dp": {"ranks": 3, "streams": [stream(batch - 2 * (batch // 4), [stage(layers, [0])], 2),
                                       stream(batch // 4, [stage(layers, [1])], 1),
                                       stream(batch // 4, [stage(layers, [2])], 1)]},
        "tp2": {"ranks": 2, "streams": [stream(batch, [stage(layers, [0, 1], uneven)], 2)]},
        "pp3": {"ranks": 3, "streams": [stream(batch, [stage(third, [0]), stage(third, [1]),
                                                       stage(layers - 2 * third, [2])], 4)]},
        "tp2pp2": {"ranks": 4, "streams": [stream(batch, [stage(third, [0, 1]),
                                                          stage(layers - third, [2, 3], [1, 1])], 3)]},
        "zero1": {"ranks": 3, "zero": 1, "streams": [stream(a, [stage(layers, [0])], 2),
                                                     stream(b - b // 2, [stage(layers, [1])], 1),
                                                     stream(b // 2, [stage(layers, [2])], 1)]},
        "mixed": {"ranks": 4, "streams": [stream(a, [stage(third, [0]), stage(layers - third, [1, 2])], 3),
                                          stream(b, [stage(layers, [3])], 2)]},
    }


def optimizer(job, index):
    """Every third case uses SGD with momentum."""
    if index % 3 != 2:
        return {}
    schedule = job["train"].get("schedule", {})
    return {"optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.0},
            "schedule": dict(schedule, min_lr=0.005) if schedule.get("name") == "cosine" else schedule}


def disturb(claim, cluster, name, steps, events):
    """The three disturbances in the order of their steps."""
    log = []
    for at, what in events:
        cluster.wait_step(name, at, timeout=max(20, claim.left()))
        ready = cluster.ready_nodes()
        if what == "join":
            cluster.start_worker("joiner", wait=False)
        elif what == "kill":
            cluster.kill_executor(claim.random.choice(ready))
        elif len(ready) > 1:
            cluster.drain(claim.random.choice(ready))
        log.append("%s at %d" % (what, at))
    return log


def one_case(claim, job, text, index, label, plan, dtype):
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
        cluster.start_workers([1.0] * plan["ranks"])
        cluster.submit(path)
        log = disturb(claim, cluster, name, steps, events)
        cluster.wait_done(name, max(20, claim.left()))
        loss = loss_distance(reference, cluster.metrics(name), steps)
        epochs = len(cluster.job(name)["epochs"])
    grad = gradient_distance(g0, g1)
    ok = loss <= BOUND[dtype][0] and grad <= BOUND[dtype][1]
    say("%-4s %-22s loss %.2e gradient %.2e epochs %d (%s)" % ("ok" if ok else "BAD", name, loss, grad, epochs,
                                                               ", ".join(log)))
    return ok, loss, grad
