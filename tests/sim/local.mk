# tests/sim: nothing yet
