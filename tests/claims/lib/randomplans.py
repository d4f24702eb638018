"""Draws random valid plans, and random small jobs for them: shared by random-plans-equal and
switching-equal.

Everything is drawn from the random.Random that is given, so a seed repeats it.
"""
import json

# Features that a plan may use beyond pipelines, stages, tensor shares, zero 1, home rules,
# recomputation and schedules 1f1b, gpipe.
HAS = frozenset(("groups", "batch_split", "sequence_parallel", "chunks", "zero_bubble", "zero_pattern", "offload",
                 "zero3"))

# The features that the generator knows. A feature in HAS is drawn.
FEATURES = ("groups", "batch_split", "sequence_parallel", "chunks", "zero_bubble", "zero_pattern", "zero3", "offload")

MOST_RANKS = 8

# Names of parameters that home rules speak of, and the least number of their dims.
NAMES = {
    "gpt": [("*", 1), ("h.*.mlp.*.weight", 2), ("wte.weight", 2), ("*.bias", 1), ("h.0.*", 1),
            ("h.*.attn.q.weight", 2)],
    "llama": [("*", 1), ("model.layers.*.mlp.*.weight", 2), ("model.embed_tokens.weight", 2), ("model.layers.0.*", 1),
              ("*norm.weight", 1)],
}


def compose(rnd, total, n, least=1):
    """@total as @n random parts of at least @least each."""
    at = sorted(rnd.randint(0, total - n * least) for _ in range(n - 1))
    return [b - a + least for a, b in zip([0] + at, at + [total - n * least])]


def shares(rnd, n):
    """Weights of @n members: often even, sometimes with empty members, never all empty."""
    kind = rnd.random()
    if kind < 0.3:
        return [1] * n
    out = [rnd.choice([0, 0, 1, 2, 3] if kind < 0.55 else [1, 2, 3, 4]) for _ in range(n)]
    out[rnd.randrange(n)] = rnd.randint(1, 4)
    return out


# ---- jobs ----------------------------------------------------------------------------------------

