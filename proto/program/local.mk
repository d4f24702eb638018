# proto/program: no source yet
