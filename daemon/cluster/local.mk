# daemon/cluster: no source yet
