"""A whole agent node without a network: the simulated driver, a real journal, and a runtime that
keeps its containers in memory. What would run beside the loop runs at once, in the same thread."""

import time
from dataclasses import replace

from agents.admission.policy import NodePolicy
from agents.contract.documents import (
    DesiredDocument,
    DesiredGpu,
    DesiredReplicaState,
    DesiredSlice,
    GpuMode,
    Rendezvous,
    RuntimeKind,
    SliceKind,
)
from agents.contract.image_needs import NO_NEEDS
from agents.hardware import Hardware
from agents.loop.node import NodeLoop
from agents.loop.workers import InlineWorkers
from agents.nvml.session import Nvml
from agents.runtime.base import ContainerPhase, ContainerStatus, RuntimeFailure
from agents.simdriver.install import install
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from agents.state.journal import Journal
from tests.unit.agents.documents import a_device, a_replica

RUN = DesiredReplicaState.RUN
MEETING = Rendezvous("10.0.0.1", 29_500)
ROUNDS = 8


class MemoryRuntime:
    """Containers as values. `story` is what was asked of it, with the slices that stood then."""

    kind = RuntimeKind.PROCESS
    injection = None

    def __init__(self, slices):
        self.by_replica, self.devices, self.logs, self.story = {}, {}, {}, []
        self.slices = slices
        self.broken, self.needs = set(), {}
        self.since = 0.0
        self.graces = []
        self.used = {}

    def serving_since(self):
        return self.since

    def version(self):
        return "1"

    limits_egress = False

    def overlay(self):
        return None

    def connect(self, replicas):
        """Nothing is to be joined."""

    def fabric(self):
        return "here"

    def watch(self, changed):
        pass

    def containers(self):
        return dict(self.by_replica)

    def make_folders(self, replica):
        raise AssertionError("no replica here has files")

    def keep(self, replicas):
        pass

    def used_disk_bytes(self, replica_id, limit):
        return self.used.get(replica_id, 0)

    def require_image(self, image):
        pass

    def image_needs(self, image):
        return self.needs.get(image.name, NO_NEEDS)

    def prepare(self, replica, devices):
        if replica.id in self.broken:
            raise RuntimeFailure("image_pull", "no such image")
        self.tell("prepare", replica.id)
        who = (replica.id, replica.job, replica.attempt, replica.rank, replica.fence)
        self.devices[replica.id] = tuple(devices)
        self.by_replica[replica.id] = ContainerStatus(
            *who, ContainerPhase.CREATED, f"tessera-{replica.id}", "10.0.0.1", 29_500
        )

    def start(self, replica, devices, rendezvous):
        self.tell("start", replica.id)
        self.becomes(replica.id, ContainerPhase.RUNNING)

    def stop(self, replica_id, grace_seconds):
        if self.by_replica[replica_id].phase is ContainerPhase.RUNNING:
            self.tell("stop", replica_id)
            self.graces.append((replica_id, grace_seconds))
            self.ends(replica_id, 143)

    def remove(self, replica_id):
        self.logs.pop(replica_id, None)
        if self.by_replica.pop(replica_id, None):
            self.tell("remove", replica_id)

    def log(self, replica_id, offset, limit):
        return self.logs.get(replica_id, b"")[offset : offset + limit]

    def close(self):
        pass

    def tidy(self):
        pass

    def tell(self, what, replica):
        self.story.append((what, replica, self.slices()))

    def ends(self, replica, exit_code, at=None):
        ended_at = time.time() if at is None else at
        self.becomes(replica, ContainerPhase.EXITED, exit_code=exit_code, finished_at=ended_at)

    def becomes(self, replica, phase, **fields):
        self.by_replica[replica] = replace(self.by_replica[replica], phase=phase, **fields)


class Machine:
    """What outlives the agent: the driver, the engine, the journal's file."""

    def __init__(self, folder, board="H200-141GB", gpus=1):
        self.folder = folder
        self.store = Store(folder / "driver.json")
        self.store.create(new_node(board=board, gpus=gpus, seed=7, latency=False))
        install(self.store.path)
        self.nvml = Nvml()
        self.gpus = [gpu.uuid for gpu in self.nvml.devices()]
        self.runtime = MemoryRuntime(self.slices)
        self.journal = None
        self.reported = []

    def slices(self):
        """What stands now: the UUID of each slice by GPU index, start and profile."""
        return {
            (index, i.start, i.profile): i.uuid
            for index, gpu in enumerate(self.gpus)
            for i in self.nvml.instances(gpu)
        }

    def agent(self, policy=None, workers=InlineWorkers):
        """A new agent on this machine; the one before was killed."""
        if self.journal is not None:
            self.journal.close()
        self.journal = Journal(self.folder / "journal.sqlite3")
        policy = policy or NodePolicy()
        hardware = Hardware(self.nvml, self.runtime, self.folder, simulated=True, policy=policy)
        return NodeLoop(
            "n-1",
            self.journal,
            hardware,
            self.runtime,
            policy,
            self.reported.append,
            new_workers=workers,
        )


def a_document(machine, *replicas, profile="3g.71gb", revision=1, start=0, size=4, **fields):
    """One slice of the first GPU, and the replicas that are given."""
    slices = (DesiredSlice("s-1", machine.gpus[0], profile, start, size),) if profile else ()
    whole = {
        "node": "n-1",
        "revision": revision,
        "gpus": (DesiredGpu(machine.gpus[0], GpuMode.MIG if profile else GpuMode.WHOLE),),
        "slices": slices,
        "replicas": replicas,
    }
    return DesiredDocument(**whole | fields)


def on_it(machine, wish=RUN, profile="3g.71gb", **fields):
    """A replica with the slice of `a_document`, or with the whole GPU."""
    place = {"gpu_uuid": machine.gpus[0], "profile": profile, "start": 0, "size": 4}
    device = a_device(**place, kind=SliceKind.MIG if profile else SliceKind.GPU)
    meeting = MEETING if wish is RUN else None
    whole = {"wish": wish, "devices": (device,), "rendezvous": meeting, "processes": 1}
    return a_replica(**whole | fields)


def obey(node, document=None, *, contact=True):
    """Let the node take the document, if one is given, and do what it has to."""
    if document is not None:
        assert node.accept(document)
    if contact:
        node.renew_lease(float("inf"))
    for _ in range(ROUNDS):
        node.round()
