#!/usr/bin/env python3
"""Breaks each rule of scripts/check-rooms.py in a small product, and looks for the breach.

The small product has six rooms and one function per file. Each test adds one fault to it."""
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the source tree stays as it is
HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.abspath(os.environ.get("HSPMD_SRC", os.path.join(HERE, "../../..")))
CHECK = os.path.join(SRC, "scripts/check-rooms.py")
ROOMS = """# lowest first
proto/base
proto/net

daemon/left | daemon/right
daemon/app
worker/app
"""
# Each file and the functions that it calls: X.c defines hsp_X() and X.h declares it.
SOUND = {
    "proto/base/str": [],
    "proto/base/hash": ["proto/base/str"],
    "proto/net/send": ["proto/base/str"],
    "daemon/left/left": ["proto/base/hash"],
    "daemon/right/right": ["proto/net/send"],
    "daemon/right/parts/part": ["daemon/right/right"],
    "daemon/app/daemon": ["daemon/left/left", "daemon/right/parts/part"],
    "worker/app/worker": ["proto/net/send"],
}


def function_of(file):
    return "hsp_" + os.path.basename(file)


def prototype(name):
    return f"int {name}(int x);\n"


class Product:
    """A source tree and a build tree in a temporary folder."""

    def __init__(self, folder):
        self.root, self.build = os.path.join(folder, "src"), os.path.join(folder, "build")
        self.rooms = os.path.join(folder, "rooms.txt")
        with open(self.rooms, "w", encoding="utf-8") as file:
            file.write(ROOMS)
        for file, used in SOUND.items():
            self.write_file(file, used)

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def append(self, path, text):
        with open(os.path.join(self.root, path), "a", encoding="utf-8") as file:
            file.write(text)

    def write_file(self, file, used):
        """Writes a header and a C file, which repeats the prototypes that it needs: an #include
        would break the order of rooms as well as the call."""
        name = function_of(file)
        calls = "".join(f" + {function_of(other)}(x)" for other in used)
        self.write(file + ".h", prototype(name))
        self.write(file + ".c", "".join(prototype(function_of(other)) for other in used) +
                   f'#include "{file}.h"\nint {name}(int x) {{ return x{calls}; }}\n')

    def compile(self):
        """Compiles as automake does; half of the objects carry the name of a library."""
        for folder, _, names in os.walk(self.root):
            place = os.path.relpath(folder, self.root)
            os.makedirs(os.path.join(self.build, place), exist_ok=True)
            for number, name in enumerate(sorted(n for n in names if n.endswith(".c"))):
                obj = ("libsmall_a-" if number % 2 == 0 else "") + name[:-2] + ".o"
                subprocess.run(["cc", "-I.", "-c", os.path.join(place, name),
                                "-o", os.path.join(self.build, place, obj)],
                               cwd=self.root, check=True)

    def check(self, *options):
        """Runs the check; returns its exit status, and its lines without the summary."""
        self.compile()
        done = subprocess.run([sys.executable, CHECK, "--root", self.root, "--rooms", self.rooms,
                               *options], env=dict(os.environ, HSPMD_BUILD=self.build),
                              stdout=subprocess.PIPE, text=True, check=False)
        lines = done.stdout.splitlines()
        return done.returncode, lines[:-1], lines[-1]


