"""A whole agent node without a network: the simulated driver, a real journal, and a runtime that
keeps its containers in memory. What would run beside the loop runs at once, in the same thread."""

from agents.admission.policy import NodePolicy
from agents.contract.documents import (
    DesiredDocument,
    DesiredGpu,
    DesiredReplicaState,
    DesiredSlice,
    GpuMode,
    Rendezvous,
    SliceKind,
)
from agents.hardware import Hardware
from agents.loop.node import NodeLoop
from agents.loop.workers import InlineWorkers
from agents.nvml.session import Nvml
from agents.simdriver.install import install
from agents.simdriver.state import new_node
from agents.simdriver.store import Store
from agents.state.journal import Journal
from tests.support.memory_runtime import MemoryRuntime
from tests.unit.agents.documents import a_device, a_replica

RUN = DesiredReplicaState.RUN
MEETING = Rendezvous("10.0.0.1", 29_500)
ROUNDS = 8


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
