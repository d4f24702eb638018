#!/usr/bin/env python3
"""Checks how the product is cut into rooms, files and headers.

    HSPMD_BUILD=build scripts/check-rooms.py [--list] [--root DIR] [--rooms FILE]

A room is a folder below proto, daemon or worker. scripts/rooms.txt states the order of the rooms.
The script reads the sources, and the calls in the objects of the built tree HSPMD_BUILD.

 1. A room calls and includes only itself and rooms that stand before it in rooms.txt. Example:
    a call of hsp_net_send() in proto/base/str.c is a breach, since proto/net stands later.
 2. No files use each other in a circle. Example: a.c calls b.c, b.c calls c.c, c.c calls a.c.
 3. The header foo.h declares the exported functions of foo.c. At least 95 % of them all obey.
 4. Each struct, union or enum hsp_x has one definition, and no function has the name of one.

--list also prints the rooms, the calls between rooms and the functions that break rule 3.
Exit: 0 no breach, 1 a breach, 77 not judgeable."""
import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMON = "proto"  # the side that the other sides may use
SIDES = [COMMON, "daemon", "worker"]
COMPILED = (".c", ".cu")
SOURCES = (*COMPILED, ".h", ".cuh", ".inc")
LEAST_DECLARED = 95.0  # per cent
BATCH = 100  # objects that one nm reads
# A prototype at the start of a line. ctags 5.9 misses those behind "typedef enum x (*f)(void);".
PROTOTYPE = re.compile(r"^(?!typedef\b|static\b)\w[\w \t*]*\b(hsp_\w+)\(", re.MULTILINE)


class Rooms:
    """The order of rooms.txt. The floor of a room is the number of its line."""

    def __init__(self, path):
        self.floor, self.bad = {}, []
        with open(path, encoding="utf-8") as lines:
            for level, line in enumerate(lines):
                for room in line.split("#")[0].split("|"):
                    self.add(room.strip(), level, path)

    def add(self, room, level, path):
        if room in self.floor:
            self.bad.append(f"{path}: {room} stands twice")
        elif room:
            self.floor[room] = level

    def of(self, path):
        """The nearest listed folder above a file, or None: proto/base/x/y.c -> proto/base."""
        folder = os.path.dirname(path)
        while folder and folder not in self.floor:
            folder = os.path.dirname(folder)
        return folder or None

    def may_use(self, user, used):
        """True for daemon/app and proto/net; False for daemon/app and worker/exec."""
        if user == used:
            return True
        side = used.split("/")[0]
        return side in (COMMON, user.split("/")[0]) and self.floor[used] < self.floor[user]


class Symbols:
    """The symbols that the objects of a built tree define and use."""

    def __init__(self, build, sources):
        self.definers = defaultdict(set)   # symbol -> files that define it
        self.functions = defaultdict(set)  # file -> its exported functions
        self.uses = defaultdict(set)       # file -> symbols that it needs from elsewhere
        source_of = {}
        known = set(sources)
        for obj in files_below(build, (".o",)):
            source_of[obj] = source_of_object(obj, known)
        self.built = {source for source in source_of.values() if source}
        self.leftover = [obj for obj, source in source_of.items() if source is None]
        for obj, kind, name in read_objects(build, [obj for obj in source_of if source_of[obj]]):
            self.note(source_of[obj], kind, name)

    def note(self, source, kind, name):
        """Notes one line of nm. Letters of undefined symbols: U, or w and v for weak ones."""
        if name == "main":
            return
        if kind in "Uwv":
            self.uses[source].add(name)
            return
        self.definers[name].add(source)
        if kind in "Ti" and name.startswith("hsp_"):
            self.functions[source].add(name)

    def arrows(self):
        """{(user, used): symbols} of different files."""
        found = defaultdict(set)
        for user, names in self.uses.items():
            for name in names:
                for used in self.definers.get(name, set()) - {user}:
                    found[user, used].add(name)
        return found


