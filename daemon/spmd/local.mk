# daemon/spmd: no source yet
