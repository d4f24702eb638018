# daemon/app: no source yet
