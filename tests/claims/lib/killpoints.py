"""Orders executors to end at named points (worker/executor/kill_point.h), and runs a cluster that
takes the orders."""
import os

from harness import *  # noqa: F403

POINTS = ["%s.%s" % (phase, when) for phase in ("vote", "update", "seal", "copy", "fetch", "arm")
          for when in ("before", "in", "after")]
# whose number is a version; of others it is a step
OF_VERSIONS = ("update.after", "seal.", "copy.", "fetch.")


class Hit:
    """An order that was taken. @passed: newest step of which the victim knew that its vote has
    passed."""

    def __init__(self, rank, line):
        self.rank = rank
        self.point, number, epoch, self.node = line.split()
        self.number, self.epoch = int(number), int(epoch)
        of_vote = self.point in ("vote.before", "vote.in", "arm.before", "arm.in")
        self.passed = self.number - (1 if of_vote or self.point.startswith(OF_VERSIONS) else 0)


class KillCluster(Cluster):
    """Executors obey orders."""

    def __init__(self, claim, name, **more):
        super().__init__(claim, name, **more)
        self.orders = os.path.join(self.dir, "orders")
        os.makedirs(self.orders)
        self.worker_options = ["--kill-points", self.orders]

    def path(self, rank, ending=""):
        return os.path.join(self.orders, "%d%s" % (rank, ending))

    def order(self, rank, point, at, who="executor", stay_ms=0):
        """@who: executor, or agent."""
        if os.path.exists(self.path(rank, ".hit")):
            os.unlink(self.path(rank, ".hit"))
        with open(self.path(rank, ".new"), "w") as f:
            f.write("%s %d %s %d\n" % (point, at, who, stay_ms))
        os.rename(self.path(rank, ".new"), self.path(rank))

    def hit(self, rank):
        """None: the order was not taken yet."""
        try:
            with open(self.path(rank, ".hit")) as f:
                line = f.read()
        except FileNotFoundError:
            return None
        return Hit(rank, line) if line.endswith("\n") else None

    def take_back(self, rank):
        """False: it was taken."""
        try:
            os.unlink(self.path(rank))
        except FileNotFoundError:
            return False
        return True
