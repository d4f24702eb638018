#!/usr/bin/python3
"""Two hosts (as far as their addresses tell) with two network cards each, one for each device: the
state of a job that goes from one device to all four leaves its host by both cards, the second one
by way of the device near it, and enters the other host once for both devices there. The state and
the losses are those of one device."""
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403

FOUR = {"apiVersion": "hspmd/v1", "kind": "plan", "ranks": 4,
        "pipelines": [{"sequences": 2, "stages": [{"layers": 2, "ranks": [r]}]} for r in range(4)]}
SPEED = 0.2  # steps pass while the switch is prepared, but not all of them


def start_node(c, name, net):
    """Both cards have an address of their own, so executors are reached by the card of their
    device."""
    cards = [{"name": "e%d" % i, "gbit_per_s": 10, "address": "127.0.%d.%d" % (net, 2 + i),
              "devices": [i]} for i in range(2)]
    c.start_worker(name, [{"speed": SPEED}] * 2, wait=False, listen="127.0.%d.1" % net, transport="tcp", network=cards)


def cards_are_known(c):
    for name, net in (("a", 1), ("b", 2)):
        node = c.nodes()[name]
        want = [{"name": "e%d" % i, "gbit_per_second": 10, "devices": [i]} for i in range(2)]
        if node["network"] != want:
            raise Failed("cards of %s: %r" % (name, node["network"]))
        for d in node["devices"]:
            if not d["address"].startswith("127.0.%d.%d:" % (net, 2 + d["index"])):
                raise Failed("%s/%d is reached at %s" % (name, d["index"], d["address"]))
        shown = c.ctl("node", "show", name).stdout
        for i in range(2):
            if "network card: e%d, 10 Gb/s, devices %d\n" % (i, i) not in shown:
                raise Failed("node show: %r" % shown)


def states(c, epoch, begins):
    """rank's file -> {(tensor, kind): hash}; each device has whole tensors."""
    out = []
    for f in os.listdir(c.audit):
        for line in read_jsonl(os.path.join(c.audit, f)) if f.endswith(".state") else []:
            if int(line["epoch"]) == epoch and line["begins"] == begins:
                out.append({(p["tensor"], p["kind"]): p["hash"] for p in line["state"]})
    return out


def body(claim):
    text = make_text(claim)
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["model"].update(layers=2, hidden=64, heads=2, sequence=32)
    job["train"].update(steps=120, global_batch=8)
    job["resources"] = {"min": 1, "max": 1}
    job["recovery"] = {"copies": 1}
    reference, _ = run_offline(claim, write_job(claim, job, "one", text), "one")
    path = write_job(claim, job, "spread", text, [write_plan(claim, FOUR, "four")])
    with Cluster(claim, audit=True) as c:
        start_node(c, "a", 1)
        start_node(c, "b", 2)
        wait_for("both nodes to be ready", lambda: len(c.ready_nodes()) == 2, 60)
        cards_are_known(c)
        wait_for("the links to be measured", lambda: all("uplink" in n for n in c.nodes().values()), 30)
        c.submit(path)
        c.wait_step("spread", 5, 60)
        first = c.job("spread")
        c.ctl("scale", "spread", "--max", 4)
        j = wait_for("four devices to train",
                     lambda: (lambda j: j if len(j["devices"]) == 4 and j["state"] == "running" and
                                                       len(j["epochs"]) > 1 else None)(c.job("spread")), 60)
        end = next(e for e in j["epochs"] if e["epoch"] == j["epoch"])
        c.wait_done("spread", 120)
        left, begun = states(c, first["epoch"], False), states(c, j["epoch"], True)
        if len(left) != 1 or len(begun) != 4 or not left[0] or any(s != left[0] for s in begun):
            raise Failed("the state differs: %d left, %d begin" % (len(left), len(begun)))
        distance = loss_distance(reference, c.metrics("spread"), job["train"]["steps"])
    # Three devices get all of it. One host hands on to its second device the state that came: a
    # third. The state by the second card of the other passes the device there: half of a third
    # where the links measured alike, less on a busy machine.
    share = end["passed_on_bytes"] / end["transfer_bytes"]
    say("moved %.2f MB, %.3f of it passed on" % (end["transfer_bytes"] / 1e6, share))
    return distance <= 1e-9 and 0.35 <= share <= 0.6, {"loss": distance, "passed_on": round(share, 3)}


Claim("relays").run(body)
