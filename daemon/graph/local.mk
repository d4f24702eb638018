# daemon/graph: no source yet
