"""Files of tokens, as other tools write them: worker/data/formats.h."""
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
    write(path[:-4] + ".idx", b"MMIDIDX\0\0", struct.pack("<QBQQ", 1, code, n, n + 1), struct.pack("<%di" % n, *lengths),
          struct.pack("<%dq" % n, *starts), struct.pack("<%dq" % (n + 1), *range(n + 1)))
    write(path, struct.pack("<%d%s" % (len(tokens), kind), *tokens))


def of_lines(job, path):
    """The lines of a text as documents of @job: its bytes, with the separator the job names. A list of lists."""
    with open(path, "rb") as f:
        lines = f.read().splitlines(True)
    first, last = (job["data"].get(k, -1) for k in ("document_start", "document_end"))
    vocab = job["model"]["vocab"]
    return [[first] * (first >= 0) + [b % vocab for b in line] + [last] * (last >= 0) for line in lines if line]


def for_job(job, text, path):
    """Writes the lines of @text in the format of @job; returns what data.path is to be."""
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