class Tags:
    """The declarations that ctags finds in the C files and headers below root."""

    def __init__(self, root, sources):
        self.prototypes = defaultdict(set)  # file -> functions that it declares
        self.functions = {}                 # function -> where
        self.types = defaultdict(list)      # struct, union or enum -> where
        files = [path for path in sources if path.endswith((".c", ".h"))]
        text = output("ctags", "--quiet", "--options=NONE", "--sort=no", "--language-force=C",
                      "--kinds-C=psugf", "--_xformat=%K\t%N\t%F\t%n", "-x", "-L", "-",
                      cwd=root, input="\n".join(files))
        for line in text.splitlines():
            kind, name, path, number = line.split("\t")
            if name.startswith("hsp_"):
                self.note(kind, name, path, f"{path}:{number}")
        for path in files:
            self.add_prototypes(root, path)

    def note(self, kind, name, path, place):
        if kind in ("struct", "union", "enum"):
            self.types[name].append(f"{place} ({kind})")
            return
        if kind == "prototype":
            self.prototypes[path].add(name)
            self.functions.setdefault(name, place)
        else:
            self.functions[name] = place

    def add_prototypes(self, root, path):
        if path.endswith(".h"):
            with open(os.path.join(root, path), encoding="utf-8") as header:
                self.prototypes[path].update(PROTOTYPE.findall(header.read()))


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def files_below(top, endings):
    """The files of all sides below top, with these endings, as paths relative to top."""
    found = []
    for side in SIDES:
        for folder, _, names in os.walk(os.path.join(top, side)):
            found += [os.path.relpath(os.path.join(folder, name), top)
                      for name in names if name.endswith(endings) and name[0] != "."]
    return sorted(found)


def source_of_object(obj, sources):
    """The source of an object: worker/comm/libcomm_a-runs.o -> worker/comm/runs.c.

    Automake may put the name of a library and a dash before the name of the source. The objects
    of CUDA kernels end in .nv.o, or in .fake.o where the tests compile the kernels for the host."""
    folder, name = os.path.split(obj)
    name = re.sub(r"(\.nv|\.fake)?\.o$", "", name)
    while name:
        for ending in COMPILED:
            path = os.path.join(folder, name + ending)
            if path in sources:
                return path
        name = name.partition("-")[2]
    return None


def read_objects(build, objects):
    """Yields (object, letter, symbol) for each external symbol."""
    for start in range(0, len(objects), BATCH):
        text = output("nm", "-A", "-g", *objects[start:start + BATCH], cwd=build)
        for line in text.splitlines():
            obj, _, symbol = line.partition(".o:")
            kind, name = symbol.split()[-2:]
            yield obj + ".o", kind, name


