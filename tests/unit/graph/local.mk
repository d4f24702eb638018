# tests of graph: none yet
