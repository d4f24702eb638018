#!/usr/bin/env python3
"""Checks that every public function of a pure library, and of the shells that report damaged,
absent or changed data, that can allocate has been on the stack when an allocation failed
(tests/unit/oom).

Public: declared in a header of a room of scripts/pure-rooms.txt or of SHELLS. A room's own are the
functions of the state machines (hsp_ci_, hsp_ai_) and of a header "X_impl.h" or one that includes
it. Can allocate: reaches malloc, an arena or the like over calls, taken addresses and tables in the
machine code. On the stack: named by the addresses that the test programs left in PROGRAM.stacks;
a function called at such an address counts too, for a last call leaves no frame. Exit: 0 all, 1
not, 77 not judgeable."""
import glob
import os
import platform
import re
import subprocess
import sys

SRC = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("HSPMD_BUILD", os.getcwd())
ROOTS = re.compile(r"^(malloc|calloc|realloc|aligned_alloc|posix_memalign|v?asprintf|strn?dup"
                   r"|__v?asprintf_chk|(__wrap_|__real_)?hsp_arena_(alloc|array|strn?dup|memdup|printf)"
                   r"|cJSON_(Parse|Create|Add|Print|Duplicate)\w*|yaml_\w*parse\w*|glp_\w+)$")


# Walks the table of commands, which allocate, and calls none.
ONLY_LOOKS = {"hsp_command_find"}
SHELLS = ["daemon/ctl", "worker/data", "worker/exec", "worker/state"]


def rooms():
    lines = [line.split() for line in open(SRC + "/scripts/pure-rooms.txt") if line[0] != "#"]
    return [os.path.dirname(words[0]) for words in lines if words] + SHELLS


def public_functions():
    found = {}
    for room in rooms():
        for header in glob.glob(os.path.join(SRC, room, "*.h")):
            text = re.sub(r"/\*.*?\*/", " ", open(header).read(), flags=re.S)
            if header.endswith("_impl.h") or "_impl.h\"" in text:
                continue
            for name in re.findall(r"^(?!static|typedef)[a-z][\w \t]*?[\s*](hsp_\w+)\s*\((?!\*)", text, re.M):
                if not re.match("hsp_(ci|ai)_", name):
                    found[name] = os.path.relpath(header, SRC)
    return found


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


class Program:
    """Finds callers and takers of addresses, and the call just before each address."""

    def __init__(self, path):
        self.edges, self.called_before, self.owner = {}, {}, []
        tables = self.tables(path)
        here, before = None, None
        for line in lines("objdump", "-d", "--no-show-raw-insn", path):
            m = re.match(r"([0-9a-f]+) <([^>]+)>:", line)
            if m:
                here, before = self.plain(m.group(2)), None
                self.edges.setdefault(here, set())
                self.owner.append((int(m.group(1), 16), here))
                continue
            m = re.match(r"\s*([0-9a-f]+):\s+(\S+)", line)
            if not m or here is None:
                continue
            if before is not None:
                self.called_before[int(m.group(1), 16)] = before
            before = None
            m2 = re.search(r"<([^>+]+)(\+0x[0-9a-f]+)?>", line)
            if m2:
                to = self.plain(m2.group(1))
                if m.group(2).startswith("call"):
                    before = to
                if to != here:
                    self.edges[here].add(to)
        for table, names in tables.items():
            self.edges.setdefault(table, set()).update(names)
        self.owner.sort()

    @staticmethod
    def plain(name):
        return re.sub(r"(\.(part|isra|constprop|cold|lto_priv|resolver|avx2|avx512f|default)"
                      r"(\.\d+)?)+$", "", name.split("@")[0])

    def tables(self, path):
        """Data objects, and the functions whose addresses they hold."""
        data, code = [], {}
        for line in lines("nm", "-S", path):
            part = line.split()
            if len(part) == 4:
                at, size, kind, name = int(part[0], 16), int(part[1], 16), part[2], part[3]
                if kind in "tT":
                    code[at] = self.plain(name)
                elif kind in "dDrRbB":
                    data.append((at, at + size, self.plain(name)))
        data.sort()
        held = {}
        for line in lines("readelf", "-rW", path):
            m = re.match(r"([0-9a-f]{8,})\s+\S+\s+R_\w+_RELATIVE\s+([0-9a-f]+)", line)
            if m and int(m.group(2), 16) in code:
                at = int(m.group(1), 16)
                for lo, hi, name in data:
                    if lo <= at < hi:
                        held.setdefault(name, set()).add(code[int(m.group(2), 16)])
        return held

    def owner_of(self, at):
        lo, hi = 0, len(self.owner)
        while lo < hi:
            mid = (lo + hi) // 2
            lo, hi = (mid + 1, hi) if self.owner[mid][0] <= at else (lo, mid)
        return self.owner[lo - 1][1] if lo else None

    def allocating(self):
        callers = {}
        for of, names in self.edges.items():
            for name in names:
                callers.setdefault(name, set()).add(of)
        todo = [name for name in set(self.edges) | set(callers) if ROOTS.match(name)]
        seen = set(todo)
        while todo:
            for of in callers.get(todo.pop(), ()):
                if of not in seen:
                    seen.add(of)
                    todo.append(of)
        return seen

    def on_stack(self, path):
        seen = set()
        for line in open(path):
            at = int(line, 16)
            if at in self.called_before:
                seen.add(self.called_before[at].removeprefix("__wrap_"))
            seen.add((self.owner_of(at - 1) or "").removeprefix("__wrap_"))
        return seen


def main():
    programs = sorted(glob.glob(BUILD + "/tests/unit/oom/oom_*_test"))
    if platform.machine() != "x86_64":
        print("reads the machine code of x86-64 only: not judged")
        return 77
    public = public_functions()
    linked, allocating, seen, parsed = set(), set(), set(), {}
    for path in programs:
        real = os.path.realpath(path)  # many are links to one program
        if real not in parsed:
            if "__asan_init" in (names := "\n".join(lines("nm", path))) or "__tsan_init" in names:
                print("built with a sanitizer: not judged")
                return 77
            parsed[real] = Program(path)
            linked |= set(parsed[real].edges)
            allocating |= parsed[real].allocating()
        program = parsed[real]
        if not os.path.exists(path + ".stacks"):
            print(f"{path}: has not run")
            return 1
        seen |= program.on_stack(path + ".stacks")
    bad = 0
    n = 0
    for name, header in sorted(public.items(), key=lambda x: (x[1], x[0])):
        if name not in linked and name not in seen:
            print(f"{header}: {name}: in none of the programs of tests/unit/oom")
            bad += 1
        elif name in allocating and name not in seen | ONLY_LOOKS:
            print(f"{header}: {name}: allocates, and no failure was seen below it")
            bad += 1
        n += name in allocating
    if n == 0 or not programs:
        print("nothing to judge: a gate without its input fails")
        bad += 1
    print(f"{len(public)} public functions, {n} allocate, {bad} complaints")
    return 1 if bad else 0


sys.exit(main())
