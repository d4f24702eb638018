# tests of host: none yet
