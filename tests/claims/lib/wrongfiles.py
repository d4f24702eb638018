"""Writes the wrong files of bad-input: jobs, configurations, plans, clusters and checkpoints, each
with a word of its line."""
import json
import os
import shutil

from harness import Failed, call, prog, say

HUGE = 10**30

# (section, key, value, text of the line); section None: the document itself
ABSURD = [
    ("model", "layers", 0, "layers: 0 is outside"), ("model", "layers", -1, "layers: -1 is outside"),
    ("model", "layers", HUGE, "layers: wanted an integer"), ("model", "layers", None, "layers: wanted an integer"),
    ("model", "hidden", 0, "hidden: 0 is outside"), ("model", "hidden", 10**9, "hidden: 1000000000 is outside"),
    ("model", "heads", 7, "heads: must divide hidden"), ("model", "vocab", 10, "vocab: must be at least 256"),
    ("model", "vocab", 10**12, "vocab: 1000000000000 is outside"), ("model", "sequence", 0, "sequence: 0 is outside"),
    ("model", "family", "resnet", "family: wanted gpt, llama or mlp"), ("model", "dropout", 2, "dropout: 2 is outside"),
    ("model", "dropout", float("nan"), "dropout: wanted a number"), ("model", "hiden", 8, 'did you mean "hidden"'),
    ("train", "steps", 0, "steps: 0 is outside"), ("train", "steps", -5, "steps: wanted a non-negative integer"),
    ("train", "global_batch", 10**12, "global_batch: 1000000000000 is outside"),
    ("train", "dtype", "fp8", "dtype: wanted fp32 or fp64"), ("train", "seed", -1, "seed: wanted"),
    ("resources", "min", 9, "min: must not be above"), ("resources", "max", 10**9, "max: 1000000000 is outside"),
    ("data", "path", "", "path: must not be empty"), (None, "name", "No Name", "name: must be"),
    (None, "apiVersion", "hspmd/v9", "apiVersion: must be hspmd/v1"), (None, "data", 7, "data"),
]
# 10^12 parameters: 12 * 100 * 28800^2 and the head.
TERA = {"family": "gpt", "layers": 100, "hidden": 28800, "heads": 100, "vocab": 50000, "sequence": 2048}

TEXTS = [
    (b"", "apiVersion"), (b"\0\1\2\3", "control characters"), (b"name: [1, 2", "did not find expected"),
    (b"a: &a [x]\nb: *a\n", "anchors"), (b"name: \xff\xfe\n", "UTF-8"),
    (b"name: x\nname: y\n", "name"), (b"- 1\n- 2\n", "map"),
    (b"[" * 20000, "deep"), (b"\tname: x\n", "cannot start any token"),
    (b"name: x\n" + b"# " + b"x" * (5 << 20), "apiVersion"),
]


def one_line(r, text, what):
    """A run that failed with one line that has @text."""
    err = r.stderr.strip()
    if r.returncode == 0 or "\n" in err or text.lower() not in err.lower():
        raise Failed("%s: exit %d, %r; wanted %r" % (what, r.returncode, err[-400:], text))


def jobs(claim, c, job):
    """Submitted to a running cluster: each refused with one line. Returns how many."""
    path = os.path.join(claim.dir, "wrong.yaml")

    def refused(text, what):
        one_line(c.ctl("submit", path, check=False, timeout=120), text, what)

    for section, key, value, text in ABSURD:
        j = json.loads(json.dumps(job))
        (j if section is None else j[section])[key] = value
        with open(path, "w") as f:
            json.dump(j, f)
        refused(text, "job with %s %s" % (key, value))
    with open(path, "w") as f:
        json.dump(dict(job, model=TERA, resources={"min": 1, "max": 2}), f)
    refused("no division over", "a job of 10^12 parameters")
    for data, text in TEXTS:
        with open(path, "wb") as f:
            f.write(data)
        refused(text, "job file %r" % data[:30])
    return len(ABSURD) + 1 + len(TEXTS)


