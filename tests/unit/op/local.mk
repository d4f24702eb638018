# tests of op: none yet
