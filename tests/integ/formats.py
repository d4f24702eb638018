#!/usr/bin/python3
"""Trains on the same tokens as text, as shards of llm.c, nanoGPT and Megatron: the same losses;
jobs on a cluster, one of them with packed documents; a token that is no token of the model."""
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403
from tokens import llmc, megatron, nanogpt, write  # noqa: E402

STEPS = 24  # not fewer than the steps of warm-up
CUTS = [0, 1000, 1001, 9000]  # where files begin


def shards(folder, tokens, writer, **kw):
    os.makedirs(folder)
    ends = CUTS[1:] + [len(tokens)]
    for i, (a, b) in enumerate(zip(CUTS, ends)):
        writer(os.path.join(folder, "part-%d.bin" % i), tokens[a:b], **kw)
    return os.path.join(folder, "part-*.bin")


def packed_job(claim, d):
    """conf/jobs/packed-llama.yaml, smaller: documents of 5 to 60 tokens, each after the token 256.
    """
    tokens = []
    while len(tokens) < 20000:
        tokens += [256] + [claim.random.randrange(97, 123) for _ in range(claim.random.randint(5, 60))]
    job = load_job(os.path.join(ROOT, "conf/jobs/packed-llama.yaml"))
    job["model"].update(layers=2, hidden=32, heads=4, kv_heads=2, vocab=257, sequence=32)
    job["data"].update(document_start=256, validation_fraction=0.1, validation_every=4)
    job["train"].update(steps=STEPS, global_batch=8, dtype="fp64")
    job["resources"] = {"min": 2, "max": 2}
    path = write_job(claim, job, "packed", shards(d + "/packed", tokens, llmc))
    job["data"] = {k: v for k, v in job["data"].items() if k not in ("packing", "document_start")}
    unpacked = write_job(claim, job, "unpacked", d + "/packed/part-*.bin")
    first = [run_offline(claim, p, "first", steps=1)[0][0] for p in (path, unpacked)]
    if first[0]["tokens"] >= first[1]["tokens"] or first[0]["loss"] == first[1]["loss"]:
        raise Failed("packing changes nothing: %r" % first)
    return path


def body(claim):
    tokens = [claim.random.randrange(97, 123) for _ in range(20000)]
    d = claim.dir
    text = os.path.join(d, "text.txt")
    write(text, bytes(tokens))
    data = {"text": (text, "text"), "gpt2": (shards(d + "/gpt2", tokens, llmc), "llm.c"),
            "llama3": (shards(d + "/llama3", tokens, llmc, magic=20240801), "llm.c"),
            "nano": (shards(d + "/nano", tokens, nanogpt), "nanogpt"),
            "mega": (shards(d + "/mega", tokens, megatron), "megatron"),
            "mega4": (shards(d + "/mega4", tokens, megatron, code=4)[:-4], "megatron")}
    job = load_job(os.path.join(ROOT, "tests/claims/jobs/gpt.yaml"))
    job["model"].update(layers=1, hidden=32, heads=2, sequence=32)
    job["train"].update(steps=STEPS, global_batch=8)
    metrics = {}
    for name, (path, kind) in data.items():
        job["data"] = {"format": kind, "validation_fraction": 0.1, "validation_every": 4}
        metrics[name] = run_offline(claim, write_job(claim, job, name, path), name)[0]
        if loss_distance(metrics["text"], metrics[name], STEPS) != 0:
            raise Failed("%s: other losses than of text" % name)

    job["data"]["format"] = "llm.c"
    job["resources"] = {"min": 2, "max": 2}
    job["model"]["vocab"] = 123
    good = write_job(claim, job, "good", data["gpt2"][0])
    reference = run_offline(claim, good, "reference")[0]
    job["model"]["vocab"] = 122
    bad = write_job(claim, job, "bad", data["gpt2"][0])
    packed = packed_job(claim, d)
    packed_reference = run_offline(claim, packed, "packed-reference")[0]
    with Cluster(claim) as c:
        c.start_workers([0.5, 0.5])
        c.submit(good)
        c.wait_done("good", 120)
        distance = loss_distance(reference, c.metrics("good"), STEPS)
        c.submit(packed)
        c.wait_done("packed", 120)
        distance = max(distance, loss_distance(packed_reference, c.metrics("packed"), STEPS))
        if not any("2 ranks" in e["reason"] for e in c.events("packed")):
            raise Failed("packed did not run on two devices")
        c.submit(bad)
        wait_for("the bad token", lambda: re.search(
            r"/gpt2/part-\d.bin: token 122 at position \d+ is outside the vocabulary of 122 \(model.vocab\)",
            c.job("bad")["reason"]), 60)
        if c.job("bad")["state"] != "pending":
            raise Failed("bad is %s" % c.job("bad")["state"])
    return distance <= 1e-9, {"loss": distance}


Claim("formats").run(body)