def plans(claim, c, job):
    """Plans by hand and descriptions of clusters."""
    good = {"apiVersion": "hspmd/v1", "kind": "plan", "ranks": 1, "pipelines": [
        {"sequences": job["train"]["global_batch"], "micro_batches": 1,
         "stages": [{"layers": job["model"]["layers"], "ranks": [0]}]}]}
    plan, path = os.path.join(claim.dir, "wrong.plan.yaml"), os.path.join(claim.dir, "wrong.yaml")
    wrong = [dict(good, ranks=0), dict(good, ranks=10**9), dict(good, pipelines=[]), dict(good, kind="cluster"),
             dict(good, pipelines=[dict(good["pipelines"][0], sequences=0)]),
             dict(good, pipelines=[dict(good["pipelines"][0], stages=[{"layers": 99, "ranks": [0]}])]),
             dict(good, pipelines=[dict(good["pipelines"][0], stages=[{"layers": job["model"]["layers"], "ranks": [7]}])])]
    with open(path, "w") as f:
        json.dump(dict(job, annotations=[plan]), f)
    for p in wrong:
        with open(plan, "w") as f:
            json.dump(p, f)
        one_line(c.ctl("submit", path, check=False), "wrong.plan.yaml", "plan %s" % p)
    with open(path, "w") as f:
        json.dump(job, f)
    cluster = os.path.join(claim.dir, "wrong.cluster.yaml")
    head = {"apiVersion": "hspmd/v1", "kind": "cluster"}
    n = 0
    for nodes in ([], 7, [{"name": "a", "devices": []}], [{"name": "a", "devices": [{"speed": -1}]}],
                  [{"name": "a", "devices": [{"memory": "9999999999TiB"}]}], [{"devices": [{"speed": 1}]}],
                  [{"name": "a", "devices": [{"speed": 1, "memory": "1GiB"}]}] * 2):
        with open(cluster, "w") as f:
            json.dump(dict(head, nodes=nodes), f)
        one_line(call(prog("hspmdctl"), "plan", path, "--cluster", cluster, check=False), "wrong.cluster.yaml",
                 "cluster %s" % nodes)
        n += 1
    return len(wrong) + n


def configurations(claim):
    """Of both programs."""
    path = os.path.join(claim.dir, "wrong.conf")
    cases = [("hspmdd", {"lisen": 1}, 'did you mean "listen"'), ("hspmdd", {"heartbeat": "1y"}, "heartbeat"),
             ("hspmdd", {"max_nodes": -3}, "max_nodes"), ("hspmdd", {"listen": "0.0.0.0:1"}, "beyond loopback"),
             ("hspmdd", {"worker_key": path}, "key"), ("hspmd-worker", {"devices": [{"speed": 7}]}, "speed"),
             ("hspmd-worker", {"devices": [{"memory": "-1GiB"}]}, "memory"),
             ("hspmd-worker", {"devices": [{}] * 99}, "devices"), ("hspmd-worker", {"node": "A B"}, "node"),
             ("hspmd-worker", {"devices": [{"kind": "quantum"}]}, "kind")]
    for program, keys, text in cases:
        with open(path, "w") as f:
            json.dump(keys, f)
        os.chmod(path, 0o600)
        one_line(call(prog(program), "--check-config", "--config", path, check=False, timeout=20), text,
                 "%s with %s" % (program, keys))
    return len(cases)


def checkpoints(claim, path):
    """@path: the folder of a job with whole checkpoints. Copies are hurt, one way each; every one
    is named as damaged."""
    steps = sorted(d for d in os.listdir(path) if os.path.exists(os.path.join(path, d, "manifest.json")))
    if not steps:
        raise Failed("no checkpoint in %s" % path)
    src = os.path.join(path, steps[-1])
    shard = sorted(f for f in os.listdir(src) if f.startswith("shard-"))[0]
    whole = os.path.getsize(os.path.join(src, shard))

    def put(name, data, at=0, cut=None):
        def hurt(folder):
            with open(os.path.join(folder, name), "r+b") as f:
                f.truncate(cut if cut is not None else os.path.getsize(f.name))
                f.seek(at)
                f.write(data)
        return hurt

    ways = [put("manifest.json", b"", cut=0), put("manifest.json", b"", cut=20),
            put("manifest.json", b"[" * 5000, cut=0),
            put("manifest.json", b'{"format": 99}', cut=0), put("manifest.json", claim.random.randbytes(300), cut=0),
            put(shard, b"", cut=whole // 2), put(shard, b"\xff" * 8), put(shard, b"{" * 50, at=8),
            put(shard, b"", cut=0),
            lambda folder: os.unlink(os.path.join(folder, shard))]
    for i, hurt in enumerate(ways):
        at = os.path.join(claim.dir, "hurt-%d" % i)
        shutil.copytree(src, os.path.join(at, steps[-1]))
        hurt(os.path.join(at, steps[-1]))
        r = call(prog("hspmd-worker"), "--verify-checkpoint", at, check=False, timeout=60)
        words = (r.stdout + r.stderr).strip()
        if r.returncode in (0, 2) or r.returncode < 0 or at not in words:
            raise Failed("checkpoint hurt in way %d: exit %d, %r" % (i, r.returncode, words[-400:]))
        shutil.rmtree(at)
    return len(ways)


def weights(claim):
    """Files for init_from that are no weights: (path, text of the reason)."""
    rnd = claim.random
    head = b'{"wte.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
    out = []
    for i, data in enumerate((b"", rnd.randbytes(5000), (2**62).to_bytes(8, "little") + b"{}",
                              len(head).to_bytes(8, "little") + head,
                              (20000).to_bytes(8, "little") + b"[" * 20000)):
        path = os.path.join(claim.dir, "weights-%d.safetensors" % i)
        with open(path, "wb") as f:
            f.write(data)
        out.append(path)
    return out
