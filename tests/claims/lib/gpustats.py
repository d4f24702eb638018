"""Computes the figures of the GPU claims from their measurements, and judges them. Needs no GPU;
tests/unit/claims tests it."""
import math
import statistics

NOISE_FACTOR = 2.0  # of the distance of two runs of PyTorch, see within_noise
SPEED_RATIO = 1.0   # of PyTorch's tokens per second
BUSY_SHARE = 0.95   # of a step inside kernels


# ---- models --------------------------------------------------------------------------------------

def parameters(m):
    """(all, those of products): numbers of parameters of model: of a job, gpt or llama. A tied head
    is a product."""
    d, layers, vocab = m["hidden"], m["layers"], m["vocab"]
    head = vocab * d
    if m["family"] == "gpt":
        block = 12 * d * d + 13 * d
        total = layers * block + vocab * d + m["sequence"] * d + 2 * d
    else:
        kv = (m.get("kv_heads") or m["heads"]) * (d // m["heads"])
        wide = m.get("intermediate") or -(-(-(-8 * d // 3)) // 32) * 32
        block = 2 * d * d + 2 * d * kv + 3 * d * wide + 2 * d
        total = layers * block + vocab * d + d
    return total + (0 if m.get("tied_head") else head), layers * block + head


def flops_per_token(m):
    """Of a training step: 6 for each parameter of a product and 12 L d s of attention, which counts
    the masked half."""
    return 6 * parameters(m)[1] + 12 * m["layers"] * m["hidden"] * m["sequence"]


def mfu(tokens_per_s, m, peak):
    return tokens_per_s * flops_per_token(m) / peak


# ---- time ----------------------------------------------------------------------------------------

def read_kernels(text):
    """([(kind, start ns, end ns, stream, name)], number of records that were lost) of
    tests/bench/kerneltime.c. ValueError: it is not complete."""
    lines = text.splitlines()
    if not lines or not lines[-1].startswith("dropped "):
        raise ValueError("the record of kernels has no end")
    out = []
    for line in lines[:-1]:
        kind, start, end, stream, name = line.split(" ", 4)
        if int(end) > int(start) > 0:
            out.append((kind, int(start), int(end), int(stream), name))
    return out, int(lines[-1].split()[1])


def covered(spans, begin, end):
    """Part of [begin, end] that the (start, end) of @spans cover, which may overlap."""
    total, reached = 0, begin
    for a, b in sorted(spans):
        a, b = max(a, reached), min(b, end)
        if b > a:
            total += b - a
            reached = b
    return total / (end - begin)


def busy(records, step_seconds):
    """Shares of the last steps, which took @step_seconds: inside kernels, and inside kernels,
    copies or fills. The last step ends with the last kernel."""
    kernels = [(a, b) for kind, a, b, _, _ in records if kind == "k"]
    if not kernels:
        raise ValueError("no kernel was recorded")
    end = max(b for _, b in kernels)
    begin = end - int(1e9 * sum(step_seconds))
    return covered(kernels, begin, end), covered([(a, b) for _, a, b, _, _ in records], begin, end), begin


def longest(records, begin, n=12):
    """[(share of all kernel time since @begin, calls, name)] of the kernels that took most."""
    total, calls = {}, {}
    for kind, a, b, _, name in records:
        if kind == "k" and a >= begin:
            total[name] = total.get(name, 0) + b - a
            calls[name] = calls.get(name, 0) + 1
    whole = sum(total.values()) or 1
    return [(t / whole, calls[name], name) for name, t in sorted(total.items(), key=lambda e: -e[1])[:n]]


def speed_verdict(ours, theirs, share):
    """@ours, @theirs: tokens per second of rounds in turns; @share: of a step inside kernels, None:
    not measured. (holds, ratio of the medians): None where it would hold but the share is not
    known."""
    ratio = statistics.median(ours) / statistics.median(theirs)
    if ratio < SPEED_RATIO or (share is not None and share < BUSY_SHARE):
        return False, ratio
    return (True if share is not None else None), ratio


# ---- losses --------------------------------------------------------------------------------------

def rms(values):
    values = list(values)
    return math.sqrt(sum(v * v for v in values) / len(values))


def relative(a, b):
    """Per step: how far a is above b, relative to b."""
    if len(a) != len(b) or not a:
        raise ValueError("%d and %d losses" % (len(a), len(b)))
    return [(x - y) / abs(y) for x, y in zip(a, b)]


def within_noise(ours, first, second):
    """Whether a run is no farther from two others than those are from each other. Of three runs
    that differ by chance alone the third is rms sqrt(3)/2 = 0.87 of that from the middle of the
    two; twice the distance is allowed, as two runs say little of how far runs may be apart. The
    mean over the last quarter, where chance is averaged out and an error adds up, is held to the
    same bound. Returns (holds, {noise, distance, drift})."""
    middle = [(x + y) / 2 for x, y in zip(first, second)]
    noise = rms(relative(first, second))
    apart = relative(ours, middle)
    distance, drift = rms(apart), statistics.mean(apart[-max(1, len(apart) // 4):])
    finite = all(math.isfinite(x) for x in (noise, distance, drift))
    holds = finite and noise > 0 and distance <= NOISE_FACTOR * noise and abs(drift) <= NOISE_FACTOR * noise
    return holds, {"noise": noise, "distance": distance, "drift": drift}


def falls(losses):
    """Whether a model has learned anything: the last tenth below nine tenths of the first loss."""
    return statistics.mean(losses[-max(1, len(losses) // 10):]) < 0.9 * losses[0]
