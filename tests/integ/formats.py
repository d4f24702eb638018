#!/usr/bin/python3
"""The same tokens as text, as shards of llm.c, nanoGPT and Megatron: the same losses; a job on a cluster; a token that is
no token of the model."""
import os
import struct
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403

STEPS = 24  # not fewer than the steps of warm-up
CUTS = [0, 1000, 1001, 9000]  # where files begin


def write(path, *parts):
    with open(path, "wb") as f:
        f.write(b"".join(parts))


def llmc(path, tokens, magic=20240520):
    kind, version = ("H", 1) if magic == 20240520 else ("I", 7)
    write(path, struct.pack("<256i", magic, version, len(tokens), *[0] * 253),
          struct.pack("<%d%s" % (len(tokens), kind), *tokens))


def nanogpt(path, tokens):
    write(path, struct.pack("<%dH" % len(tokens), *tokens))


def megatron(path, tokens, code=8):
    """Documents of 7, 14, ... tokens, each one sequence."""
    size, kind, lengths = (2, "H", []) if code == 8 else (4, "i", [])
    while sum(lengths) < len(tokens):
        lengths.append(min(7 * (len(lengths) + 1), len(tokens) - sum(lengths)))
    n, starts = len(lengths), [sum(lengths[:i]) * size for i in range(len(lengths))]
    write(path[:-4] + ".idx", b"MMIDIDX\0\0", struct.pack("<QBQQ", 1, code, n, n + 1), struct.pack("<%di" % n, *lengths),
          struct.pack("<%dq" % n, *starts), struct.pack("<%dq" % (n + 1), *range(n + 1)))
    write(path, struct.pack("<%d%s" % (len(tokens), kind), *tokens))


def shards(folder, tokens, writer, **kw):
    os.makedirs(folder)
    ends = CUTS[1:] + [len(tokens)]
    for i, (a, b) in enumerate(zip(CUTS, ends)):
        writer(os.path.join(folder, "part-%d.bin" % i), tokens[a:b], **kw)
    return os.path.join(folder, "part-*.bin")


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
    with Cluster(claim) as c:
        c.start_workers([0.5, 0.5])
        c.submit(good)
        c.wait_done("good", 120)
        distance = loss_distance(reference, c.metrics("good"), STEPS)
        c.submit(bad)
        wait_for("the bad token", lambda: re.search(
            r"/gpt2/part-\d.bin: token 122 at position \d+ is outside the vocabulary of 122 \(model.vocab\)",
            c.job("bad")["reason"]), 60)
        if c.job("bad")["state"] != "pending":
            raise Failed("bad is %s" % c.job("bad")["state"])
    return distance <= 1e-9, {"loss": distance}


Claim("formats").run(body)
