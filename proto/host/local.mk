# proto/host: no source yet
