# tests of agent: none yet
