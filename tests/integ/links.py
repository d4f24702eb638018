#!/usr/bin/python3
"""Slows the link of two of three agents in network namespaces. status and the events
name it and say where each rank stands; the job goes on without one of the two, which is used again
when the link is as fast as before. Root only."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403
import netns  # noqa: E402

STEPS = 200


def told(c, type_, what):
    """The event of this type whose reason has all of @what."""
    found = [e for e in c.events() if e["type"] == type_ and all(w in e["reason"] for w in what)]
    if not found:
        raise Failed("no event %s with %s: %s" % (type_, what, [e["reason"] for e in c.events() if e["type"] == type_]))


def body(claim):
    net = netns.Network(3)
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["train"].update(steps=STEPS)
    job["data"]["validation_every"] = 0
    reference, _ = run_offline(claim, write_job(claim, job, "one", text), "one")
    with netns.World(claim, "links", net, 3) as c:
        c.start(0.2)
        c.submit(write_job(claim, job, "links", text))
        c.wait_step("links", 10, 60)
        epoch, devices = c.job("links")["epoch"], c.job("links")["devices"]
        pair = sorted(d.split("/")[0] for d in devices)[:2]
        net.slow(int(pair[0][1]), int(pair[1][1]), "500kbit")
        stalled = wait_for("status to say that the job stands still", lambda: (c.job("links") or {}).get("stalled"), 60)
        say(stalled["reason"])
        wait_for("the link to be taken out", lambda: any(sorted(l["nodes"]) == pair and l["slow"]
                                                         for l in c.status()["broken_links"]), 60)
        if len(stalled["ranks"]) != len(devices) or not all(r["threads"] for r in stalled["ranks"]):
            raise Failed("where the ranks stand: %s" % stalled["ranks"])
        wait_for("the job to go on without it", lambda: c.job("links")["epoch"] > epoch and
                 not all(n + "/0" in c.job("links")["devices"] for n in pair), 60)
        if "%s and %s are connected too slowly" % tuple(pair) not in c.ctl("status").stdout:
            raise Failed("status does not show the link: %s" % c.ctl("status").stdout)
        c.wait_step("links", c.job("links")["step"] + 10, 60)
        net.heal()
        wait_for("the link to be used again", lambda: not c.status()["broken_links"], 90)
        c.wait_done("links", 120)
        told(c, "job.stalled", ["the connection between", *pair])
        told(c, "link.broken", ["the connection between %s and %s is too slow" % tuple(pair)])
        told(c, "link.mended", ["%s and %s are connected by" % tuple(pair), "MB/s again"])
        apart = loss_distance(reference, c.metrics("links"), STEPS)
    return apart <= 1e-9, {"loss_distance": apart}


netns.own_network()
Claim("links").run(body)
