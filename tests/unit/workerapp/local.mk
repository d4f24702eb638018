# tests of workerapp: none yet
