# tests of ctl: none yet
