#!/usr/bin/python3
"""Steps beside copies of state: two devices, ZeRO-1, each in a network namespace, with a rate
between them at which the gradients take about as long as computing. Each 8th version is copied.
Prints the median time of a step by its place behind the due version, and what the 8 steps take
longer in all than 8 times the median of the last three places. HSPMD_BUILD names the build. Root
only."""
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../claims/lib"))
from harness import *  # noqa: E402,F403
import netns  # noqa: E402

N, SPEED, EVERY, STEPS, WARM = 2, 0.15, 8, 56, 16
RATE = "100mbit"


def body(claim):
    net = netns.Network(N)
    job, text = the_job(claim, "gpt.yaml")
    layers = 8
    job["model"] = {"family": "gpt", "layers": layers, "hidden": 128, "heads": 4, "vocab": 256, "sequence": 64,
                    "tied_head": False}
    job["train"].update(global_batch=2 * N, dtype="fp32")
    job["data"]["validation_every"] = 0
    job["checkpoint"] = {"every_steps": 0}
    job["resources"] = {"min": N, "max": N}
    job["recovery"] = {"copies": 2, "every": EVERY}
    plan = write_plan(claim, {"ranks": N, "zero": 1, "pipelines": [
        {"sequences": 2, "micro_batches": 1, "stages": [{"layers": layers, "ranks": [r]}]} for r in range(N)]}, "zero")
    for a in [None, *range(N)]:
        for b in range(0 if a is None else a + 1, N):
            net.slow(a, b, RATE, "64kb")
    with netns.World(claim, "copies", net, 3) as c:
        c.start(SPEED)
        runs = []
        for i in range(2):
            name = "copies%d" % i
            c.submit(write_job(claim, job, name, text, [plan], steps=STEPS))
            c.wait_done(name, claim.left())
            took = {m["step"]: m["seconds"] for m in c.metrics(name) if m["step"] >= WARM}
            place = [statistics.median(s for t, s in took.items() if t % EVERY == k) for k in range(EVERY)]
            alone = statistics.median(s for t, s in took.items() if t % EVERY >= EVERY - 3)
            whole = [sum(took[t + k] for k in range(EVERY)) for t in took
                     if t % EVERY == 0 and all(t + k in took for k in range(EVERY))]
            cost = statistics.median(whole) - EVERY * alone
            runs.append(cost)
            say("alone %.0f ms; by place %s; a version costs %.0f ms" %
                (1e3 * alone, " ".join("%.0f" % (1e3 * s) for s in place), 1e3 * cost))
    return True, {"version_costs_ms": [round(1e3 * s) for s in runs]}


netns.own_network()
Claim("copies").run(body)
