"""Reads the output of first light's programs, and writes the page that a person reads. Pure: text
in, text out."""
import collections
import json
import re

# The run of one program. status: its exit status, or None if the program was killed after
# `seconds`.
Result = collections.namedtuple("Result", "name status seconds text")

MISSING = 77  # exit status of a program that cannot judge; its last line says why
NOT_RUN = -1000  # in place of one: the program was not run to its end, and the text says why
AS_HSPMD = "calls beside waiting kernels, CUDA as hspmd starts it"
AS_CUDA = "calls beside waiting kernels, CUDA's defaults"
PEERS = ("torch", "cudnn", "flash")
SPEED = re.compile(r"^(attention|product) (\S+) (\S+) (\S+) ([0-9.]+) us ([0-9.]+) TFLOP/s$", re.M)
CALL = re.compile(r"^(\S.*?) +(ok|BLOCKS|FAILED)\b *(.*)$")


def last_line(text):
    return (text.strip().splitlines() or ["it printed nothing"])[-1].strip()[:160]


def missing(r):
    """Returns the thing that a program needed and did not find; None if it found all."""
    if r.status == 127:
        m = re.search(r"error while loading shared libraries: ([^:\s]+)", r.text)
        return m and "the library " + m.group(1)
    m = re.search(r"no GPU: (.*)|^1\.\.0 # SKIP (.*)", r.text, re.M)
    begun = re.search(r"^\[ RUN ", r.text, re.M)  # a GPU that a test had, and lost, is a failure
    if m and not begun and r.status in (0, 1, MISSING):
        return (m.group(1) or m.group(2)).strip()[:160]
    return re.sub(r"^\S+: ", "", last_line(r.text)) if r.status == MISSING else None


def failure(r):
    """Returns why a program that had all it needed failed; None if it did not fail."""
    if r.status == 0 or missing(r):
        return None
    if r.status == NOT_RUN:
        return last_line(r.text)
    if r.status is None:
        return "was ended after %.0f s; last: %s" % (r.seconds, last_line(r.text))
    how = "exit %d" % r.status if r.status >= 0 else "signal %d" % -r.status
    return "%s: %s" % (how, suite_error(r.text) or last_line(r.text))


# ---- device_test ---------------------------------------------------------------------------------

def suite_counts(text):
    """(tests that passed, names of those that failed, in order)"""
    failed = re.findall(r"^\[  FAILED  \] ([A-Za-z_ ]+)$", text, re.M)
    return len(re.findall(r"^\[       OK \]", text, re.M)), list(dict.fromkeys(failed))


def suite_error(text):
    """The words of the first check that failed; None."""
    words = [w.strip() for w in re.findall(r"^(?:ERROR: |\[  ERROR   \] --- )(.*)$", text, re.M)]
    return next((w[:160] for w in words if w and "[   LINE" not in w), None)


def suite_line(r):
    passed, failed = suite_counts(r.text)
    if missing(r):
        return "%s: not judged, this needs %s" % (r.name, missing(r))
    if failed or r.status != 0:
        return "%s: FAILED %s; %d passed; %s" % (r.name, ", ".join(failed) or "as a whole", passed, failure(r))
    return "%s: %d passed in %.0f s" % (r.name, passed, r.seconds)


# ---- blocking_calls ------------------------------------------------------------------------------

def calls(text):
    """[(call, "ok", "BLOCKS", "FAILED" or "NO END", the rest of the line)], in order."""
    out = []
    for line in text.splitlines():
        m = CALL.match(line)
        if m:
            out.append((m.group(1).strip(), m.group(2), m.group(3)))
    last = text[text.rfind("\n") + 1:].strip()
    if last and not CALL.match(last):
        out.append((last, "NO END", ""))
    return out


def calls_lines(r):
    found = calls(r.text)
    bad = [c for c in found if c[1] != "ok"]
    waited = re.search(r"^kernels that waited: (.*)$", r.text, re.M)
    if missing(r):
        return ["%s: not judged, this needs %s" % (r.name, missing(r))]
    head = "%s: %d of %d block" % (r.name, sum(c[1] in ("BLOCKS", "NO END") for c in bad), len(found))
    head += "; kernels that waited: %s" % waited.group(1) if waited else ""
    return [head] + ["  %-6s  %s%s" % (word, name, " (%s)" % rest if word == "FAILED" else "")
                     for name, word, rest in bad]


# ---- op_speed, torch_speed.py --------------------------------------------------------------------

def speeds(*texts):
    """(kind, name, part) -> {side: (us, TFLOP/s)}"""
    out = {}
    for text in texts:
        for kind, name, part, who, us, rate in SPEED.findall(text):
            out.setdefault((kind, name, part), {})[who] = (float(us), float(rate))
    return out


def ratio(row, peer):
    """Speed of ours over the peer's; None."""
    return row[peer][0] / row["hspmd"][0] if peer in row and "hspmd" in row and row["hspmd"][0] > 0 else None


def cell(value, width=7):
    return ("%.2f" % value if value is not None else "-").rjust(width)


