# worker/data: no source yet
