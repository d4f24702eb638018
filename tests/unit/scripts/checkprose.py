#!/usr/bin/env python3
"""Breaks each rule of scripts/check-prose.py in small files, and looks for the breach."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the source tree stays as it is
HERE = os.path.dirname(os.path.abspath(__file__))
SRC = os.path.abspath(os.environ.get("HSPMD_SRC", os.path.join(HERE, "../../..")))
CHECK = os.path.join(SRC, "scripts/check-prose.py")
SPEC = importlib.util.spec_from_file_location("checkprose", CHECK)
SCRIPT = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(SCRIPT)
LONG = "word " * 20  # reaches column 100 behind the marks of a comment


def count(reader, source):
    """The lines with clauses, with pronouns, and beyond column 100."""
    found = SCRIPT.Count()
    found.add("x", reader(source))
    return tuple([line for _, line, _ in places]
                 for places in (found.clauses, found.pronouns, found.long))


class Sentences(unittest.TestCase):
    """Made-up sentences, each a comment of a C file."""

    def clauses(self, text):
        return len(count(SCRIPT.c_prose, f"/* {text} */")[0])

    def pronouns(self, text):
        return len(count(SCRIPT.c_prose, f"/* {text} */")[1])

    def test_finds_clauses(self):
        self.assertEqual(self.clauses("What a rank keeps is sent to whoever asks."), 2)
        self.assertEqual(self.clauses("Tells who sent it, whatever the time."), 2)

    def test_allows_other_words_and_quotes(self):
        self.assertEqual(self.clauses("The whole state, somewhat late, for whom it may serve."), 0)
        self.assertEqual(self.clauses('Prints "who: what", `what`, @what and x->what.'), 0)

    def test_finds_pronouns_at_the_beginning_of_a_sentence(self):
        for text in ("It is sent.", "They go first.", "This is sent.", "That of a rank is sent.",
                     "Those which wait are sent.", "A rank ends. These are sent.",
                     "Rule: It is sent.", "it is sent"):
            self.assertEqual(self.pronouns(text), 1, text)

    def test_allows_a_pronoun_with_its_noun(self):
        for text in ("This rank is sent.", "That message is sent.", "These two ranks wait.",
                     "A rank sends it. Then it ends.", "Itself a rank.", "Its rank waits."):
            self.assertEqual(self.pronouns(text), 0, text)


class Files(unittest.TestCase):
    """Each kind of file: prose is found at its line, and code is left out."""

    def test_comments_of_c(self):
        source = ('char *a = "/* what */"; /* what\n * it is, who */\n/* A row.\n *\n'
                  ' * This is last. */\nint what; // whoever\n')
        self.assertEqual(count(SCRIPT.c_prose, source), ([1, 2, 6], [5], []))

    def test_long_comments_of_c(self):
        source = (f"/* {LONG} */\nint {'x' * 120};\nint {'x' * 80}; /* beyond the column */\n"
                  f"/* {LONG} https://example.org/ */\n")
        self.assertEqual(count(SCRIPT.c_prose, source)[2], [1, 3])

    def test_tags_begin_a_sentence(self):
        source = "/* Sends a row.\n *\n * @row   it is sent\n * Threads:   this is locked\n */\n"
        self.assertEqual(count(SCRIPT.c_prose, source), ([], [3, 4], []))

    def test_python(self):
        source = ('#!/usr/bin/env what\n"""Runs what is there.\n\n    x.py what\n"""\n'
                  f'a = "who"  # whoever\n# It is last.\n# {LONG}x\nb = """\n# what\n"""\n')
        self.assertEqual(count(SCRIPT.python_prose, source), ([2, 6], [7], [8]))

    def test_shell(self):
        source = ('#!/bin/what\necho "# who"\na=${b#what} # whatever\n# This is\n# what it is.\n')
        self.assertEqual(count(SCRIPT.hash_prose, source), ([3, 5], [4], []))

    def test_readme(self):
        source = (f"# What it does\n\nA row. It is\nwhat we send.\n\n    what is code\n    # {LONG}x\n\n"
                  f"```\nwhat is code\n```\n* These are sent.\n{LONG}x\n")
        self.assertEqual(count(SCRIPT.markdown_prose, source), ([1, 4], [3, 12], [13]))

    def test_tables_of_a_readme(self):
        source = f"| script | what |\n|---|---|\n| a | who asks |\n| {LONG}{LONG} | |\n"
        self.assertEqual(count(SCRIPT.markdown_prose, source), ([3], [], []))

    def test_man_page(self):
        source = ('.\\" what\n.Sh NAME\n.Nd what a job is\n.It Ic what\nA row of\n.Ar what .\n'
                  'It is who waits.\n.Bd -literal\nwhat\n.Ed\n.It a Ta "who asks"\n')
        self.assertEqual(count(SCRIPT.man_prose, source), ([3, 7, 11], [7], []))


class Tree(unittest.TestCase):
    """A small product with three rooms: bounds, and the list of rooms that must pass."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.write("scripts/rooms.txt", "proto/base\n")
        self.write("scripts/prose-passing.txt", "proto/base\ntests/unit/a\n")
        self.write("proto/base/str.c", "/* Copies a row. */\n")
        self.write("tests/unit/a/b.py", "# Copies a row.\n")
        self.write("conf/README.md", "What, who and what.\n")

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def check(self, *rooms):
        done = subprocess.run([sys.executable, CHECK, "--root", self.root, *rooms],
                              stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout

    def test_a_room_that_is_not_listed_may_fail(self):
        status, text = self.check()
        self.assertEqual(status, 0)
        self.assertRegex(text, r"conf +not yet +4 words, +3 clauses")
        self.assertNotIn("conf/README.md:1", text)
        self.assertIn("prose: 2 of 3 rooms pass, 2 must", text)

    def test_a_listed_room_must_pass(self):
        self.write("tests/unit/a/d.c", "/* Copies a row.\n * What is it, and who? */\n")
        status, text = self.check()
        self.assertEqual(status, 1)
        self.assertIn("tests/unit/a/d.c:2: a clause headed by what or who: ", text)

    def test_a_room_of_unit_tests_is_a_folder_of_its_side(self):
        self.write("tests/unit/daemon/plan/x/d.c", "/* Copies a row. */\n")
        self.write("tests/lib/x/d.c", "/* Copies a row. */\n")
        self.assertRegex(self.check()[1], r"(?m)^tests/lib +passes[^|]*^tests/unit/daemon/plan +passes")

    def test_a_listed_room_has_no_long_line(self):
        self.write("proto/base/str.h", f"/* {LONG} */\n")
        status, text = self.check()
        self.assertEqual(status, 1)
        self.assertIn("proto/base/str.h:1: beyond column 100\n", text)

    def test_bounds_are_shares_of_the_words(self):
        words = "word " * 10 + "\n"
        self.write("proto/base/README.md", "what who who " + "\n" + words * 100)
        self.assertEqual(self.check()[0], 0)
        self.write("proto/base/README.md", "what who who who " + "\n" + words * 100)
        self.assertEqual(self.check()[0], 1)

    def test_a_listed_room_must_exist(self):
        self.write("scripts/prose-passing.txt", "proto/gone\n")
        status, text = self.check()
        self.assertEqual(status, 1)
        self.assertIn("proto/gone: in the list of rooms that pass, but without prose", text)

    def test_prints_every_place_of_a_named_room(self):
        status, text = self.check("conf")
        self.assertEqual(status, 0)
        self.assertEqual(text.count("conf/README.md:1: a clause headed by what or who"), 3)


if __name__ == "__main__":
    unittest.main()