def attention_lines(table):
    rows = [(k, v) for k, v in table.items() if k[0] == "attention"]
    out = ["%-24s %8s" % ("attention", "TFLOP/s") + "".join("%9s" % ("/" + p) for p in PEERS)]
    for (_, name, part), row in rows:
        rate = "%8.1f" % row["hspmd"][1] if "hspmd" in row else "%8s" % "-"
        out.append("%-15s %-8s %s" % (name, part, rate) + "".join(cell(ratio(row, p), 9) for p in PEERS))
    return out if rows else []


def product_lines(table):
    names = list(dict.fromkeys(k[1] for k in table if k[0] == "product"))
    out = ["%-15s" % "products" + "".join("%12s %7s" % (p + " TFLOP/s", "/torch") for p in ("y", "dx", "dw"))]
    for name in names:
        line = "%-15s" % name
        for part in ("y", "dx", "dw"):
            row = table.get(("product", name, part), {})
            line += ("%12.1f" % row["hspmd"][1] if "hspmd" in row else "%12s" % "-") + " " + cell(ratio(row, "torch"))
        out.append(line)
    return out if names else []


def refusals(*results):
    """The case that a side would not compute, and its reason."""
    return [line.strip()[:120] for r in results if r for line in r.text.splitlines() if " refused: " in line and
            line.startswith(("attention ", "product "))]


# ---- the page ------------------------------------------------------------------------------------

def device_lines(r, blocking):
    if r is None or r.status != 0:
        return ["does NOT open: %s" % ((missing(r) or failure(r)) if r else "it was not tried")]
    try:
        d = json.loads(r.text.strip().splitlines()[-1])
        out = ["opens, measured in %.0f s: %s, sm_%d, %.0f GiB" %
               (r.seconds, d["name"], d["sm"], d["memory_bytes"] / 2**30),
               "products %.0f TFLOP/s in bf16, %.0f in fp32; memory %.2f TB/s, to the host %.1f GB/s; %.1f us an op" % (
                   d["gemm_bf16_flops"] / 1e12, d["gemm_fp32_flops"] / 1e12, d["mem_bytes_per_s"] / 1e12,
                   d["host_bytes_per_s"] / 1e9, d["op_us"])]
    except (IndexError, ValueError, KeyError, TypeError) as e:
        return ["answers what cannot be read (%s): %s" % (e, last_line(r.text))]
    return out + (re.findall(r"^(?:context|cublasLtCreate) .*$", blocking.text, re.M) if blocking else [])


def netlink_lines(r):
    if missing(r):
        return ["not judged, this needs %s" % missing(r)]
    return ["AF_NETLINK " + line.strip()[:140] for line in r.text.splitlines()
            if line.startswith(("allowed ", "refused "))]


def verdict(results):
    """(True, False or None, figures) of all programs: False where one failed or a test did, None
    where something is missing or no time was left. A call that blocks is a finding, no failure."""
    failed = [r.name for r in results if failure(r)]
    lacking = ["%s (%s)" % (missing(r), r.name) for r in results if missing(r)]
    by = {r.name: r for r in results}
    table = speeds(*(r.text for r in results))
    figures = {"tests": sum(suite_counts(r.text)[0] for r in results if r.name.startswith("device_test"))}
    if AS_HSPMD in by and calls(by[AS_HSPMD].text):
        figures["blocking"] = sum(c[1] in ("BLOCKS", "NO END") for c in calls(by[AS_HSPMD].text))
    for kind in ("attention", "product"):
        found = [x for k, row in table.items() if k[0] == kind for x in [ratio(row, "torch")] if x is not None]
        if found:
            figures["least %s/torch" % kind] = round(min(found), 2)
    if failed:
        figures["failed"] = ", ".join(failed)
    if lacking:
        figures["missing"] = "; ".join(lacking)[:1000]
    return False if failed else None if lacking else True, figures


def section(title, lines):
    return ["%-10s %s" % (title if i == 0 else "", line) for i, line in enumerate(lines)]


def page(facts, results, logs):
    """The page. @facts: [(title, lines)] of the machine; @results: in the order of the runs; @logs:
    the folder."""
    by = {r.name: r for r in results}
    out = ["=" * 100]
    out += section("device", device_lines(by.get("probe"), by.get(AS_HSPMD)))
    out += [line for title, lines in facts for line in section(title, lines)]
    out += section("suite", [suite_line(r) for r in results if r.name.startswith("device_test")])
    out += [""] + [line for name in (AS_HSPMD, AS_CUDA) if name in by for line in calls_lines(by[name])]
    table = speeds(*(r.text for r in results))
    out += ["",
            "speed of ours, and over that of PyTorch (its own choice, cuDNN, FlashAttention); above 1: ours is faster"]
    out += attention_lines(table) + product_lines(table)
    out += refusals(by.get("op_speed"), by.get("torch_speed"))
    out += [""] + section("netlink", netlink_lines(by["netlink"]) if "netlink" in by else ["not tried"])
    out += section("failed", ["%s: %s" % (r.name, failure(r)) for r in results if failure(r)] or ["nothing"])
    out += section("missing", ["%s: %s" % (r.name, missing(r)) for r in results if missing(r)] or ["nothing"])
    return "\n".join(out + section("logs", [logs]) + ["=" * 100])