class CheckRooms(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.product = Product(folder.name)

    def finds(self, *lines):
        """The check fails and prints these lines alone."""
        status, found, _ = self.product.check()
        self.assertEqual(found, list(lines))
        self.assertEqual(status, 1)

    def test_passes_a_sound_product(self):
        status, found, summary = self.product.check()
        self.assertEqual((status, found), (0, []))
        self.assertEqual(summary, "rooms: 6 rooms, 16 files, 8 calls, 0 circles, 100.0 % of "
                                  "8 functions declared in the header of their stem")

    def test_lists_the_calls_between_rooms(self):
        status, found, _ = self.product.check("--list")
        self.assertEqual(status, 0)
        self.assertIn("        uses proto/net: hsp_send", found)

    def test_finds_a_call_of_a_higher_room(self):
        self.product.write_file("proto/base/str", ["proto/net/dial"])
        self.product.write_file("proto/net/dial", [])
        self.finds("proto/base/str.c -> proto/net/dial.c: proto/base must not call proto/net: "
                   "hsp_dial")

    def test_finds_a_use_of_data_of_a_higher_room(self):
        self.product.append("proto/base/str.c", "extern int hsp_limit;\nint *hsp_str_limit(void);\n"
                            "int *hsp_str_limit(void) { return &hsp_limit; }\n")
        self.product.append("proto/base/str.h", "int *hsp_str_limit(void);\n")
        self.product.write("proto/net/limit.c", "int hsp_limit = 3;\n")
        self.finds("proto/base/str.c -> proto/net/limit.c: proto/base must not call proto/net: "
                   "hsp_limit")

    def test_finds_a_call_of_the_other_side(self):
        self.product.write_file("worker/app/worker", ["daemon/left/left"])
        self.finds("worker/app/worker.c -> daemon/left/left.c: worker/app must not call "
                   "daemon/left: hsp_left")

    def test_finds_a_call_between_rooms_of_one_line(self):
        self.product.write_file("daemon/left/left", ["daemon/right/right"])
        self.finds("daemon/left/left.c -> daemon/right/right.c: daemon/left must not call "
                   "daemon/right: hsp_right")

    def test_finds_a_call_from_a_folder_without_a_line_of_its_own(self):
        self.product.write_file("daemon/right/parts/part", ["daemon/left/left"])
        self.finds("daemon/right/parts/part.c -> daemon/left/left.c: daemon/right must not call "
                   "daemon/left: hsp_left")

    def test_finds_an_include_of_a_higher_room(self):
        self.product.append("proto/base/str.h", '#include "proto/net/send.h"\n')
        self.finds("proto/base/str.h:2: proto/base must not include proto/net: proto/net/send.h")

    def test_finds_an_include_between_rooms_of_one_line(self):
        self.product.append("daemon/right/right.c", '#include "daemon/left/left.h"\n')
        self.finds("daemon/right/right.c:4: daemon/right must not include daemon/left: "
                   "daemon/left/left.h")

    def test_finds_an_include_without_its_full_path(self):
        self.product.append("proto/base/str.c", '#include "str.h"\n')
        self.finds("proto/base/str.c:3: include by full path from the top: str.h")

    def test_finds_a_circle_of_files(self):
        self.product.write_file("proto/base/str", ["proto/base/deep"])
        self.product.write_file("proto/base/deep", ["proto/base/hash"])
        self.finds("circle of 3 files: proto/base/deep.c proto/base/hash.c proto/base/str.c",
                   "    proto/base/deep.c -> proto/base/hash.c: hsp_hash",
                   "    proto/base/hash.c -> proto/base/str.c: hsp_str",
                   "    proto/base/str.c -> proto/base/deep.c: hsp_deep")

    def test_finds_functions_declared_elsewhere(self):
        self.product.write("proto/base/str.h", "")
        self.product.append("proto/base/hash.h", prototype("hsp_str"))
        self.finds("87.5 % of the exported functions are declared in the header of their stem, at "
                   "least 95 % must be; these are not:", "    proto/base/str.c: hsp_str")

    def test_allows_few_functions_declared_elsewhere(self):
        names = [f"hsp_many_{number}" for number in range(20)]
        self.product.write("proto/base/many.h", "".join(map(prototype, names[1:])))
        self.product.write("proto/base/many.c", "".join(f"int {name}(int x) {{ return x; }}\n"
                                                        for name in names))
        status, found, summary = self.product.check()
        self.assertEqual((status, found), (0, []))
        self.assertIn(" 96.4 % of 28 functions ", summary)

    def test_sees_a_prototype_behind_a_typedef(self):
        self.product.write("proto/base/str.h", "enum hsp_e { HSP_E };\n"
                           "typedef enum hsp_e (*hsp_f)(int x);\n" + prototype("hsp_str"))
        self.assertEqual(self.product.check()[:2], (0, []))

    def test_finds_a_type_defined_twice(self):
        self.product.append("daemon/left/left.h", "struct hsp_task {\n    int a;\n};\n")
        self.product.append("worker/app/worker.c", "struct hsp_task {\n    long b;\n};\n")
        self.finds("hsp_task: defined 2 times: daemon/left/left.h:2 (struct), "
                   "worker/app/worker.c:4 (struct)")

    def test_finds_the_name_of_a_type_at_a_union_and_an_enum(self):
        self.product.append("proto/base/str.h", "union hsp_word {\n    int a;\n};\n")
        self.product.append("proto/net/send.h", "enum hsp_word { HSP_WORD };\n")
        self.finds("hsp_word: defined 2 times: proto/base/str.h:2 (union), "
                   "proto/net/send.h:2 (enum)")

    def test_allows_a_local_type_in_two_files(self):
        self.product.append("daemon/left/left.c", "struct task {\n    int a;\n};\n")
        self.product.append("worker/app/worker.c", "struct task {\n    long b;\n};\n")
        self.assertEqual(self.product.check()[:2], (0, []))

    def test_allows_a_type_that_is_declared_in_two_files(self):
        self.product.append("daemon/left/left.h", "struct hsp_task;\n")
        self.product.append("daemon/right/right.h", "struct hsp_task {\n    int a;\n};\n")
        self.assertEqual(self.product.check()[:2], (0, []))

    def test_finds_a_type_and_a_function_of_one_name(self):
        self.product.append("proto/net/send.h", "struct hsp_str {\n    int a;\n};\n")
        self.finds("hsp_str: a function, proto/base/str.c:2, and a type, "
                   "proto/net/send.h:2 (struct)")

    def test_finds_a_folder_in_no_room(self):
        self.product.write_file("daemon/new/thing", [])
        self.finds("daemon/new: a folder in no room")

    def test_finds_a_room_without_a_folder(self):
        with open(self.product.rooms, "a", encoding="utf-8") as rooms:
            rooms.write("worker/gone\n")
        self.finds("worker/gone: stands in the list of rooms, but is no folder")

    def test_finds_a_room_that_stands_twice(self):
        with open(self.product.rooms, "a", encoding="utf-8") as rooms:
            rooms.write("proto/net\n")
        self.finds(f"{self.product.rooms}: proto/net stands twice")

    def test_finds_a_file_that_was_not_built(self):
        self.product.compile()
        self.product.compile = lambda: None
        self.product.write_file("proto/base/late", [])
        self.finds("proto/base/late.c: no object of it, build again")

    def test_knows_the_source_of_an_object(self):
        spec = importlib.util.spec_from_file_location("checkrooms", CHECK)
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        sources = {"a/runs.c", "a/two-words.c", "a/map.cu"}
        objects = ["a/runs.o", "a/libx_a-runs.o", "a/libx_a-two-words.o", "a/map.nv.o",
                   "a/map.fake.o", "a/gone.o", "b/runs.o"]
        self.assertEqual([script.source_of_object(obj, sources) for obj in objects],
                         ["a/runs.c", "a/runs.c", "a/two-words.c", "a/map.cu", "a/map.cu", None,
                          None])

    def test_fails_without_a_built_tree(self):
        self.product.compile = lambda: None
        status, _, last = self.product.check()
        self.assertEqual(status, 1)
        self.assertIn("build first", last)


if __name__ == "__main__":
    if shutil.which("ctags") is None:
        print("no ctags on this machine: not judged")
        sys.exit(77)
    unittest.main()
