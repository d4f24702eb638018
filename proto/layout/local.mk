# proto/layout: no source yet
