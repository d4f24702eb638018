# daemon/ctl: no source yet
