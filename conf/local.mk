# conf: nothing yet
