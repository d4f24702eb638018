# proto/wire: no source yet
