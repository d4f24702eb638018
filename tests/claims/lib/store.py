"""Serves the store of an hspmdd under test: a cluster begins with --init, and only once."""
import os
import re
import sqlite3


def begin(config):
    """The options with which hspmdd is to be started on the configuration file @config."""
    with open(config) as f:
        found = re.search(r'"?\bstate_dir"?\s*:\s*"?([^",}\s]+)', f.read())
    path = os.path.join(found.group(1), "state.db") if found else ""
    return [] if not path or (os.path.exists(path) and os.path.getsize(path) > 0) else ["--init"]


def replace_row(path, key, value):
    """Puts @value in the place of row @key of the store @path, as another hspmdd would; returns the
    old value."""
    db = sqlite3.connect(path, isolation_level=None)
    was, sum = db.execute("SELECT value, sum FROM kv WHERE key = ?", (key,)).fetchone()
    sums = (db.execute("SELECT sums FROM total").fetchone()[0] - (sum or 0)) % 2 ** 64
    db.execute("UPDATE kv SET value = ?, sum = NULL WHERE key = ?", (value, key))
    db.execute("UPDATE total SET sums = ?", (sums - 2 ** 64 if sums >= 2 ** 63 else sums,))
    db.close()
    return was
