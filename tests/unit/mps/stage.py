"""A machine for shares: simulated driver, plain processes, and the simulated control program as the
real subprocess that it is. Folders have short names, because sockets must."""

import os
import sys
import time
from dataclasses import replace

from agents.admission.policy import NodePolicy
from agents.contract.documents import (
    DesiredDocument,
    DesiredGpu,
    DesiredReplicaState,
    Device,
    GpuMode,
    Rendezvous,
    RuntimeKind,
    SliceKind,
)
from agents.hardware import Hardware
from agents.loop.node import NodeLoop
from agents.loop.workers import InlineWorkers
from agents.mps.control import PID_FILE, ControlFailure, MpsControl
from agents.mps.shares import NodeShares
from agents.mps.support import control_program, mps_support
from agents.nvml.compute import is_exclusive
from agents.nvml.processes import gpu_processes
from agents.nvml.session import Nvml
from agents.runtime.process import ProcessRuntime
from agents.simdriver.install import install
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from agents.state.journal import Journal
from tests.unit.agents.documents import a_replica

SECONDS = 300  # a bound for what never comes; nothing waits so long
SAY = "import os; print(sorted((k, v) for k, v in os.environ.items() if 'CUDA_' in k), flush=True)"
LIVE = "import threading; threading.Event().wait()"
DIE = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"


def until(reached, what):
    """Waits for what can be seen, never for a length of time."""
    deadline = time.monotonic() + SECONDS
    while not (found := reached()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
    return found


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def a_share(gpu, threads=50, memory_mib=10_000, **fields):
    name = f"{fields.get('profile', '')}{threads}"
    place = {"gpu_uuid": gpu, "kind": SliceKind.MPS}
    sizes = {"threads": threads, "memory_mib": memory_mib}
    return Device(**{"allocation": f"a-{name}", "slice": f"s-{name}"} | place | sizes | fields)


def a_client(id, *devices, program=LIVE, project="p-1", **fields):
    """A replica that runs `program` at once, with `devices`."""
    whole = {
        "id": id,
        "job": f"j-{id}",
        "rank": 0,
        "world": 1,
        "fence": 1,
        "project": project,
        "launcher": "none",
        "processes": 1,
        "env": {},
        "command": (sys.executable, "-c", program),
        "devices": devices,
        "wish": DesiredReplicaState.RUN,
        "rendezvous": Rendezvous("127.0.0.1", 29_500),
    }
    return a_replica(**whole | fields)


class Stage:
    """What outlives an agent, and the agent that runs on it now."""

    def __init__(self, var, board="H200-141GB", gpus=1):
        self.var = var
        self.store = Store(var / "driver.json")
        self.store.create(new_node(board=board, gpus=gpus, seed=7, latency=False))
        install(self.store.path)
        self.nvml = Nvml()
        self.gpu = self.nvml.devices()[0].uuid
        self.root = var / "mps"
        self.program = control_program("", self.store.path)
        self.journal = None
        self.reported = []

    def agent(self, **support):
        """A new agent; the one before was killed, and said goodbye to nobody."""
        if self.journal is not None:
            self.journal.close()
        self.journal = Journal(self.var / "journal.sqlite3")
        can = mps_support(self.program, RuntimeKind.PROCESS, 0, "13.0", self.root)
        self.shares = NodeShares(self.root, replace(can, **support))
        self.runtime = ProcessRuntime(self.var / "r", self.shares.grant)
        hardware = Hardware(self.nvml, self.runtime, self.var, simulated=True)
        on_observed = self.reported.append
        parts = (self.journal, hardware, self.runtime, NodePolicy(), on_observed, self.shares)
        self.node = NodeLoop("n-1", *parts, new_workers=InlineWorkers)
        self.node.renew_lease(float("inf"))
        return self.node

    def document(self, *replicas, revision=1, mode=GpuMode.MPS, slices=()):
        gpus = (DesiredGpu(self.gpu, mode),)
        return DesiredDocument("n-1", revision, gpus, slices, replicas)

    def obey(self, document, rounds=6):
        assert self.node.accept(document)
        self.rounds(rounds)

    def rounds(self, count=6):
        for _ in range(count):
            self.node.hardware.refresh()
            self.node.round()

    def states(self):
        return {r.id: (str(r.state), r.code) for r in self.reported[-1].replicas}

    def log(self, replica):
        return self.runtime.log(replica, 0, 1 << 20).decode()

    def ended(self, replica):
        """Wait for its end, then let the node look."""
        until(
            lambda: self.runtime.containers()[replica].exit_code is not None,
            f"the end of {replica}",
        )
        self.rounds()

    def daemons(self):
        return {daemon.record.project: daemon for daemon in self.shares._daemons.values()}

    def is_exclusive(self, device=""):
        return is_exclusive(device or self.gpu)

    def server_processes(self):
        return [client.pid for client in gpu_processes(self.gpu)]

    def close(self):
        """Leave no process behind, whatever a test did."""
        if self.journal is not None:
            for replica in self.runtime.containers():
                self.runtime.stop(replica, 0)
                self.runtime.remove(replica)
            self.journal.close()
        for pid_file in self.root.glob(f"*/p/{PID_FILE}"):
            try:
                MpsControl(self.program, pid_file.parent, pid_file.parent).quit(1)
            except ControlFailure:
                continue
            until(lambda path=pid_file: not path.exists(), "the daemon's end")
        self.nvml.close()
