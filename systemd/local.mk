# systemd: nothing yet
