"""Nodes of a walk of gangs: they follow the portal, and fail as nodes do. In virtual time."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from agents.contract.calls import SyncRequest
from agents.contract.documents import DesiredReplica, DesiredReplicaState, ReplicaState, digest
from agents.contract.end_causes import EndCause
from agents.contract.launcher_names import LauncherName
from agents.contract.lease import LeaseEnd
from agents.runtime.port_offers import PortOffers
from portal.agentapi.sync import sync_accept
from tests.support.node_sessions import sync
from tests.support.rows import HonestNode

LEASE = timedelta(seconds=300)
HERE = "127.0.0.1"
# Of a token: no walk lasts so long.
FOREVER = timedelta(days=3_650)
Place = tuple[str, int]


@dataclass(frozen=True)
class Started:
    """A rank that a node has started, and where it was told to meet the others."""

    replica: DesiredReplica
    meeting: Place


@dataclass
class WalkedNode(HonestNode):
    is_cut: bool = False
    """Nothing passes between it and the portal."""
    is_slow: bool = False
    """Containers take long to prepare."""
    is_stuck: bool = False
    """Containers do not start."""
    lease_until: datetime | None = None
    ports: PortOffers = field(default_factory=lambda: PortOffers(HERE))
    started: list[Started] = field(default_factory=list)
    """Since the walk last looked."""
    sent: list[tuple[object, int]] = field(default_factory=list)

    def call(self, now: datetime) -> None:
        """One sync: the report, and what the answer makes of the node."""
        if self.is_cut:
            return
        self._send(now)
        self.row.refresh_from_db(fields=["revision", "desired"])
        is_behind = self.desired is None or self.row.revision != self.desired.revision
        if self.row.desired and (is_behind or self._has_work()):
            self.carry_out()
            self.ports.keep(self.replicas)
            self._send(now)

    def _has_work(self) -> bool:
        """Since it heard, it was slow or stuck."""
        early = (ReplicaState.PREPARING, ReplicaState.READY)
        return any(seen.state in early for seen in self.replicas.values())

    def call_late(self) -> None:
        """A report of before arrives once more."""
        if self.sent and not self.is_cut:
            sync(self, *self.sent[len(self.sent) // 2])

    def time_passes(self, now: datetime) -> None:
        """Out of contact, it stops what runs at the end of its lease, if that is its policy."""
        is_over = self.lease_until is not None and now > self.lease_until
        if is_over and self.on_lease_end == LeaseEnd.STOP:
            self.end_all(str(EndCause.LEASE_OVER))

    def end_all(self, code: str) -> None:
        for key, seen in self.replicas.items():
            if seen.state is ReplicaState.RUNNING:
                self.replicas[key] = replace(seen, state=ReplicaState.FAILED, code=code)

    def end_checks(self) -> None:
        """The ranks that check a network have measured it."""
        for wanted in self.desired.replicas if self.desired else ():
            seen = self.replicas.get(wanted.id)
            if wanted.launcher is not LauncherName.NCCL_TESTS or seen is None:
                continue
            if seen.state is ReplicaState.RUNNING:
                self.replicas[wanted.id] = replace(seen, state=ReplicaState.EXITED, exit_code=0)

    def running(self) -> list[str]:
        return [key for key, r in self.replicas.items() if r.state is ReplicaState.RUNNING]

    def _send(self, now: datetime) -> None:
        self.lease_until = now + LEASE
        news = (self.observed(), self.desired.revision if self.desired else 0)
        if self.sent and self.sent[-1] == news:
            quiet = SyncRequest(1, news[1], digest(news[0]))
            token = f"Agent {self.row.pk.hex}.secret"
            if not sync_accept(authorization=token, request=quiet).full_required:
                return
        self.sent = [*self.sent[-5:], news]
        sync(self)

    def _moved(self, wanted: DesiredReplica):
        seen = self.replicas.get(wanted.id)
        is_new = seen is None or seen.state is ReplicaState.PREPARING
        if is_new and self.is_slow and wanted.wish is not DesiredReplicaState.STOP:
            made = seen or super()._moved(replace(wanted, wish=DesiredReplicaState.PREPARE))
            return replace(made, state=ReplicaState.PREPARING, address="", port=None)
        if is_new:
            self.replicas.pop(wanted.id, None)
        if self.is_stuck and wanted.wish is DesiredReplicaState.RUN and not is_new:
            return seen
        if wanted.world > 1 and wanted.rendezvous is None:
            # An agent starts no rank that does not know where to meet the others.
            is_run = wanted.wish is DesiredReplicaState.RUN
            wanted = replace(wanted, wish=DesiredReplicaState.PREPARE) if is_run else wanted
        moved = super()._moved(wanted)
        if is_new and moved.state is not ReplicaState.FAILED:
            taken = [other.port for other in self.replicas.values() if other.port]
            port = self.ports.offer(wanted.id, taken)
            moved = replace(moved, address=self.row.name, port=port)
        if moved.state is ReplicaState.RUNNING and (is_new or seen.state is ReplicaState.READY):
            meet = wanted.rendezvous
            place = (meet.address, meet.port) if meet else (moved.address, moved.port)
            self.started.append(Started(wanted, place))
        return moved
