"""Makes a network for one claim: a namespace for each node, a wire for each pair, and faults of the
wires.

    own_network()               runs this script again where it may make namespaces; root only
    net = Network(4)            w0 is 10.77.0.1, w1 10.77.0.2, ...; this process is 10.77.0.100
    net.run(2, "cmd")           the words that run a command on w2
    net.drop(0, 1)              what w0 sends does not come to w1
    net.lose(0, 1, 15)          15 % of what both send to each other is lost
    net.slow(0, 1, "2mbit")     both send so much to each other, at most
    net.drop(3, None), ...      the other end is this process
    net.heal()

nftables drops and loses incoming packets, a token bucket (tbf) slows down outgoing ones."""
import os
import secrets
import shutil
import subprocess
import sys

from harness import Cluster, wait_for
from report import Failed, Unjudged

INSIDE = "HSPMD_CLAIM_NETWORK"  # set in the run that has namespaces of its own
HERE = "10.77.0.100"


def own_network():
    """Everything made here goes with the last process of the claim."""
    if os.environ.get(INSIDE) or os.geteuid() != 0 or shutil.which("unshare") is None:
        return
    if subprocess.run(["unshare", "-n", "-m", "true"], capture_output=True).returncode == 0:
        how = ["unshare", "-n", "-m", sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]]
        os.execvpe(how[0], how, dict(os.environ, **{INSIDE: "1"}))


def call(*args, text=None):
    r = subprocess.run(args, capture_output=True, text=True, input=text, timeout=30)
    if r.returncode != 0:
        raise Failed("%s: %s" % (" ".join(args), r.stderr.strip()[-200:]))


class Network:
    def __init__(self, n):
        for tool in ("ip", "tc", "nft"):
            if shutil.which(tool) is None:
                raise Unjudged("%s (scripts/setup --full)" % tool)
        if not os.environ.get(INSIDE):
            raise Unjudged("root, and network namespaces")
        self.n, self.slowed = n, []
        os.makedirs("/run/netns", exist_ok=True)
        call("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
        for i in range(n):
            call("ip", "netns", "add", "w%d" % i)
        for i in [None, *range(n)]:
            self.ip(i, "link", "set", "lo", "up")
            self.ip(i, "address", "add", self.address(i) + "/32", "dev", "lo")
            self.rules(i)
        for a in [None, *range(n)]:
            for b in range(0 if a is None else a + 1, n):
                self.wire(a, b)
        try:
            self.slow(0, 1, "2mbit")
            self.heal()
        except Failed as e:
            raise Unjudged("a kernel with tbf: %s" % e)

    def ip(self, i, *words):
        call("ip", *([] if i is None else ["-n", "w%d" % i]), *words)

    def wire(self, a, b):
        call("ip", "link", "add", "here", "type", "veth", "peer", "name", "there")
        for end, x, y in (("here", a, b), ("there", b, a)):
            port = self.port(y)
            call("ip", "link", "set", end, *(["netns", "w%d" % x] if x is not None else []), "name", port)
            self.ip(x, "link", "set", port, "up")
            self.ip(x, "route", "add", self.address(y) + "/32", "dev", port, "src", self.address(x))

    def port(self, i):
        """The interface of a node that leads to node @i."""
        return "to-hspmdd" if i is None else "to-w%d" % i

    def address(self, i):
        return HERE if i is None else "10.77.0.%d" % (i + 1)

    def run(self, i, *words):
        return list(words) if i is None else ["ip", "netns", "exec", "w%d" % i, *words]

    def rules(self, i, *more):
        """Replaces the rules of node @i."""
        text = "add table inet fault\ndelete table inet fault\ntable inet fault {\n chain in {\n" \
               "  type filter hook input priority 0;\n%s }\n}\n" % "".join("  %s\n" % m for m in more)
        call(*self.run(i, "nft", "-f", "-"), text=text)

    def drop(self, a, b):
        self.rules(b, "ip saddr %s drop" % self.address(a))

    def lose(self, a, b, percent):
        for x, y in ((a, b), (b, a)):
            self.rules(y, "ip saddr %s numgen random mod 100 < %d drop" % (self.address(x), percent))

    def slow(self, a, b, rate, burst="16kb"):
        for x, y in ((a, b), (b, a)):
            call(*self.run(x, "tc", "qdisc", "add", "dev", self.port(y), "root", "tbf", "rate", rate, "burst", burst,
                           "latency", "400ms"))
            self.slowed.append((x, y))

    def heal(self):
        for i in [None, *range(self.n)]:
            self.rules(i)
        for x, y in self.slowed:
            call(*self.run(x, "tc", "qdisc", "del", "dev", self.port(y), "root"))
        self.slowed.clear()


class World(Cluster):
    """hspmdd here, each agent in its namespace."""

    def __init__(self, claim, name, net, detection):
        super().__init__(claim, name, detection="%gs" % detection)
        self.net = net
        self.key = os.path.join(self.dir, "key")
        with open(self.key, "w", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
            f.write(secrets.token_hex(32))

    def daemon_config(self):
        return dict(super().daemon_config(), listen=HERE + ":7071", worker_key=self.key)

    def spawn(self, name, args):
        return super().spawn(name, self.net.run(int(name[1:]), *args) if name.startswith("w") else args)

    def start(self, speed):
        for i in range(self.net.n):
            self.start_worker("w%d" % i, [{"speed": speed}], wait=False, coordinator=HERE + ":7071", key=self.key,
                              listen=self.net.address(i))
        self.whole()

    def whole(self):
        """All nodes are here, and all pairs reach each other."""
        def is_whole():
            s = self.status()
            return s and not s["broken_links"] and len(self.ready_nodes()) == self.net.n
        wait_for("all nodes to be here and to reach each other", is_whole, 40, 0.2)
        wait_for("the links to be measured", lambda: all(n.get("uplink") for n in self.nodes().values()), 20, 0.2)
