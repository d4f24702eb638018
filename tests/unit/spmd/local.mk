# tests of spmd: none yet
