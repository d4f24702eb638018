# tests of text: none yet
