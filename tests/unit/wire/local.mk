# tests of wire: none yet
