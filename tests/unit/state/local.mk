# tests of state: none yet
