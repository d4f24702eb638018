# worker/backend: no source yet
