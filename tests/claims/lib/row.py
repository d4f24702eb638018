"""A row of the table of claims: row.py NAME STATUS FILE, the exit status and the output of a claim.
Exits 1 for one that does not hold, or whose last line is no report."""
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


def main():
    with open(sys.argv[3], errors="replace") as f:
        line, holds = row(sys.argv[1], int(sys.argv[2]), f.read())
    print(line)
    sys.exit(1 if holds is False else 0)


if __name__ == "__main__":
    main()
