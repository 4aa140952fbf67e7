"""A whole agent on the simulated driver under a clock that only the test moves."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pynvml

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
from agents.host.files import FileTree
from agents.partitioning.carver import Carver
from agents.runtime.injection import Injection
from agents.simdriver.install import uninstall
from tests.unit.agents.documents import a_device, a_replica
from tests.unit.agents.nodes import Machine

LOW, HIGH = ("3g.71gb", 0, 4), ("2g.35gb", 4, 2)
MEETING = Rendezvous("10.0.0.1", 29_500)


class Carving:
    """`machine` outlives its agents; below `root` is what they see of /proc."""

    def __init__(self, folder: Path, board: str = "H200-141GB", gpus: int = 1) -> None:
        self.machine = Machine(folder, board, gpus)
        self.root = folder / "root"
        # How containers get their devices; set before `begin`.
        self.injection: Injection | None = None
        # Whether the agent takes the driver for a simulated one.
        self.simulated = True
        self.now = 1_000.0
        self.revision = 0
        self.begin()

    @property
    def gpu(self) -> str:
        return self.machine.gpus[0]

    def begin(self, policy: NodePolicy | None = None) -> None:
        """A new agent; the one before was killed."""
        node = self.machine.agent(policy)
        node.hardware.facts = replace(node.hardware.facts, simulated=self.simulated)
        node.carver = Carver(
            node.hardware,
            node.journal,
            node.policy,
            lambda: self.now,
            node.wake,
            FileTree(self.root),
            self.injection,
        )
        self.node = node

    def wish(self, *places, mode=GpuMode.MIG, replicas=(), gpus=None) -> None:
        """These slices on the first GPU, unless a place names another index first."""
        self.revision += 1
        named = [place if len(place) == 4 else (0, *place) for place in places]
        document = DesiredDocument(
            node="n-1",
            revision=self.revision,
            gpus=tuple(DesiredGpu(uuid, mode) for uuid in gpus or self.machine.gpus),
            slices=tuple(
                DesiredSlice(f"s-{index}-{start}", self.machine.gpus[index], profile, start, size)
                for index, profile, start, size in named
            ),
            replicas=replicas,
        )
        assert self.node.accept(document)
        self.live(8)

    def on(self, place, *, id="r-1", **fields):
        """A replica that runs on a slice of the first GPU."""
        profile, start, size = place
        device = a_device(
            gpu_uuid=self.gpu, profile=profile, start=start, size=size, kind=SliceKind.MIG
        )
        whole = {"id": id, "job": f"j-{id}", "wish": DesiredReplicaState.RUN, "rendezvous": MEETING}
        return a_replica(**whole | {"devices": (device,)} | fields)

    def live(self, seconds: int, every: int = 1) -> None:
        """A round each second, as a loop that is woken often, or every so many seconds."""
        self.node.renew_lease(float("inf"))
        for _ in range(0, seconds, every):
            self.now += every
            self.node.hardware.refresh()
            self.node.round()

    def change(self):
        """What happens to the node by other hands than the agent's."""
        return self.machine.store.change()

    def instance(self, start: int) -> int:
        """The id of the GPU instance of the first GPU at this start."""
        found = self.machine.nvml.instances(self.gpu)
        return next(i.instance_id for i in found if i.start == start)

    def slices(self, index: int = 0) -> dict[tuple[str, int], str]:
        """The UUID of each instance of a GPU, by profile and start."""
        found = self.machine.nvml.instances(self.machine.gpus[index])
        return {(i.profile, i.start): i.uuid for i in found}

    @property
    def reported(self):
        return self.machine.reported[-1]

    def problems(self) -> list[str]:
        return [problem.code for problem in self.reported.problems]

    def sentence(self) -> str:
        (problem,) = self.reported.problems
        return problem.sentence

    def events(self) -> list[str]:
        return [str(event.type) for event in self.machine.journal.unsent_events()]

    @contextmanager
    def calls(self, symbol: str) -> Iterator[list[float]]:
        """When, by the test's clock, a symbol of the driver is called meanwhile."""
        plain, moments = getattr(pynvml.nvmlLib, symbol), []

        def noted(*arguments):
            moments.append(self.now)
            return plain(*arguments)

        with self.instead(symbol, noted):
            yield moments

    @contextmanager
    def instead(self, symbol: str, function) -> Iterator[None]:
        """Meanwhile the driver answers a symbol so."""
        with patch.object(pynvml.nvmlLib, symbol, function, create=True):
            pynvml._nvmlGetFunctionPointer_cache.clear()
            yield
        pynvml._nvmlGetFunctionPointer_cache.clear()

    def end(self) -> None:
        self.machine.journal.close()
        self.machine.nvml.close()
        uninstall()
