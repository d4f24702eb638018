# The checks of scripts/, each of which must find the breach that it is for.
TESTS += tests/unit/scripts/checkprose.py tests/unit/scripts/checkrooms.py
EXTRA_DIST += tests/unit/scripts/checkprose.py tests/unit/scripts/checkrooms.py
