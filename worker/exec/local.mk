# worker/exec: no source yet
