# tests of lp: none yet
