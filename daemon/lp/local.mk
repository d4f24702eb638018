# daemon/lp: no source yet
