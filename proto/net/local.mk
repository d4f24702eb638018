# proto/net: no source yet
