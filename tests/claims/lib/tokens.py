"""Writes files of tokens as other tools write them (worker/data/formats.h)."""
import array
import glob
import struct


def write(path, *parts):
    with open(path, "wb") as f:
        f.write(b"".join(parts))


def llmc(path, tokens, magic=20240520):
    kind, version = ("H", 1) if magic == 20240520 else ("I", 7)
    write(path, struct.pack("<256i", magic, version, len(tokens), *[0] * 253),
          struct.pack("<%d%s" % (len(tokens), kind), *tokens))


def nanogpt(path, tokens):
    write(path, struct.pack("<%dH" % len(tokens), *tokens))


def megatron(path, tokens, code=8, lengths=()):
    """@lengths of the documents, each one sequence; none: 7, 14, ... tokens."""
    size, kind, lengths = (2, "H", list(lengths)) if code == 8 else (4, "i", list(lengths))
    while sum(lengths) < len(tokens):
        lengths.append(min(7 * (len(lengths) + 1), len(tokens) - sum(lengths)))
    n, starts, at = len(lengths), [], 0
    for length in lengths:
        starts.append(at * size)
        at += length
    write(path[:-4] + ".idx", b"MMIDIDX\0\0", struct.pack("<QBQQ", 1, code, n, n + 1),
          struct.pack("<%di" % n, *lengths),
          struct.pack("<%dq" % n, *starts), struct.pack("<%dq" % (n + 1), *range(n + 1)))
    write(path, struct.pack("<%d%s" % (len(tokens), kind), *tokens))


def of_lines(job, path):
    """The lines of a text as documents of @job: its bytes, with the separator the job names. A list
    of lists."""
    with open(path, "rb") as f:
        lines = f.read().splitlines(True)
    first, last = (job["data"].get(k, -1) for k in ("document_start", "document_end"))
    vocab = job["model"]["vocab"]
    return [[first] * (first >= 0) + [b % vocab for b in line] + [last] * (last >= 0) for line in lines if line]


def for_job(job, text, path):
    """Writes the lines of @text in the format of @job; returns the value for data.path: of a text,
    @text."""
    if job["data"].get("format", "text") == "text":
        return text
    documents = of_lines(job, text)
    tokens = [t for d in documents for t in d]
    kind = job["data"]["format"]
    if kind == "llm.c":
        llmc(path + ".bin", tokens, 20240520 if job["model"]["vocab"] <= 65536 else 20240801)
    elif kind == "nanogpt":
        nanogpt(path + ".bin", tokens)
    else:
        megatron(path + ".bin", tokens, 8 if job["model"]["vocab"] <= 65536 else 4, [len(d) for d in documents])
    return path + ".bin"


def read_llmc(path):
    with open(path, "rb") as f:
        head, data = struct.unpack("<256i", f.read(1024)), f.read()
    return array.array("H" if head[0] == 20240520 else "I", data)[:head[2]]


def read_megatron(stem):
    """The tokens, and where documents begin."""
    with open(stem + ".idx", "rb") as f:
        idx = f.read()
    code, n, documents = struct.unpack_from("<BQQ", idx, 17)
    lengths = struct.unpack_from("<%di" % n, idx, 34)
    first = struct.unpack_from("<%dq" % documents, idx, 34 + 12 * n)
    with open(stem + ".bin", "rb") as f:
        tokens = array.array({1: "B", 2: "b", 3: "h", 4: "i", 5: "q", 8: "H"}[code], f.read())
    at = [0]
    for length in lengths:
        at.append(at[-1] + length)
    return tokens, [at[i] for i in first]


def read(job, path):
    """The stream of tokens that @job reads from @path, and where the documents begin that files
    know of."""
    kind, out, begins = job["data"].get("format", "text"), [], []
    if kind == "megatron":
        path = path[:-4] if path.endswith((".bin", ".idx")) else path
        names = [p[:-4] for p in sorted(glob.glob(path + ".idx"))]
    else:
        names = sorted(glob.glob(path))
    for name in names:
        begins.append(len(out))
        if kind == "megatron":
            tokens, first = read_megatron(name)
            begins += [len(out) + i for i in first]
        elif kind == "llm.c":
            tokens = read_llmc(name)
        else:
            with open(name, "rb") as f:
                tokens = f.read() if kind == "text" else array.array("H", f.read())
        out += tokens
    return out, begins
