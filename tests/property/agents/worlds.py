"""A node small enough to think about: it does what a step or an action says, and refuses what a
driver or an engine would refuse. Every rule that must never break is asserted where it could."""

from dataclasses import dataclass, field, replace

from agents.contract.boards import known_boards
from agents.contract.documents import DesiredDocument, DesiredReplicaState
from agents.contract.geometry import Placement, free_placements
from agents.facts.device_keys import device_key, device_place
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.loop.reconcile import (
    FailReplica,
    ForgetReplica,
    LocalState,
    PrepareReplica,
    RemoveReplica,
    StartReplica,
    StopReplica,
    replica_actions,
)
from agents.partitioning.diff import partition_changes
from agents.partitioning.steps import (
    CreateInstance,
    DestroyInstance,
    PartitionChanges,
    SetMigMode,
    WantedSlice,
)
from agents.runtime.base import ContainerPhase, ContainerStatus

BOARD = known_boards()["H200-141GB"]
GPUS = ("GPU-0", "GPU-1")


@dataclass
class World:
    mig: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(GPUS, False))
    instances: list[InstanceFacts] = field(default_factory=list)
    containers: dict[str, ContainerStatus] = field(default_factory=dict)
    given: dict[str, tuple] = field(default_factory=dict)
    failures: dict = field(default_factory=dict)
    started: set = field(default_factory=set)
    fences: dict = field(default_factory=dict)
    may_remove: bool = True
    desired: DesiredDocument = field(default_factory=lambda: DesiredDocument(node="n-1"))
    starts: dict[str, int] = field(default_factory=dict)
    made: int = 0

    def accept(self, desired):
        """As the journal keeps it: with the document, the highest fence of each job."""
        for replica in desired.replicas:
            self.fences[replica.job] = max(replica.fence, self.fences.get(replica.job, 0))
        self.desired = desired

    def changes(self):
        """The partition changes that are due; none while something unnamed holds devices."""
        live = self.live()
        named = {replica.id: replica for replica in self.desired.replicas}
        if live - named.keys():
            return PartitionChanges()
        held = frozenset(device_place(d) for key in live for d in named[key].devices)
        slices = self.desired.slices
        wanted = [WantedSlice(s.gpu_uuid, s.profile, s.start, s.size, s.id) for s in slices]
        modes = {gpu.uuid: gpu.mode for gpu in self.desired.gpus}
        return partition_changes(self.facts(), self.instances, wanted, modes, held)

    def actions(self):
        known = LocalState(
            containers=dict(self.containers),
            fences=self.fences,
            failures=dict(self.failures),
            started=frozenset(self.started),
            recorded=frozenset(self.failures) | self.started,
            shipped=frozenset(
                k for k, c in self.containers.items() if c.phase is ContainerPhase.EXITED
            ),
            devices=self.devices(),
            may_remove=self.may_remove,
        )
        return replica_actions(self.desired.replicas, known)

    def round(self, *, carve_first=True):
        """One round. Both were decided at its beginning; either may be done first."""
        steps, todo = self.changes().steps, self.actions()
        for part in (steps, todo) if carve_first else (todo, steps):
            for one in part:
                self.do(one)
        return len(steps) + len(todo)

    def facts(self):
        name = BOARD.product_names[0]
        return [
            GpuFacts(i, uuid, name, BOARD.memory_mib, f"bus-{i}", 0, self.mig[uuid], self.mig[uuid])
            for i, uuid in enumerate(GPUS)
        ]

    def devices(self):
        whole = {(gpu, "", 0, 0): gpu for gpu in GPUS if not self.mig[gpu]}
        return whole | {(i.gpu_uuid, i.profile, i.start, i.size): i.uuid for i in self.instances}

    def layout(self, gpu):
        here = (i for i in self.instances if i.gpu_uuid == gpu)
        return sorted(Placement(i.start, i.size, i.profile) for i in here)

    def live_devices(self):
        """The UUIDs that containers have been given and have not ended with."""
        return {uuid for key in self.live() for uuid in self.given[key]}

    def live(self):
        return {key for key, c in self.containers.items() if c.phase is not ContainerPhase.EXITED}

    def do(self, one):
        match one:
            case SetMigMode(gpu, mig):
                assert not self.layout(gpu), "a mode changes only where no slice is"
                assert gpu not in self.live_devices(), "a mode changes only where nobody is"
                self.mig[gpu] = mig
            case DestroyInstance(gpu, instance_id):
                (gone,) = (
                    i for i in self.instances if (i.gpu_uuid, i.instance_id) == (gpu, instance_id)
                )
                assert gone.uuid not in self.live_devices(), "a held slice is never destroyed"
                self.instances.remove(gone)
            case CreateInstance(want, profile_id):
                self._create(want, profile_id)
            case PrepareReplica(replica, devices):
                self._prepare(replica, devices)
            case StartReplica(replica, devices):
                self._start(replica, devices)
            case StopReplica(replica, _):
                if self.containers[replica].phase is ContainerPhase.RUNNING:
                    self.ends(replica, 143)
            case RemoveReplica(replica):
                assert self.containers[replica].phase is not ContainerPhase.RUNNING
                del self.containers[replica]
            case FailReplica(replica, failure):
                assert replica not in self.failures, "a failure is told once"
                self.failures[replica] = failure
            case ForgetReplica(replica):
                self.failures.pop(replica, None)
                self.started.discard(replica)

    def ends(self, replica, exit_code):
        ended = replace(self.containers[replica], phase=ContainerPhase.EXITED, exit_code=exit_code)
        self.containers[replica] = ended

    def _create(self, want, profile_id):
        profile = BOARD.profile_by_id(profile_id)
        assert profile.name == want.profile and self.mig[want.gpu_uuid]
        place = Placement(want.start, want.size, want.profile)
        assert place in free_placements(BOARD, profile, self.layout(want.gpu_uuid))
        self.made += 1
        self.instances.append(
            InstanceFacts(
                want.gpu_uuid,
                self.made,
                profile_id,
                want.profile,
                want.start,
                want.size,
                f"MIG-{self.made}",
            )
        )

    def _prepare(self, replica, devices):
        assert replica.id not in self.containers and replica.id not in self.starts
        self.given[replica.id] = devices
        self.containers[replica.id] = ContainerStatus(
            replica.id,
            replica.job,
            replica.attempt,
            replica.rank,
            replica.fence,
            ContainerPhase.CREATED,
            "c",
            "10.0.0.1",
            29_500,
        )

    def _start(self, replica, devices):
        assert replica.wish is DesiredReplicaState.RUN and replica.rendezvous is not None
        assert self.containers[replica.id].phase is ContainerPhase.CREATED
        assert replica.fence >= self.fences[replica.job], "a fenced attempt never starts"
        assert devices == self.given[replica.id], "it starts with what it was prepared with"
        assert devices == tuple(self.devices()[device_key(d)] for d in replica.devices)
        others = self.live_devices_but(replica.id)
        assert not others & set(devices), "two replicas never share a device"
        self.starts[replica.id] = self.starts.get(replica.id, 0) + 1
        assert self.starts[replica.id] == 1, "an attempt starts once"
        self.started.add(replica.id)
        self.containers[replica.id] = replace(
            self.containers[replica.id], phase=ContainerPhase.RUNNING
        )

    def live_devices_but(self, replica):
        running = (k for k, c in self.containers.items() if c.phase is ContainerPhase.RUNNING)
        return {uuid for key in running if key != replica for uuid in self.given[key]}
