# tests of comm: none yet
