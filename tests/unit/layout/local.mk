# tests of layout: none yet
