"""Makes texts and jobs for claims: our own, or those of HSPMD_JOB and HSPMD_TEXT."""
import glob
import json
import math
import os
import random
import re
import shutil
import subprocess

import yaml

import tokens
from report import ROOT, Failed, Unjudged


def make_text(claim):
    """The text of HSPMD_TEXT, else the King James Bible, else words drawn from the seed. A job
    whose data.format is not text gets its lines, as documents in that format."""
    claim.text = find_text(claim)
    return claim.text


def find_text(claim):
    if os.environ.get("HSPMD_TEXT"):
        return os.path.abspath(os.environ["HSPMD_TEXT"])
    path = os.path.join(claim.dir, "text.txt")
    if shutil.which("bible"):
        out = subprocess.run(["bible", "-f"], input=b"gen1:1-rev22:21\n", capture_output=True).stdout
        lines = [l for l in out.split(b"\n") if re.match(rb"[1-3]?[A-Z][A-Za-z]*[0-9]+:[0-9]+ ", l)]
        if len(lines) > 30000:
            with open(path, "wb") as f:
                f.write(b"\n".join(lines) + b"\n")
            return path
    rnd = random.Random(claim.seed)
    words = ["".join(rnd.choice("abcdefghijklmnoprstuvw") for _ in range(rnd.randint(2, 8))) for _ in range(800)]
    with open(path, "w") as f:
        while f.tell() < 2000000:
            f.write(" ".join(rnd.choice(words) for _ in range(rnd.randint(4, 14))) + ".\n")
    return path


class Plain(yaml.SafeLoader):
    """Scalars as the programs read them: `on` and `yes` are texts, 1e-3 is a number; PyYAML's are
    those of YAML 1.1."""

    yaml_implicit_resolvers = {}


for tag, form, first in (("bool", r"true|false", "tf"), ("null", r"~|null|", ["~", "n", ""]),
                         ("int", r"[-+]?[0-9]+", "-+0123456789"),
                         ("float", r"[-+]?[0-9]*\.?[0-9]+\.?([eE][-+]?[0-9]+)?", "-+.0123456789")):
    Plain.add_implicit_resolver("tag:yaml.org,2002:" + tag, re.compile("^(?:%s)$" % form), list(first))
# Decimal only: 010 is ten.
Plain.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node)))
Plain.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(loader.construct_scalar(node)))


def load_job(path):
    """A job with the defaults that claims look at."""
    try:
        with open(path, "rb") as f:
            job = yaml.load(f, Loader=Plain)
    except (OSError, ValueError, yaml.YAMLError) as e:
        raise Unjudged("a job file: %s" % str(e).replace("\n", " "))
    for section, default in (("model", {"vocab": 256}), ("data", {"format": "text"}),
                             ("train", {"dtype": "fp32", "schedule": {}})):
        if not isinstance(job, dict) or not isinstance(job.get(section), dict):
            raise Unjudged("a job file: %s has no %s" % (path, section))
        job[section] = dict(default, **job[section])
    return job


def is_own():
    """Whether the job or the text is not one of ours."""
    return bool(os.environ.get("HSPMD_JOB") or os.environ.get("HSPMD_TEXT"))


def judged_job(claim, name):
    """The job of HSPMD_JOB, else @name of tests/claims/jobs. Where HSPMD_TEXT is not given, data of
    its own that are here stay."""
    own = os.environ.get("HSPMD_JOB")
    job = load_job(own or os.path.join(ROOT, "tests", "claims", "jobs", name))
    path = job["data"].get("path")
    if own and not os.environ.get("HSPMD_TEXT") and isinstance(path, str):
        stem = re.sub(r"\.(bin|idx)$", "", path)
        if glob.glob(stem + ".idx" if job["data"]["format"] == "megatron" else path):
            claim.own_data = os.path.abspath(path)
    return job


def warm_up(train):
    """A run of fewer steps than the warm-up has the learning rates of its first steps."""
    schedule, steps = train.get("schedule") or {}, train["steps"]
    warm = schedule.get("warmup_steps", 0)
    if warm <= steps:
        return {}
    rates = {k: v * steps / warm for k, v in schedule.items() if k == "min_lr"}
    return {"schedule": dict(schedule, warmup_steps=steps, **rates),
            "optimizer": dict(train["optimizer"], lr=train["optimizer"]["lr"] * steps / warm)}


def write_job(claim, job, name, text, annotations=(), **train):
    """Writes a variant of @job: its own name, text, folders and plans. Returns the path."""
    job = json.loads(json.dumps(job))
    job["name"] = name
    job["train"].update(train)
    job["train"].update(warm_up(job["train"]))
    data = job["data"]
    data["path"] = text
    if text is not None and text == claim.text:
        data["path"] = claim.own_data or tokens.for_job(job, text, os.path.join(claim.dir, "data-of-" + name))
    job["checkpoint"] = dict(job.get("checkpoint") or {}, path=os.path.join(claim.dir, "out"))
    job["annotations"] = [os.path.abspath(a) for a in annotations]
    if not annotations:
        del job["annotations"]
    if job["checkpoint"].get("shared"):
        os.makedirs(job["checkpoint"]["path"], exist_ok=True)  # the file must be there
    path = os.path.join(claim.dir, name + ".yaml")
    with open(path, "w") as f:
        json.dump(job, f)
    return path


def write_plan(claim, plan, name):
    path = os.path.join(claim.dir, name + ".plan.yaml")
    with open(path, "w") as f:
        json.dump(dict({"apiVersion": "hspmd/v1", "kind": "plan"}, **plan), f)
    return path


# ---- shapes of plans for any job -----------------------------------------------------------------

def parts(total, weights):
    """@total in whole parts about as @weights, each at least 1; fewer parts where there are fewer
    than weights."""
    weights = weights[:max(1, total)]
    out, left = [], total
    for i, w in enumerate(weights):
        n = left - sum(out[i:]) if i + 1 == len(weights) else int(left * w / sum(weights[i:]))
        n = min(max(1, n), left - (len(weights) - i - 1))
        out.append(n)
        left -= n
    return out


def cuts(job, width=2):
    """Ways to cut a layer of @job among @width ranks, the uneven one first; none: it cannot be cut.
    """
    model = job["model"]
    heads = model["hidden"] if model["family"] == "mlp" else model.get("kv_heads") or model.get("heads", 1)
    ways = [[3, 1]] if width == 2 and heads % 4 == 0 else []
    return ways + ([[1] * width] if heads % width == 0 else []) + ([[2, 1]] if width == 2 and heads % 3 == 0 else [])


def finite(metric, key):
    """A loss of a line of metrics: JSON has only finite numbers, others are null or texts."""
    v = metric[key]
    return v if isinstance(v, (int, float)) and math.isfinite(v) else None
