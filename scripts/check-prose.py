#!/usr/bin/env python3
"""Counts in the prose of each room the phrases and long lines at which readers stumble.

    scripts/check-prose.py [--list] [--root DIR] [--passing FILE] [ROOM...]

Prose is the text of READMEs and man pages, and the comments of C, CUDA, Python and shell sources,
make files, YAML files and systemd units. Code blocks, `code`, "quoted text" and URLs are no prose.
A room is a folder of scripts/rooms.txt, a folder of tests/ (of tests/unit/ those of its sides, such
as tests/unit/proto/base), or a folder at the top.

 1. At most 3 of the words "what", "who", "whoever" and "whatever" per 1,000 words, since they head
    clauses that stand in the place of a noun. Headings of tables are exempt. Example: "what a rank
    keeps of its peer" counts, "the state that a rank keeps of its peer" does not.
 2. At most 1 sentence per 1,000 words begins with a pronoun without its noun. Example:
    "This is sent first." counts, "This message is sent first." does not.
 3. No line of prose reaches beyond column 100. Tables, diagrams, lines with a URL, and files that
    programs print are exempt.
A room of few words may have one place by rule 1 and one by rule 2.

scripts/prose-passing.txt lists the rooms that must pass. The script prints each breach in those
rooms as FILE:LINE, and only the counts of the other rooms. --list prints every place of every
room. With rooms as arguments, those rooms alone are printed with all places.
Exit: 0 no breach in a room that must pass, 1 a breach."""
import argparse
import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from collections import defaultdict

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOST_CLAUSES = 3.0   # per 1,000 words
MOST_PRONOUNS = 1.0  # per 1,000 words
MOST_COLUMNS = 100
C_LIKE = (".c", ".h", ".cu", ".cuh", ".inc")
HASH_LIKE = (".sh", ".mk", ".am", ".yaml", ".service", ".conf")
PRINTED = ("conf/hspmdd.yaml", "conf/hspmd-worker.yaml")  # the output of --print-example
MAN = re.compile(r"\.[1-8]$")
CLAUSE = re.compile(r"(?<![@.>])\b(what|who|whoever|whatever)\b(?!')", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z][\w'-]*")
URL = re.compile(r"\w+://\S+")
# A word that cannot follow "this" as its noun: a verb, or a word that begins another phrase.
NO_NOUN = (r"(?:is|are|was|were|has|have|had|does|do|did|can|cannot|could|may|might|must|shall|"
           r"should|will|would|needs?|takes?|makes?|gives?|keeps?|holds?|means?|says?|goes|comes?|"
           r"costs?|lets?|leaves?|stays?|stands?|runs?|counts?|happens?|works?|fails?|"
           r"of|in|on|at|by|for|from|with|without|to|which|that|who|whose|what|and|or|not|alone|"
           r"only|also|too|it|they|we|then|never|always|here|there|above|below|behind|before|"
           r"after|between|beside|about|as|if|where|when)\b")
PRONOUN = re.compile(r"(?:It|They)\b(?!')|(?:This|That|These|Those)\s+" + NO_NOUN)
SENTENCE = re.compile(r"""(?<=[.!?:])["')\]]*\s+""")


class Block:
    """A paragraph: its text, and the line of the file in which each part of the text stands."""

    def __init__(self, heading=False):
        self.text, self.starts, self.heading = "", [], heading

    def add(self, number, text):
        self.starts.append((len(self.text), number))
        self.text += text.strip() + " "

    def line(self, offset):
        return max(number for start, number in self.starts if start <= offset)


class Prose:
    """The blocks of one file, and its lines of prose that are too long."""

    def __init__(self):
        self.blocks, self.long = [], []
        self.open = None

    def add(self, number, text, joins=True, heading=False):
        """Adds a line to the open block, or to a new one where it does not join the last line."""
        if not text.strip():
            self.open = None
            return
        if self.open is None or not joins or heading:
            self.open = Block(heading)
            self.blocks.append(self.open)
        self.open.add(number, text)

    def end(self):
        self.open = None

    def measure(self, number, line):
        """Notes a line of prose that is too long."""
        line = line.rstrip(" \\")  # a macro goes on: clang-format puts that mark anywhere
        if len(line) > MOST_COLUMNS and not URL.search(line) and "--->" not in line:
            self.long.append(number)


# --- where prose stands ---------------------------------------------------------------------------
C_TOKEN = re.compile(r'''/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*\'''', re.DOTALL)
TAG = re.compile(r"@[\w, ]{1,24}?\s{2,}|@\w+\s+|[A-Z]\w+(?: \w+)?:\s{2,}")


def c_prose(source):
    """The comments of a C file. Trailing comments are blocks of their own."""
    prose, lines = Prose(), source.splitlines()
    for match in C_TOKEN.finditer(source):
        token = match.group()
        if not token.startswith(("/*", "//")):
            continue
        first = source.count("\n", 0, match.start()) + 1
        body = token[2:-2] if token.startswith("/*") else token[2:]
        alone = token.startswith("//") and lines[first - 1].strip().startswith("//")
        if not alone:
            prose.end()
        for number, text in enumerate(body.split("\n"), first):
            star = re.match(r"\s*\*(?!\w)", text) if number > first else None
            comment_line(prose, number, text[star.end():] if star else text)
            prose.measure(number, lines[number - 1])
        if not alone:
            prose.end()
    return prose


def comment_line(prose, number, text):
    """One line within a comment. A list item or a tag such as "@x" or "Role:" begins a block."""
    text = text.strip()
    if re.fullmatch(r"[^A-Za-z]*", text):  # a ruler or a blank line
        prose.end()
        return
    begins = TAG.match(text) or re.match(r"(?:[*-]|\d+\.|\(\w+\))\s", text)
    if begins:
        text = text[begins.end():]
    prose.add(number, text, joins=not begins)


def python_prose(source):
    """Comments and docstrings."""
    prose, lines = Prose(), source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            continue
        if ast.get_docstring(node):
            doc = node.body[0]
            code = " " * (doc.col_offset + 4)  # such lines show how a program is called
            for number, text in enumerate(doc.value.value.split("\n"), doc.lineno):
                if text.startswith(code):
                    prose.end()
                    continue
                comment_line(prose, number, text)
                prose.measure(number, lines[number - 1])
            prose.end()
    comments = [token for token in tokenize.generate_tokens(io.StringIO(source).readline)
                if token.type == tokenize.COMMENT]
    for token in comments:
        hash_comment(prose, token.start[0], token.line[:token.start[1]], token.string)
        prose.measure(token.start[0], lines[token.start[0] - 1])
    return prose


def hash_prose(source):
    prose = Prose()
    hash_lines(prose, source.splitlines())
    return prose


def hash_lines(prose, lines):
    """Comments that begin with #: whole lines, or behind code that has no quote after them."""
    for number, line in enumerate(lines, 1):
        match = re.match(r"(\s*)(#.*)", line) or re.search(r"(.*\s)(#\s[^'\"]*)$", line)
        if match:
            hash_comment(prose, number, *match.groups())
            prose.measure(number, line)
        else:
            prose.end()


def hash_comment(prose, number, before, comment):
    """A comment behind code, and one below a line without a comment, begins a block."""
    last = prose.open.starts[-1][1] if prose.open else 0
    if before.strip() or last != number - 1:
        prose.end()
    if not comment.startswith(("#!", "#:")):
        comment_line(prose, number, comment.lstrip("# "))
    if before.strip():
        prose.end()


def markdown_prose(source):
    prose, fenced, lines = Prose(), False, source.splitlines()
    indented = False  # the last line was code by its indentation
    for number, line in enumerate(lines, 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        blank = number == 1 or not lines[number - 2].strip()
        item = re.match(r"\s*(?:[*+-]|\d+\.|#+)\s+", line)
        indented = line.startswith("    ") and (indented or blank and not item)
        if fence or fenced or indented or not line.strip():
            prose.end()
        elif line.lstrip().startswith("|"):
            table_row(prose, number, lines)
        else:
            prose.add(number, line[item.end():] if item else line, joins=not item)
            prose.measure(number, line)
            if line.startswith("#"):
                prose.end()
    return prose


def table_row(prose, number, lines):
    """Each cell is a block. The row above |---| is the heading of the table."""
    if re.fullmatch(r"[\s|:-]+", lines[number - 1]):
        return
    heading = number < len(lines) and bool(re.fullmatch(r"\s*\|[\s|:-]+", lines[number]))
    for cell in lines[number - 1].split("|"):
        prose.add(number, cell, joins=False, heading=heading)
    prose.end()


def man_prose(source):
    """An mdoc page. A macro line stands for a word, but for .Nd and the cells of .It ... Ta ..."""
    prose, literal = Prose(), False
    for number, line in enumerate(source.splitlines(), 1):
        macro = re.match(r"\.\s*(\w+)\s*(.*)", line)
        name, rest = macro.groups() if macro else ("", line)
        if name in ("Bd", "Ed"):
            literal = name == "Bd"
        if name in ("Bd", "Ed", "Dl", "D1", "Pp", "Bl", "El", "Sh", "Ss", "It") or literal:
            prose.end()
        if line.startswith(('.\\"', "'")) or literal:
            continue
        if name == "Nd":
            prose.add(number, rest)
        elif name == "It":
            for cell in re.split(r"\sTa\s", rest)[1:]:
                prose.add(number, cell.strip('"'), joins=False)
        elif not name:
            prose.add(number, re.sub(r"\\&|\\f\w|\\e", "", line))
            prose.measure(number, line)
        elif len(name) == 2 and name not in ("Bd", "Ed", "Dl", "D1", "Pp", "Bl", "El", "Sh", "Ss"):
            prose.add(number, "X." if rest.endswith((" .", " :", " ?")) else "X")
    return prose


def reader_of(root, path):
    """The function that finds the prose of a file, or None."""
    name = os.path.basename(path)
    if name.endswith(".md"):
        return markdown_prose
    if name.endswith(C_LIKE):
        return c_prose
    if name.endswith(".py"):
        return python_prose
    if name.endswith(HASH_LIKE):
        return hash_prose
    if MAN.search(name):
        return man_prose
    if "." in name:
        return None
    with open(os.path.join(root, path), "rb") as file:
        start = file.readline(80)
    if not start.startswith(b"#!"):
        return None
    return python_prose if b"python" in start else hash_prose


# --- counts ---------------------------------------------------------------------------------------
def plain(text):
    """The text with code, quotes and URLs each replaced by spaces and one letter."""
    for pattern in (r"`[^`]+`", r'"[^"]{1,300}"', URL.pattern):
        text = re.sub(pattern, lambda match: "X" + " " * (len(match.group()) - 1), text)
    return text


class Count:
    """The words of a room, and the places of its breaches: (path, line, text)."""

    def __init__(self):
        self.words, self.clauses, self.pronouns, self.long = 0, [], [], []

    def add(self, path, prose):
        for block in prose.blocks:
            text = plain(block.text)
            self.words += len(WORD.findall(text))
            if not block.heading:
                self.clauses += [place(path, block, match.start())
                                 for match in CLAUSE.finditer(text)]
            starts = [0] + [match.end() for match in SENTENCE.finditer(text)]
            text = text[:1].upper() + text[1:]  # a short comment may begin with a small letter
            self.pronouns += [place(path, block, start)
                              for start in starts if PRONOUN.match(text, start)]
        if path not in PRINTED:
            self.long += [(path, number, "") for number in prose.long]

    def rate(self, places):
        return 1000.0 * len(places) / max(self.words, 1)

    def places(self):
        """(rule, places, most places) for each rule."""
        return [("a clause headed by what or who", self.clauses, self.most(MOST_CLAUSES)),
                ("a pronoun without its noun", self.pronouns, self.most(MOST_PRONOUNS)),
                (f"beyond column {MOST_COLUMNS}", self.long, 0)]

    def breaches(self):
        return [rule for rule in self.places() if len(rule[1]) > rule[2]]

    def most(self, rate):
        return max(rate * self.words / 1000.0, 1)

    def summary(self):
        return (f"{self.words:6} words, "
                f"{len(self.clauses):3} clauses ({self.rate(self.clauses):4.1f}), "
                f"{len(self.pronouns):3} pronouns ({self.rate(self.pronouns):4.1f}), "
                f"{len(self.long):3} long lines")


def place(path, block, start):
    """The path, the line, and the words around the breach."""
    return path, block.line(start), block.text[max(start - 24, 0):start + 40].strip()


def listed(path):
    with open(path, encoding="utf-8") as file:
        return [word.strip() for line in file for word in line.split("#")[0].split("|")
                if word.strip()]


def room_of(path, rooms):
    """proto/base/x/y.c -> proto/base; tests/unit/proto/base/x/y.c -> tests/unit/proto/base;
    tests/lib/x/y.c -> tests/lib; README.md -> the top."""
    folder = os.path.dirname(path)
    while folder and folder not in rooms:
        folder = os.path.dirname(folder)
    if folder:
        return folder
    parts = path.split("/")[:-1]
    depth = 4 if parts[:2] == ["tests", "unit"] else 2 if parts[:1] == ["tests"] else 1
    return "/".join(parts[:depth]) or "top"


def files_of(root):
    """The files of the repository; without one, all files but those of builds."""
    if os.path.exists(os.path.join(root, ".git")):
        text = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                              cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout
        files = set(text.splitlines())
    else:
        files = {os.path.relpath(os.path.join(folder, name), root)
                 for folder, _, names in os.walk(root) for name in names}
    return sorted(path for path in files if not path.startswith("build")
                  and os.path.isfile(os.path.join(root, path)))


def count_rooms(root, rooms):
    counts = defaultdict(Count)
    for path in files_of(root):
        reader = reader_of(root, path)
        if reader:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                counts[room_of(path, rooms)].add(path, reader(file.read()))
    return counts


def show(rules):
    for rule, places, _ in rules:
        for path, number, text in sorted(places):
            print(f"{path}:{number}: {rule}{': ' if text else ''}{text}")


def check(counts, passing, details, only):
    """Prints the breaches and counts; returns True if each room that must pass does."""
    bad = [f"{room}: in the list of rooms that pass, but without prose"
           for room in passing if room not in counts]
    for line in bad:
        print(line)
    for room, count in sorted(counts.items()):
        broken = count.breaches()
        if only:
            if room in only:
                show(count.places())
                print(f"{room}: {count.summary()}")
            continue
        if details:
            show(count.places())
        elif room in passing:
            show(broken)
        if room in passing and broken:
            bad.append(room)
        state = "FAILS" if room in bad else "passes" if not broken else "not yet"
        print(f"{room:24} {state:8} {count.summary()}")
    if not only:
        passed = sum(not count.breaches() for count in counts.values())
        print(f"prose: {passed} of {len(counts)} rooms pass, {len(passing)} must")
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print every place")
    parser.add_argument("--root", default=HOME, help="the source tree")
    parser.add_argument("--passing", help="the rooms that must pass")
    parser.add_argument("room", nargs="*", help="print these rooms alone, with every place")
    args = parser.parse_args()
    scripts = os.path.join(args.root, "scripts")
    passing = listed(args.passing or os.path.join(scripts, "prose-passing.txt"))
    counts = count_rooms(args.root, set(listed(os.path.join(scripts, "rooms.txt"))))
    return 0 if check(counts, passing, args.list, args.room) else 1


if __name__ == "__main__":
    sys.exit(main())