def random_job(rnd, index, steps):
    """A job of the size that takes milliseconds a step. Every third has SGD with momentum, half are
    llama, half fp32."""
    family, heads = ("gpt", "llama")[index % 2], rnd.choice([3, 4, 6])
    model = {"family": family, "layers": rnd.randint(2, 5), "hidden": 4 * heads, "heads": heads, "vocab": 256,
             "sequence": rnd.randint(5, 14), "tied_head": rnd.random() < 0.5}
    if family == "llama":
        model.update(kv_heads=rnd.choice([k for k in (1, 2, 3, heads) if heads % k == 0]), rope_theta=1000,
                     intermediate=rnd.randint(5, 20))
    if rnd.random() < 0.3:
        model["dropout"] = 0.1
    if rnd.random() < 0.35:
        model["vocab_parallel"] = "on"
    data = {"path": "/srv/text.txt", "validation_fraction": 0.05, "validation_every": 10}
    if rnd.random() < 0.35:
        data.update(packing="documents", document_end=32)
    optimizer = {"name": "adamw", "lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
    if index % 3 == 2:
        optimizer = {"name": "sgd", "lr": 0.02, "momentum": 0.9, "weight_decay": 0.0}
    train = {"steps": steps, "global_batch": rnd.randint(3, 9), "dtype": ("fp64", "fp32")[index // 2 % 2],
             "seed": rnd.randrange(1, 10**6), "optimizer": optimizer,
             "schedule": {"name": "constant", "warmup_steps": 5}}
    if rnd.random() < 0.6:
        train["clip_norm"] = 1.0
    return {"apiVersion": "hspmd/v1", "name": "random", "model": model, "data": data, "train": train,
            "resources": {"min": 1, "max": MOST_RANKS}}


# ---- plans ---------------------------------------------------------------------------------------

def tree(rnd, ranks, dims, deep):
    """A home on just these ranks."""
    if len(ranks) == 1:
        return ranks[0]
    n = len(ranks) if deep == 1 else rnd.randint(2, len(ranks))
    of, at = [], 0
    for k in compose(rnd, len(ranks), n):
        of.append(tree(rnd, ranks[at:at + k], dims, deep - 1))
        at += k
    if rnd.random() < 0.3:
        return {"dup": of}
    return {"split": rnd.randrange(dims), "shares": shares(rnd, n), "of": of}


def home_rules(rnd, job, n_ranks):
    out = []
    names = NAMES.get(job["model"]["family"], [("*", 1)])
    for name, dims in rnd.sample(names, min(len(names), rnd.randint(1, 2))):
        ranks = rnd.sample(range(n_ranks), rnd.randint(1, min(n_ranks, 4)))
        out.append({"name": name, "home": tree(rnd, ranks, dims, rnd.randint(1, 2))})
    return out


def stage(rnd, ranks, layers, has):
    out = {"layers": layers, "ranks": ranks}
    if len(ranks) > 1 and "groups" in has and rnd.random() < 0.5:
        n = rnd.randint(2, len(ranks))
        groups, at = [], 0
        for k in compose(rnd, len(ranks), n):
            groups.append({"ranks": ranks[at:at + k]})
            if k > 1:
                groups[-1]["tensor"] = shares(rnd, k)
            at += k
        split = rnd.choice(["sequence", "batch"]) if "batch_split" in has else "sequence"
        out = {"layers": layers, "split": split, "shares": shares(rnd, n), "groups": groups}
    elif len(ranks) > 1 and rnd.random() < 0.9:
        out["tensor"] = shares(rnd, len(ranks))
    if len(ranks) > 1 and "sequence_parallel" in has and rnd.random() < 0.3:
        out["sequence_parallel"] = True
    saved = ["keep", "recompute"] + (["offload"] if "offload" in has else [])
    if rnd.random() < 0.4:
        out["saved"] = rnd.choice(saved)
    return out


def runs_of_layers(rnd, layers, n, chunks):
    """Layers of each stage, a number or one for each chunk; only the very first and the very last
    run may be empty."""
    total = n * chunks
    ends = [0, total - 1] if total > 2 else [rnd.randint(0, 1)] if total == 2 else []
    empty = {i for i in ends if rnd.random() < 0.15}
    for i in ends:
        if total - len(empty) > layers:
            empty.add(i)
    runs = compose(rnd, layers, total - len(empty))
    for i in sorted(empty):
        runs.insert(i, 0)
    if chunks == 1:
        return runs
    return [[runs[c * n + s] for c in range(chunks)] for s in range(n)]


def pipeline(rnd, job, ranks, sequences, has):
    layers = job["model"]["layers"]
    if job["model"]["family"] == "mlp":  # its activations have no sequence
        has = has - {"sequence_parallel"} - (set() if "batch_split" in has else {"groups"})
    chunks, schedule = 1, rnd.choice(["1f1b", "1f1b", "gpipe"] + (["zero_bubble"] if "zero_bubble" in has else []))
    n = rnd.randint(1, min(len(ranks), 4, layers + 2))
    if "chunks" in has and n > 1 and 2 * n <= layers + 2 and rnd.random() < 0.4:
        chunks, schedule = rnd.randint(2, (layers + 2) // n), "interleaved"
    out = {"sequences": sequences, "micro_batches": rnd.randint(1, min(sequences, 5)), "schedule": schedule}
    if chunks > 1:
        out["chunks"] = chunks
    stages, at = [], 0
    runs = runs_of_layers(rnd, layers, n, chunks)
    for k, width in zip(runs, compose(rnd, len(ranks), n)):
        stages.append(stage(rnd, ranks[at:at + width], k, has))
        at += width
    for s in stages:
        s.update({"split": "batch"} if "split" in s and job["model"]["family"] == "mlp" else {})
    if any(s.get("split") == "batch" for s in stages):
        # of one size
        out["micro_batches"] = rnd.choice([m for m in range(1, sequences + 1) if sequences % m == 0])
    return dict(out, stages=stages)


def random_plan(rnd, job, n_ranks=None, has=HAS):
    """A plan that keeps every rule for this job, of @n_ranks ranks if that is given."""
    batch = job["train"]["global_batch"]
    n_ranks = n_ranks or rnd.randint(2, MOST_RANKS)
    ranks = rnd.sample(range(n_ranks), n_ranks)
    n = rnd.randint(1, min(3, n_ranks, batch))
    pipelines, at = [], 0
    for k, sequences in zip(compose(rnd, n_ranks, n), compose(rnd, batch, n)):
        pipelines.append(pipeline(rnd, job, ranks[at:at + k], sequences, has))
        at += k
    out = {"ranks": n_ranks, "pipelines": pipelines}
    zero = rnd.choice([0, 1] + ([3] if "zero3" in has else []))
    if zero:
        out["zero"] = zero
        if "zero_pattern" in has and rnd.random() < 0.5:
            out["zero_pattern"] = "interleaved"
    if rnd.random() < 0.25:
        out["parameters"] = home_rules(rnd, job, n_ranks)
    return out


def groups_of(s):
    return s.get("groups") or [s]


def traits(job, plan):
    """The features of a plan, by name: for the figures, so that a claim shows the features
    drawn."""
    stages = [s for x in plan["pipelines"] for s in x["stages"]]
    cut = [g for s in stages for g in groups_of(s) if len(g["ranks"]) > 1]
    weights = [w for g in cut for w in g.get("tensor", [])] + [w for s in stages for w in s.get("shares", [])]
    depths = {len(x["stages"]) for x in plan["pipelines"]}
    found = {
        "streams": len(plan["pipelines"]) > 1, "depths": len(depths) > 1,
        "pipelines": max(depths) > 1, "tensor": bool(cut),
        "uneven": any(len(set(g.get("tensor", [1]))) > 1 for g in cut), "empty": 0 in weights,
        "layerless": any(s["layers"] == 0 for s in stages), "homes": "parameters" in plan,
        "micro": any(x["sequences"] % x["micro_batches"] for x in plan["pipelines"]),
        "vocabulary": job["model"].get("vocab_parallel") == "on", "tied": job["model"].get("tied_head", False),
        "dropout": job["model"].get("dropout", 0) > 0, "packed": "packing" in job["data"],
        "sgd": job["train"]["optimizer"]["name"] == "sgd",
        "sequence_parallel": any("sequence_parallel" in s for s in stages),
        "split_sequence": any(s.get("split") == "sequence" for s in stages),
        "split_batch": any(s.get("split") == "batch" for s in stages), "interleaved_homes": "zero_pattern" in plan,
    }
    for x in plan["pipelines"]:
        found[x["schedule"]] = True
    for s in stages:
        found[s.get("saved", "keep")] = True
    found["zero%d" % plan.get("zero", 0)] = True
    return sorted(k for k, v in found.items() if v)


def count_traits(cases):
    """name -> how many of the (job, plan) have it."""
    out = {}
    for job, plan in cases:
        for name in traits(job, plan):
            out[name] = out.get(name, 0) + 1
    return dict(sorted(out.items()))


# ---- smaller ones --------------------------------------------------------------------------------

def renumber(plan):
    """The ranks of a plan that lost some, from 0 on in their order; home rules that name lost ones
    go."""
    stages = [s for x in plan["pipelines"] for s in x["stages"]]
    lists = [g["ranks"] for s in stages for g in groups_of(s)]
    new = {r: i for i, r in enumerate(sorted(r for ranks in lists for r in ranks))}
    for ranks in lists:
        ranks[:] = [new[r] for r in ranks]
    whole = len(new) == plan["ranks"]
    plan["ranks"] = len(new)
    if not whole:
        plan.pop("parameters", None)
    return plan


def layers_of(s):
    return sum(s["layers"]) if isinstance(s["layers"], list) else s["layers"]


def plain(x):
    """A pipeline without chunks, its layers added up."""
    for s in x["stages"]:
        s["layers"] = layers_of(s)
    if x.pop("chunks", None):
        x["schedule"] = "1f1b"
    while len(x["stages"]) > 2 and any(s["layers"] == 0 for s in x["stages"][1:-1]):
        x["stages"] = [s for i, s in enumerate(x["stages"]) if s["layers"] or i in (0, len(x["stages"]) - 1)]


def smaller_streams(job, plan):
    """Fewer pipelines, stages, micro-batches, plainer schedules."""
    for i, x in enumerate(plan["pipelines"]):
        for k in range(len(plan["pipelines"]) if len(plan["pipelines"]) > 1 else 0):
            if k != i:
                p = clone(plan)
                p["pipelines"][k]["sequences"] += p["pipelines"][i]["sequences"]
                del p["pipelines"][i]
                yield job, renumber(p)
                break
        if x.get("chunks"):
            p = clone(plan)
            plain(p["pipelines"][i])
            yield job, renumber(p)
        for k in range(len(x["stages"]) - 1 if not x.get("chunks") else 0):
            for keep, drop in ((k, k + 1), (k + 1, k)):
                p = clone(plan)
                stages = p["pipelines"][i]["stages"]
                stages[keep]["layers"] += stages[drop]["layers"]
                del stages[drop]
                yield job, renumber(p)
        for key, value in (("micro_batches", 1), ("micro_batches", x["micro_batches"] - 1), ("schedule", "1f1b")):
            if x[key] != value and value and not (key == "schedule" and x.get("chunks")):
                p = clone(plan)
                p["pipelines"][i][key] = value
                yield job, p


def smaller_stages(job, plan):
    """Fewer members of a stage, no groups, even shares, nothing special saved."""
    for i, x in enumerate(plan["pipelines"]):
        for k, s in enumerate(x["stages"]):
            for g in range(len(s.get("groups", []))):
                p = clone(plan)
                t = p["pipelines"][i]["stages"][k]
                del t["groups"][g], t["shares"][g]
                if len(t["groups"]) == 1:
                    only = t.pop("groups")[0]
                    t.pop("shares"), t.pop("split")
                    t.update(only)
                elif not any(t["shares"]):
                    continue
                yield job, renumber(p)
            for g, group in enumerate(groups_of(s)):
                for r in range(len(group["ranks"]) if len(group["ranks"]) > 1 else 0):
                    p = clone(plan)
                    t = groups_of(p["pipelines"][i]["stages"][k])[g]
                    del t["ranks"][r]
                    if "tensor" in t:
                        del t["tensor"][r]
                        if not any(t["tensor"]) or len(t["ranks"]) == 1:
                            del t["tensor"]
                    yield job, renumber(p)
                if "tensor" in group and set(group["tensor"]) != {1}:
                    p = clone(plan)
                    groups_of(p["pipelines"][i]["stages"][k])[g]["tensor"] = [1] * len(group["ranks"])
                    yield job, p
            for key in ("saved", "sequence_parallel"):
                if key in s:
                    p = clone(plan)
                    del p["pipelines"][i]["stages"][k][key]
                    yield job, p


def smaller_jobs(job, plan):
    """A layer less, fewer sequences, nothing special in the model."""
    if job["model"]["layers"] > 1:
        p, j = clone(plan), clone(job)
        j["model"]["layers"] -= 1
        for x in p["pipelines"]:
            s = max(x["stages"], key=layers_of)
            if isinstance(s["layers"], list):
                s["layers"][s["layers"].index(max(s["layers"]))] -= 1
            else:
                s["layers"] -= 1
        yield j, p
    for i, x in enumerate(plan["pipelines"]):
        if x["sequences"] > x["micro_batches"]:
            p, j = clone(plan), clone(job)
            p["pipelines"][i]["sequences"] -= 1
            j["train"]["global_batch"] -= 1
            yield j, p
    for section, keys in (("model", ("dropout", "vocab_parallel", "tied_head")), ("data", ("packing",)),
                          ("train", ("clip_norm",))):
        for key in keys:
            if job[section].get(key) or key in job[section] and key != "tied_head":
                j = clone(job)
                for k in [key] + (["document_end", "document_start"] if key == "packing" else []):
                    j[section].pop(k, None)
                if key == "tied_head":
                    j[section][key] = False
                yield j, plan


def smaller(job, plan):
    """All (job, plan) that are one step simpler, the largest steps first. Not all need be valid."""
    for key in ("zero", "zero_pattern", "parameters"):
        if key in plan:
            p = clone(plan)
            del p[key]
            if key == "zero":
                p.pop("zero_pattern", None)
            yield job, p
    for i in range(len(plan.get("parameters", [])) if len(plan.get("parameters", [])) > 1 else 0):
        p = clone(plan)
        del p["parameters"][i]
        yield job, p
    yield from smaller_streams(job, plan)
    yield from smaller_stages(job, plan)
    yield from smaller_jobs(job, plan)


def clone(x):
    return json.loads(json.dumps(x))
