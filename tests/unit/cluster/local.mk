# tests of cluster: none yet
