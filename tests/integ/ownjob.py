#!/usr/bin/python3
"""Runs claims with jobs and texts that are not ours: every shape gets plans that the programs take,
a claim that cannot be judged says so, and the last line is always a report."""
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.environ.get("HSPMD_SRC", "."), "tests", "claims", "lib"))
from harness import *  # noqa: E402,F403
from equality import plans  # noqa: E402
from peer import Batches  # noqa: E402

JOB = """apiVersion: hspmd/v1
name: a-job-of-someone
model: {family: gpt, layers: 2, hidden: 48, heads: 3, sequence: 64, vocab: 264, vocab_parallel: on}
data: {path: /nowhere/text.bin, validation_fraction: 5e-2}
train: {steps: 010, global_batch: 2, optimizer: {name: sgd, lr: 1e-2}, schedule: {name: cosine, warmup_steps: 10, min_lr: .001}}
"""


def same(what, got, want):
    if got != want:
        raise Failed("%s: %r, wanted %r" % (what, got, want))


def fails(kind, call, *args):
    try:
        call(*args)
    except kind:
        return
    raise Failed("%s%r did not fail with %s" % (call.__name__, args[1:], kind.__name__))


def reading(claim, text):
    """A job file has its meaning to the programs."""
    path = os.path.join(claim.dir, "own.yaml")
    with open(path, "w") as f:
        f.write(JOB)
    job = load_job(path)
    same("on, 5e-2, 010, .001",
         [job["model"]["vocab_parallel"], job["data"]["validation_fraction"], job["train"]["steps"],
                                 job["train"]["schedule"]["min_lr"]], ["on", 0.05, 10, 0.001])
    same("defaults", [job["train"]["dtype"], job["data"]["format"]], ["fp32", "text"])
    short = load_job(write_job(claim, job, "short", text, steps=5))["train"]
    same("fewer steps than warm-up", [short["schedule"]["warmup_steps"], short["schedule"]["min_lr"],
                                      short["optimizer"]["lr"]], [5, 0.0005, 0.005])
    call(prog("hspmdctl"), "compile", os.path.join(claim.dir, "short.yaml"), "-o", path + ".prog")
    return path, job


def shapes(claim, job, text):
    """Layers, sequences and heads that are few or odd."""
    n = 0
    for family, layers, batch, heads in (("gpt", 1, 1, 1), ("gpt", 2, 2, 3), ("gpt", 5, 3, 2), ("llama", 1, 7, 4),
                                         ("llama", 2, 5, 1), ("mlp", 2, 3, 0), ("mlp", 1, 1, 0)):
        model = dict(job["model"], family=family, layers=layers, hidden=48, heads=heads)
        if family == "mlp":
            model = {k: v for k, v in model.items() if k not in ("heads", "vocab_parallel")}
        path = write_job(claim, dict(job, model=model), "shape", text, global_batch=batch)
        found = plans(load_job(path))
        same("plans of %s with %d heads" % (family, heads), len(found), 3 if heads == 1 else 6)
        for label, plan in found.items():
            call(prog("hspmdctl"), "compile", path, "-o", path + ".prog", "--plan", write_plan(claim, plan, label))
            n += 1
    return n


def losses(claim):
    """Losses that are no numbers are equal to nothing."""
    one = [{"step": 0, "loss": 2.0}]
    same("the same", loss_distance(one, one, 1), 0.0)
    for bad in (None, "nan", float("nan")):
        fails(Failed, loss_distance, one, [{"step": 0, "loss": bad}], 1)
        fails(Unjudged, loss_distance, [{"step": 0, "loss": bad}], one, 1)


def streams(claim, job, text):
    """The peer reads the programs' input, in every format, and finds the same documents."""
    want = None
    for kind, more in (("text", {"document_end": 10}), ("llm.c", {"document_start": 263}),
                       ("nanogpt", {"document_end": 263}),
                       ("megatron", {})):
        j = dict(job, data=dict({"format": kind, "packing": "documents"}, **more))
        batches = Batches(j, load_job(write_job(claim, j, "stream", text))["data"]["path"])
        words = [t for t in batches.text if t != 263]
        want = want or words
        same("tokens of " + kind, words, want)
        ends = sum(batches.begin(i) for i in range(1, len(batches.text)))
        same("documents of " + kind, ends, 399)


def reports(claim, path, text):
    """The exit status and the last line of a claim that cannot be judged, or is asked for nonsense.
    """
    tiny = os.path.join(claim.dir, "tiny.txt")
    with open(text, "rb") as f, open(tiny, "wb") as g:
        g.write(f.read(500))
    for env, status, word in (({"HSPMD_JOB": "/nowhere.yaml"}, 77, "No such file"),
                              ({"HSPMD_JOB": text}, 77, "a job file"),
                              ({"HSPMD_SEED": "seven"}, 1, "HSPMD_SEED"),
                              ({"HSPMD_TEXT": "/nowhere.txt"}, 77, "/nowhere.txt"),
                              ({"HSPMD_JOB": path, "HSPMD_TEXT": tiny}, 77, "one window needs 65")):
        r = call(os.path.join(ROOT, "tests", "claims", "exactly-once"), check=False, env=env)
        last = json.loads(r.stdout.splitlines()[-1])
        same("exit with %s" % env, r.returncode, status)
        same("report with %s" % env, [last["claim"], last["holds"]], ["exactly-once", {77: None, 1: False}[status]])
        if word not in json.dumps(last["figures"]):
            raise Failed("%s: %r, wanted %r" % (env, last["figures"], word))


def body(claim):
    text = os.path.join(claim.dir, "text.txt")
    with open(text, "w") as f:
        f.write("\n".join("".join(claim.random.choice("etaoinshrdlu \u00e9") for _ in range(30)) for _ in range(400)))
    claim.text = text
    path, job = reading(claim, text)
    figures = {"plans": shapes(claim, job, text)}
    losses(claim)
    streams(claim, job, text)
    reports(claim, path, text)
    return True, figures


for program in ("hspmdd", "hspmd-worker", "hspmdctl"):
    if not os.access(os.path.join(BUILD, program), os.X_OK):
        print("%s is not built" % program)
        sys.exit(77)
for name in ("HSPMD_JOB", "HSPMD_TEXT"):
    os.environ.pop(name, None)
Claim("ownjob").run(body)
