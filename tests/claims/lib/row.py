"""Prints a row of the table of claims from the exit status and the output of a claim.

    row.py NAME STATUS FILE [TABLE]

TABLE is a Markdown file. The row takes the place of the claim's row below "| claim | holds |"
there, or follows the last row. Exits 1 for a claim that does not hold, or whose last line is no
report."""
import json
import sys


def cell(v):
    return "%.4g" % v if isinstance(v, float) else str(v)


def row(name, rc, output):
    """(the row in Markdown, holds: True, False or None)"""
    lines = output.strip().splitlines()
    try:
        last = json.loads(lines[-1])
        holds, figures = last["holds"], last["figures"]
        seed, seconds = last["seed"], last["seconds"]
        if last["claim"] != name:
            raise ValueError("names the claim %s" % last["claim"])
    except (IndexError, KeyError, ValueError, TypeError) as e:
        return "| %s | NO | exit %d, last line is no report: %s | | |" % (name, rc, e), False
    word = {True: "yes", False: "NO", None: "not judged"}.get(holds, "NO")
    agrees = {0: True, 77: None}.get(rc, False) is holds
    text = ", ".join("%s %s" % (k, cell(v)) for k, v in figures.items()).replace("|", "/")
    if not agrees:
        word, text, holds = "NO", "exit %d disagrees with the report; %s" % (rc, text), False
    return "| %s | %s | %s | %s | %s |" % (name, word, text, seed, cell(seconds)), holds


def placed(text, name, line):
    """@text with @line as the row of the claim @name. Example: "| a | yes |" replaces "| a | NO
    |"."""
    lines = text.splitlines()
    first = next(i for i, l in enumerate(lines) if l.startswith("| claim | holds |")) + 2
    end = next((i for i in range(first, len(lines)) if not lines[i].startswith("|")), len(lines))
    at = next((i for i in range(first, end) if lines[i].startswith("| %s |" % name)), end)
    lines[at:at + (at < end)] = [line]
    return "\n".join(lines) + "\n"


def main():
    name, table = sys.argv[1], sys.argv[4] if len(sys.argv) > 4 else None
    with open(sys.argv[3], errors="replace") as f:
        line, holds = row(name, int(sys.argv[2]), f.read())
    print(line)
    if table:
        with open(table) as f:
            text = placed(f.read(), name, line)
        with open(table, "w") as f:
            f.write(text)
    sys.exit(1 if holds is False else 0)


if __name__ == "__main__":
    main()
