# worker/app: no source yet
