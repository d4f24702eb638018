#!/usr/bin/env python3
"""GPUs of two hosts that could talk by NCCL, which does not encrypt. With TLS they do so on a
trusted network alone: else the job trains by TLS, and the log says why; with one NCCL is tried (the
stand-in, which knows one process, cannot end that). Each agent has a boot id of its own, so that
all programs take it for another host."""
import ctypes
import json
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from gpu import MOCKDEVS
from join import World
from train import Training
from wire import check, until
from world import BUILD, main

FAKE = os.path.join(BUILD, "tests", "lib", "fakenccl")
BOOT_ID = "/proc/sys/kernel/random/boot_id"
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
ONLY = "NCCL serves devices of this host only: data_plane is tls and hspmdd.yaml names no trusted_network"
UNKNOWN = "NCCL is not used: data_plane is tls and NCCL's settings are not all known; the agent's log says why"
TRIED = "no communicator of "  # within the time there is for one


def with_boot_id(path):
    """Makes the process, before it becomes another program, one of another host."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter():
        if (libc.unshare(CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0 or
                libc.mount(path.encode(), BOOT_ID.encode(), None, MS_BIND, None) != 0):
            raise OSError(ctypes.get_errno(), "a boot id of its own")
    return enter


class Hosts(World):
    def host(self, name, **env):
        self.write(name + ".yaml", "node: %s\ncoordinator: 127.0.0.1:%d\nstate_dir: %s\nkey: %s\n"
                   "devices: [{kind: cuda, index: 0, memory: 512MiB}]\nnetwork: [{name: lo}]\n"
                   % (name, self.tcp, self.path("segments"), self.path("worker.key")))
        boot = self.write(name + ".boot", name + "\n")
        return self.spawn("hspmd-worker", name + ".yaml", preexec=with_boot_id(boot), HSPMD_PLUGINS=MOCKDEVS,
                          LD_LIBRARY_PATH=MOCKDEVS + ":" + FAKE, HSP_MOCKDEV_UUID=name, NCCL_IB_DISABLE="1",
                          NCCL_NET_PLUGIN="none", **env)


def run(w):
    w.write("text.txt", "".join("the quick brown fox %d jumps over the lazy dog.\n" % i for i in range(20000)))
    d = w.daemon()
    alpha = w.host("alpha", NCCL_CONF_FILE="/")
    w.host("beta")
    until("both are up", lambda: w.up("alpha") and w.up("beta"))
    check(w.log().count("device 0: NCCL_SOCKET_IFNAME =lo from network:\n") == 2, "what NCCL is told: " + w.log())
    check("data plane: tls between hosts, NCCL within hosts only\n" in w.ctl("status"), w.ctl("status"))
    t = Training(w, "secret", 120, least=2)
    t.reach(20)
    s = t.status()
    check(s["transport"].get("tls", 0) > 0 and s["transport"]["shm"] == 0, "two hosts: %r" % s["transport"])
    check(s["nccl_between_hosts"] == "none" and "trusted_network" not in s, "of the job: %r" % s)
    check("data plane tls, NCCL within hosts only" in w.ctl("status", "secret"), w.ctl("status", "secret"))
    t.end()
    check(w.log().count(ONLY) == 1 and w.log().count(UNKNOWN) == 1, "each executor says why, once: " + w.log())
    check("settings of NCCL: cannot read /: Is a directory; with TLS NCCL is not used" in w.log(), "why: " + w.log())
    check(TRIED not in w.log() and "communicators of NCCL" not in w.log(), "it is not tried")

    alpha.terminate()
    check(alpha.wait(20) == 0, "alpha ends")
    w.host("alpha")
    d.terminate()
    check(d.wait(20) == 0, "hspmdd ends")
    w.daemon("trusted_network: [127.0.0.0/8, 'fd00::/8']\n")
    until("both are back", lambda: w.up("alpha") and w.up("beta"))
    shown = "tls between hosts, NCCL allowed in clear on 127.0.0.0/8, fd00::/8\n"
    check("data plane: " + shown in w.ctl("status"), w.ctl("status"))
    t = Training(w, "trusting", 60, least=2)
    until("NCCL is tried", lambda: TRIED in w.log(), 60)
    s = json.loads(w.ctl("status", "-o", "json"))
    check(s["nccl_between_hosts"] == "clear" and s["trusted_network"] == "127.0.0.0/8, fd00::/8", "in JSON: %r" % s)
    check(t.status()["trusted_network"] == "127.0.0.0/8, fd00::/8", "of the job: %r" % t.status())
    check(w.log().count("NCCL may talk to other hosts in clear, on 127.0.0.0/8\n") == 2,
          "each executor says so: " + w.log())
    w.ctl("cancel", "trusting")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("only root can give an agent a boot id of its own")
        sys.exit(77)
    sys.exit(main(Hosts, run, ["hspmdd", "hspmd-worker", "hspmdctl", "tests/lib/mockdevgpu/hspmd-cuda.so",
                               "tests/lib/fakenccl/libnccl.so.2"], "NCCL between hosts only where it is trusted"))
