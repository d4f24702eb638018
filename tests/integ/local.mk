# tests/integ: nothing yet
