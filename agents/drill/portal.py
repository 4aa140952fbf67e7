"""A simulated portal for the random drill, which follows the node's reports like the real one."""

from dataclasses import dataclass, replace
from random import Random

from agents.contract.boards import Board
from agents.contract.documents import (
    DesiredDocument,
    DesiredGpu,
    DesiredReplica,
    DesiredReplicaState,
    DesiredSlice,
    Device,
    GpuMode,
    ObservedDocument,
    ReplicaState,
    SliceKind,
)
from agents.contract.geometry import Placement, free_placements
from agents.contract.lease import seconds_until_over
from agents.drill.images import PULLED_IMAGES

ENDED = (ReplicaState.EXITED, ReplicaState.FAILED)
LEASE_SECONDS, KILL_SECONDS, MARGIN_SECONDS = 30, 5, 5
GRACE_SECONDS = 10
PRESENT_IMAGE = "none"


@dataclass
class SimulatedSlice:
    """A slice, and the replica that has it until the node reports the replica gone."""

    slice: DesiredSlice
    replica: DesiredReplica | None = None
    removal_revision: int = 0


class SimulatedPortal:
    """Allocates the slices of one GPU; a slice is reused only after the node reported it free."""

    def __init__(self, node: str, gpu: str, board: Board, random: Random) -> None:
        self.node, self.gpu, self.board, self.random = node, gpu, board, random
        self.revision = 0
        self.slices: dict[str, SimulatedSlice] = {}
        self.numbers = 0
        self.fences: dict[str, int] = {}
        self._document: DesiredDocument | None = None
        # As the node reports it.
        self.on_lease_end = ""
        self.lease_until = 0.0
        # Jobs that were tried on another node, and run there.
        self.elsewhere: set[str] = set()

    def document(self) -> DesiredDocument:
        """The current desired document; the revision grows only with a change."""
        desired = DesiredDocument(
            node=self.node,
            revision=self.revision,
            gpus=(DesiredGpu(self.gpu, GpuMode.MIG),),
            slices=tuple(h.slice for _, h in sorted(self.slices.items())),
            replicas=tuple(
                h.replica
                for _, h in sorted(self.slices.items())
                if h.replica is not None and not h.removal_revision
            ),
        )
        if self._document is None or replace(desired, revision=self._document.revision) != (
            self._document
        ):
            self.revision += 1
            self._document = replace(desired, revision=self.revision)
        return self._document

    def receive(self, report: ObservedDocument, applied: int) -> None:
        """A slice is free once the node applied its replica's removal and no longer reports it."""
        self.on_lease_end = report.facts.on_lease_end
        reported = {replica.id for replica in report.replicas}
        for held in self.slices.values():
            is_applied = held.removal_revision and applied >= held.removal_revision
            if held.replica and is_applied and held.replica.id not in reported:
                held.replica, held.removal_revision = None, 0
        ended = {r.id for r in report.replicas if r.state in ENDED}
        for held in self.slices.values():
            if held.replica and held.replica.id in ended and not held.removal_revision:
                self._remove(held)

    def give_up(self, now: float) -> None:
        """Out of contact: jobs whose replicas have certainly ended are tried on another node."""
        for held in self.slices.values():
            if held.replica is None or held.removal_revision:
                continue
            seconds = seconds_until_over(
                self.on_lease_end,
                grace_seconds=held.replica.grace_seconds,
                kill_seconds=KILL_SECONDS,
                margin_seconds=MARGIN_SECONDS,
            )
            if seconds is not None and now > self.lease_until + seconds:
                self.numbers += 1
                self.fences[held.replica.job] = self.numbers
                self.elsewhere.add(held.replica.job)
                self._remove(held)

    def end_elsewhere(self) -> None:
        """A job on another node ends."""
        if self.elsewhere:
            self.elsewhere.discard(self.random.choice(sorted(self.elsewhere)))

    def submit(self) -> None:
        """A new replica: on an idle slice, or on one that is carved for it."""
        idle = [h for h in self.slices.values() if h.replica is None]
        held = self.random.choice(idle) if idle and self.random.random() < 0.5 else self._carve()
        if held is not None:
            image = self.random.choice((PRESENT_IMAGE, self.random.choice(PULLED_IMAGES)))
            self._allocate(held, image)

    def crowd(self) -> None:
        """As many new replicas as there is room for, each with an image of its own to pull."""
        for image in PULLED_IMAGES:
            idle = [h for h in self.slices.values() if h.replica is None]
            held = idle[0] if idle else self._carve(is_small=True)
            if held is None:
                return
            self._allocate(held, image)

    def stop(self) -> None:
        """Stop a replica, or remove it at once, as when its job is cancelled."""
        wanted = [h for h in self.slices.values() if h.replica and not h.removal_revision]
        if not wanted:
            return
        held = self.random.choice(wanted)
        assert held.replica is not None  # noqa: S101 - chosen so
        if self.random.random() < 0.7:
            held.replica = replace(held.replica, wish=DesiredReplicaState.STOP)
        else:
            self._remove(held)

    def merge(self) -> None:
        """Remove an idle slice."""
        idle = [key for key, h in self.slices.items() if h.replica is None]
        if idle:
            del self.slices[self.random.choice(idle)]

    def _remove(self, held: SimulatedSlice) -> None:
        # The next document is the first without it.
        held.removal_revision = self.revision + 1

    def _carve(self, *, is_small: bool = False) -> SimulatedSlice | None:
        taken = [
            Placement(h.slice.start, h.slice.size, h.slice.profile) for h in self.slices.values()
        ]
        options = [
            place
            for profile in self.board.profiles
            if not profile.has_media_extensions
            for place in free_placements(self.board, profile, taken)
        ]
        if not options:
            return None
        smallest = min(place.size for place in options)
        fitting = [p for p in options if p.size == smallest] if is_small else options
        place = self.random.choice(fitting)
        self.numbers += 1
        key = f"s-{self.numbers}"
        piece = DesiredSlice(key, self.gpu, place.profile, place.start, place.size)
        self.slices[key] = SimulatedSlice(piece)
        return self.slices[key]

    def _allocate(self, held: SimulatedSlice, image: str) -> None:
        """To a new job, or to another attempt at one that has none on the node."""
        self.numbers += 1
        live = {h.replica.job for h in self.slices.values() if h.replica}
        idle = sorted(set(self.fences) - live - self.elsewhere)
        again = bool(idle) and self.random.random() < 0.3
        job = self.random.choice(idle) if again else f"j-{self.numbers}"
        self.fences[job] = self.numbers
        piece = held.slice
        device = Device(
            allocation=f"a-{self.numbers}",
            slice=piece.id,
            kind=SliceKind.MIG,
            gpu_uuid=self.gpu,
            profile=piece.profile,
            start=piece.start,
            size=piece.size,
        )
        held.replica = DesiredReplica(
            id=f"r-{self.numbers}",
            job=job,
            fence=self.numbers,
            wish=DesiredReplicaState.RUN,
            image=image,
            command=("true",),
            devices=(device,),
            grace_seconds=GRACE_SECONDS,
        )
