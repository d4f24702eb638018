"""Lists state segments on disk (worker/state/segment.c), and flips a bit of one, or of the state
that an executor computes with. Shared by claims about damage."""
import os
import re
import struct

SEALED = 0x9d5e1ed0c0dec0de
NONE = 2**64 - 1
HEAD, SEAL, ROWS = 328, 1024, 4096  # bytes of the head; where seal and table begin
ITEM = (4, 8, 4, 2)                 # bytes of an element: fp32, fp64, i32, bf16
NAME = re.compile(r"job-(\d+)\+(\d+)\+(\d+)(?:\+of\+.*\+(\d+))?\+e(\d+)\+s(\d)\.seg$")


class Segment:
    """One file as it is now. version: None while it is open. owner: the rank whose part it is;
    home: its own."""

    def __init__(self, path):
        self.path = path
        m = NAME.match(os.path.basename(path))
        self.job, self.rank, self.plan = int(m[1]), int(m[3]), int(m[5])
        self.home = m[4] is None
        self.owner = self.rank if self.home else int(m[4])
        with open(path, "rb") as f:
            data = f.read(ROWS)
            _, _, n, _, hashes, self.area, _, _ = struct.unpack_from("<QIIQQQQQ", data)
            version, _, _, sealed = struct.unpack_from("<QQQQ", data, SEAL)
            self.version = version if sealed == SEALED and version != NONE else None
            f.seek(ROWS)
            table = f.read(hashes - ROWS)
        self.n, self.hashes, each = n, hashes, (hashes - ROWS) // n
        self.rows = [self.row(table[i * each:(i + 1) * each]) for i in range(n)]

    @staticmethod
    def row(data):
        """(place in the area, bytes, those of an element)"""
        dtype, rank = struct.unpack_from("<I", data, 8)[0], data[48]
        lo, hi = struct.unpack_from("<4q", data, 56), struct.unpack_from("<4q", data, 88)
        count = 1
        for d in range(rank):
            count *= hi[d] - lo[d]
        return struct.unpack_from("<q", data, 120)[0], count * ITEM[dtype], ITEM[dtype]

    def place(self, rnd, part):
        """Where a byte of @part lies: head, seal, table, hashes, contents."""
        if part == "head":
            return rnd.randrange(HEAD)
        if part == "seal":
            return SEAL + rnd.randrange(32)
        if part == "table":
            return rnd.randrange(ROWS, self.hashes)
        if part == "hashes":
            return self.hashes + rnd.randrange(8 * self.n)
        at, size, item = rnd.choice([r for r in self.rows if r[1] > 0])
        byte = rnd.randrange(size)
        # no bit that an update rounds away
        return self.area + at + byte + (item // 4 if byte % item < item // 4 else 0)

    def flip(self, rnd, part="contents"):
        flip_bit(rnd, self.path, self.place(rnd, part))

    def flip_live(self, rnd, pid, base):
        """The same of an element where process @pid computes with it: there the area of this
        segment begins at @base."""
        flip_bit(rnd, "/proc/%d/mem" % pid, base + self.place(rnd, "contents") - self.area)


def flip_bit(rnd, path, at):
    with open(path, "r+b", buffering=0) as f:
        byte = os.pread(f.fileno(), 1, at)[0]
        os.pwrite(f.fileno(), bytes([byte ^ 1 << rnd.randrange(8)]), at)


def scan(folder):
    """All segments below @folder, the agents' state; files that are no segment (any more) are
    passed over.
    """
    out = []
    for at, _, files in os.walk(folder):
        for name in sorted(files):
            if NAME.match(name):
                try:
                    out.append(Segment(os.path.join(at, name)))
                except (OSError, struct.error, IndexError, ZeroDivisionError):
                    pass
    return out
