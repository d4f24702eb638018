# tests/bench: nothing yet
