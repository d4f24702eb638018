# tests of program: none yet
