# proto/op: no source yet