def some(names, most=2):
    """Names the first symbols of a set: "hsp_a, hsp_b and 3 more"."""
    names = sorted(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def not_built(symbols, sources):
    """C files without an object beside built ones. A folder without objects, such as that for
    CUDA on a machine without CUDA, is not judged."""
    folders = {os.path.dirname(path) for path in symbols.built}
    return [f"{path}: no object of it, build again" for path in sources if path.endswith(".c")
            and path not in symbols.built and os.path.dirname(path) in folders]


# --- rule 1: the order of rooms -------------------------------------------------------------------
def bad_folders(rooms, root, sources):
    """Rooms without a folder, and folders without a room."""
    bad = [f"{room}: stands in the list of rooms, but is no folder"
           for room in rooms.floor if not os.path.isdir(os.path.join(root, room))]
    homeless = {os.path.dirname(path) for path in sources if rooms.of(path) is None}
    return bad + [f"{folder}: a folder in no room" for folder in sorted(homeless)]


def bad_calls(rooms, arrows):
    bad = []
    for (user, used), names in sorted(arrows.items()):
        above, below = rooms.of(user), rooms.of(used)
        if above and below and not rooms.may_use(above, below):
            bad.append(f"{user} -> {used}: {above} must not call {below}: {some(names)}")
    return bad


def includes(root, path):
    """Yields (line number, included path) for each #include with quotes."""
    with open(os.path.join(root, path), encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if match:
                yield number, match.group(1)


def bad_includes(rooms, root, sources):
    bad = []
    for path in sources:
        user = rooms.of(path)
        for number, header in includes(root, path) if user else ():
            used = rooms.of(header)
            if used is None:
                bad.append(f"{path}:{number}: include by full path from the top: {header}")
            elif not rooms.may_use(user, used):
                bad.append(f"{path}:{number}: {user} must not include {used}: {header}")
    return bad


# --- rule 2: no circles of files ------------------------------------------------------------------
def reachable(start, following):
    """All files to which arrows lead from start. start itself is among them in a circle."""
    seen, todo = set(), [start]
    while todo:
        new = following[todo.pop()] - seen
        seen |= new
        todo += new
    return seen


def circles(arrows):
    """The sets of files each of which reaches all others."""
    following = defaultdict(set)
    for user, used in arrows:
        following[user].add(used)
    reach = {path: reachable(path, following) for path in list(following)}
    left = {path for path in reach if path in reach[path]}
    found = []
    while left:
        first = min(left)
        circle = {path for path in reach[first] & left if first in reach[path]}
        found.append(sorted(circle))
        left -= circle
    return found


def bad_circles(found, arrows):
    bad = []
    for files in found:
        lines = [f"circle of {len(files)} files: {' '.join(files)}"]
        for user in files:
            lines += [f"    {user} -> {used}: {some(arrows[user, used])}"
                      for used in files if (user, used) in arrows]
        bad.append("\n".join(lines))
    return bad


# --- rule 3: functions are declared in the header of their stem -----------------------------------
def undeclared(symbols, tags):
    """{file: functions that the header of its stem does not declare}."""
    found = {}
    for source, names in sorted(symbols.functions.items()):
        header = os.path.splitext(source)[0] + ".h"
        outside = names - tags.prototypes[header]
        if outside:
            found[source] = sorted(outside)
    return found


def share_declared(symbols, outside):
    """Per cent of the exported functions that the header of their stem declares."""
    total = sum(len(names) for names in symbols.functions.values())
    return 100.0 * (total - sum(len(names) for names in outside.values())) / max(total, 1)


def lines_of(outside):
    return [f"    {source}: {' '.join(names)}" for source, names in outside.items()]


def bad_declarations(outside, share):
    if share >= LEAST_DECLARED:
        return []
    head = (f"{share:.1f} % of the exported functions are declared in the header of their stem, "
            f"at least {LEAST_DECLARED:.0f} % must be; these are not:")
    return ["\n".join([head, *lines_of(outside)])]


# --- rule 4: one definition for each type, and names of their own ---------------------------------
def bad_types(tags):
    bad = []
    for name, places in sorted(tags.types.items()):
        if len(places) > 1:
            bad.append(f"{name}: defined {len(places)} times: {', '.join(places)}")
        if name in tags.functions:
            bad.append(f"{name}: a function, {tags.functions[name]}, and a type, {places[0]}")
    return bad


# --- the whole ------------------------------------------------------------------------------------
def print_details(rooms, sources, symbols, arrows, outside):
    files, calls = defaultdict(int), defaultdict(set)
    for path in sources:
        files[rooms.of(path)] += 1
    for (user, used), names in arrows.items():
        calls[rooms.of(user), rooms.of(used)] |= names
    print("rooms:")
    for room in rooms.floor:
        print(f"    {room}: {files[room]} files")
        for used in rooms.floor:
            if used != room and (room, used) in calls:
                print(f"        uses {used}: {some(calls[room, used])}")
    print("functions outside the header of their stem:", *lines_of(outside), sep="\n")
    if symbols.leftover:
        print("objects without a source:", *symbols.leftover, sep="\n    ")


def why_not_judged():
    """The reason why this machine cannot check, or None."""
    for tool in ("nm", "ctags"):
        if shutil.which(tool) is None:
            return f"no {tool} on this machine"
    if not output("ctags", "--version").startswith("Universal Ctags"):
        return "ctags is not Universal Ctags"
    return None


def check(root, build, rooms, details):
    """Prints each breach and a summary; returns True if there is no breach."""
    sources = files_below(root, SOURCES)
    symbols, tags = Symbols(build, sources), Tags(root, sources)
    if not symbols.functions or not tags.functions:
        print(f"{root}, {build}: no sources or no objects, build first")
        return False
    arrows = symbols.arrows()
    found = circles(arrows)
    outside = undeclared(symbols, tags)
    share = share_declared(symbols, outside)
    if details:
        print_details(rooms, sources, symbols, arrows, outside)
    bad = not_built(symbols, sources) + rooms.bad + bad_folders(rooms, root, sources)
    bad += bad_calls(rooms, arrows) + bad_includes(rooms, root, sources)
    bad += bad_circles(found, arrows) + bad_declarations(outside, share) + bad_types(tags)
    for breach in bad:
        print(breach)
    print(f"rooms: {len(rooms.floor)} rooms, {len(sources)} files, "
          f"{sum(map(len, arrows.values()))} calls, {len(found)} circles, {share:.1f} % of "
          f"{sum(map(len, symbols.functions.values()))} functions declared in the header of their "
          "stem")
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print all that was found")
    parser.add_argument("--root", default=HOME, help="the source tree")
    parser.add_argument("--rooms", help="the list of rooms (default: scripts/rooms.txt)")
    args = parser.parse_args()
    reason = why_not_judged()
    if reason:
        print(f"{reason}: not judged")
        return 77
    build = os.environ.get("HSPMD_BUILD", os.path.join(args.root, "build"))
    rooms = Rooms(args.rooms or os.path.join(args.root, "scripts/rooms.txt"))
    return 0 if check(args.root, build, rooms, args.list) else 1


if __name__ == "__main__":
    sys.exit(main())
