# tests of data: none yet
