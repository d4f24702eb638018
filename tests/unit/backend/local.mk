# tests of backend: none yet
