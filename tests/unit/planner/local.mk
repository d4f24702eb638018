# tests of planner: none yet
