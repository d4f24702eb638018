"""The store of an hspmdd under test: a cluster begins with --init, and only once."""
import os
import re


def begin(config):
    """The options with which hspmdd is to be started on the configuration file @config."""
    with open(config) as f:
        found = re.search(r'"?\bstate_dir"?\s*:\s*"?([^",}\s]+)', f.read())
    path = os.path.join(found.group(1), "state.db") if found else ""
    return [] if not path or (os.path.exists(path) and os.path.getsize(path) > 0) else ["--init"]
