# worker/comm: no source yet
