# daemon/planner: no source yet
