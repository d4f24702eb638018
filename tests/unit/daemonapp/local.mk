# tests of daemonapp: none yet
