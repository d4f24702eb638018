# proto/text: no source yet
