# tests of net: none yet
