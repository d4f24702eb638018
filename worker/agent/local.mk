# worker/agent: no source yet
