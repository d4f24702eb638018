# tests of exec: none yet
