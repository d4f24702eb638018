# worker/state: no source yet
