"""The shares of one node: refused, given, watched, ended. One lock over changes of its daemons.

What stands is on disk, one folder per daemon, so a new agent adopts what the one before started.
The questions that every round asks take no lock: daemons and holders are replaced, never changed.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agents.contract.calls import EventType
from agents.contract.documents import (
    DesiredDocument,
    DesiredReplica,
    DesiredReplicaState,
    GpuMode,
)
from agents.facts.device_keys import device_key
from agents.facts.failures import ReplicaFailure
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.mps.capacities import rooms
from agents.mps.control import ControlCode, ControlFailure
from agents.mps.daemons import Daemon
from agents.mps.fault_isolation import may_have_hurt, of_gpu, of_neighbour
from agents.mps.grants import Home, grant, home_of, per_client, share_of
from agents.mps.record import Holder, Record, load
from agents.mps.refusals import Place, ShareCode, claims_of, refusals, touch
from agents.mps.support import UNABLE, Ability
from agents.nvml.errors import NvmlFailure
from agents.runtime.base import ContainerPhase, ContainerStatus, RuntimeFailure
from agents.runtime.grants import Grant
from agents.state.journal import Journal

NOWHERE = Path(os.devnull)
GRACE_SECONDS = 5
# How long a daemon that cannot be ended, renewed or started is left alone.
AGAIN_SECONDS = 5.0

log = logging.getLogger("agents.mps")


@dataclass(frozen=True, slots=True)
class View:
    """What is wanted, what runs, and who was told to have failed, at one moment."""

    desired: DesiredDocument
    seen: Mapping[str, ContainerStatus]
    failures: frozenset[str]

    def live(self) -> set[str]:
        return {key for key, seen in self.seen.items() if seen.phase is not ContainerPhase.EXITED}

    def kept(self) -> set[str]:
        """Replicas that have their share now, or are about to get a container for it."""
        coming = {r.id for r in self.desired.replicas if r.id not in self.seen}
        return self.live() | (coming - self.failures)

    def was_asked_to_end(self, replica: str) -> bool:
        wishes = {r.id: r.wish for r in self.desired.replicas}
        return wishes.get(replica, DesiredReplicaState.STOP) is DesiredReplicaState.STOP


class Shares:
    """`root`: the folder of the daemons. `now` counts seconds and never goes back."""

    def __init__(
        self,
        root: Path = NOWHERE,
        ability: Ability = UNABLE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without arguments: a node that refuses every share."""
        self.root = root.absolute()
        self.ability = ability
        self._now = now
        self._lock = threading.Lock()
        self._daemons: dict[str, Daemon] = {}
        for folder in self.root.iterdir() if self.root.is_dir() else ():
            if record := load(folder):
                self._daemon(Home(self.root, folder.name), record)

    def grant(self, replica: DesiredReplica, devices: Sequence[str]) -> Grant:
        """For the runtimes: what the replica's container is made with."""
        return grant(self.root, replica, devices, contained=self.ability.contained)

    def refusals(
        self,
        view: View,
        started: frozenset[str],
        gpus: Iterable[GpuFacts],
        instances: Iterable[InstanceFacts],
    ) -> dict[str, ReplicaFailure]:
        """Replicas that this node will not run, because of shares. `started`: ran before."""
        gpus, replicas, kept, live = list(gpus), view.desired.replicas, view.kept(), view.live()
        standing = [c for d in self._daemons.values() for c in d.record.claims()]
        if not standing and not any(share_of(r) for r in replicas):
            return {}
        running = [c for c in standing if c.replica in kept]
        have = {c.replica for c in running}
        running += [c for r in replicas if r.id in live - have for c in claims_of(r)]
        over = have | started | view.failures | set(view.seen)
        coming = [
            r for r in replicas if r.id not in over and r.wish is not DesiredReplicaState.STOP
        ]
        found = refusals(
            running,
            [c for r in coming for c in claims_of(r)],
            rooms(gpus, instances, self.ability.cuda),
            _modes(gpus, view.desired),
            self.ability.unable,
        )
        return {key: ReplicaFailure(str(r.code), r.sentence) for key, r in found.items()}

    def give(
        self, replica: DesiredReplica, devices: Sequence[str], view: View, journal: Journal
    ) -> None:
        """Before a container is made or started: a share has its daemon, and a device that is given
        alone has none left. Harmless when repeated. Raises RuntimeFailure."""
        with self._lock, _told():
            home = None
            if share := share_of(replica):
                home = home_of(self.root, replica.project, device_key(share))
            for device in replica.devices:
                self._clear(device_key(device), home, view, journal)
            if share is None or home is None:
                return
            record = Record(replica.project, device_key(share), devices[0], self.ability.uid)
            daemon = self._daemons.get(home.key) or self._daemon(home, record)
            if daemon.record.device != devices[0]:
                # The instance was carved anew: its UUID is another one.
                self._end(daemon, journal)
                daemon = self._daemon(home, record)
            holder = Holder(share.threads, share.memory_mib, replica.processes)
            daemon.record.holders = {**daemon.record.holders, replica.id: holder}
            self._ensure(daemon, *per_client(replica, share), journal)

    def shake(self, gpu_uuid: str, why: str) -> None:
        """Something bad was heard of the GPU, such as an XID: its shares are told in the next round
        that looks. Any thread may call."""
        for daemon in list(self._daemons.values()):
            if daemon.record.place[0] == gpu_uuid:
                daemon.shaken = why

    def is_due(self, view: View) -> bool:
        """Whether `settle` has something to do."""
        kept = view.kept()
        return any(self._is_due(daemon, kept) for daemon in self._daemons.values())

    def settle(self, look: Callable[[], View], journal: Journal) -> None:
        """Tell who may have been hurt, mend what can be mended, end what nobody holds. `look` is
        called under the lock: nobody is given a share meanwhile."""
        with self._lock:
            view = look()
            kept = view.kept()
            for daemon in list(self._daemons.values()):
                if not self._is_due(daemon, kept):
                    continue
                try:
                    self._settle(daemon, view, journal)
                except (ControlFailure, NvmlFailure) as failure:
                    daemon.again_at = self._now() + AGAIN_SECONDS
                    log.warning("mps_unsettled", extra={"why": str(failure)})

    def end_all(self, journal: Journal) -> None:
        """Nothing runs here any more: leave no daemon behind."""
        with self._lock:
            for daemon in list(self._daemons.values()):
                try:
                    self._end(daemon, journal)
                except NvmlFailure as failure:
                    log.warning("mps_unsettled", extra={"why": str(failure)})

    def _is_due(self, daemon: Daemon, kept: set[str]) -> bool:
        if self._now() < daemon.again_at:
            return False
        left = not set(daemon.record.holders) <= kept or not daemon.record.holders
        return left or bool(daemon.shaken) or daemon.suspect or daemon.pid() is None

    def _settle(self, daemon: Daemon, view: View, journal: Journal) -> None:
        record, kept = daemon.record, view.kept()
        runs = daemon.pid() is not None
        gone = [replica for replica in record.holders if replica not in kept]
        left = [replica for replica in record.holders if replica in kept]
        ended = [view.seen[replica] for replica in gone if replica in view.seen]
        daemon.suspect = daemon.suspect or any(seen.exit_code for seen in ended)
        fault = runs and daemon.suspect and daemon.has_fault()
        for seen in ended:
            asked = view.was_asked_to_end(seen.replica)
            if may_have_hurt(seen, asked=asked, fault=fault):
                self._mark(daemon, left, of_neighbour(seen), view, journal)
        if why := daemon.shaken:
            self._mark(daemon, left, of_gpu(why), view, journal)
            daemon.shaken, daemon.suspect = "", True
        if not runs and left:
            self._mark(daemon, left, of_gpu("its MPS daemon ended"), view, journal)
        record.holders = {key: held for key, held in record.holders.items() if key in kept}
        daemon.save()
        if not record.holders:
            self._end(daemon, journal)
        elif not runs:
            self._ensure(daemon, record.threads, record.memory_mib, journal)
        elif daemon.suspect:
            daemon.suspect = not daemon.renew_servers()
            daemon.again_at = self._now() + (AGAIN_SECONDS if daemon.suspect else 0)

    def _mark(
        self, daemon: Daemon, left: list[str], sentence: str, view: View, journal: Journal
    ) -> None:
        gpu = {"gpu": daemon.record.place[0]}
        for replica in left:
            if seen := view.seen.get(replica):
                journal.record_event(
                    EventType.SHARE_AT_RISK, sentence, replica=replica, fence=seen.fence, data=gpu
                )

    def _clear(self, place: Place, mine: Home | None, view: View, journal: Journal) -> None:
        """End daemons in the way whose last share has ended. Raises RuntimeFailure where one has
        not."""
        for daemon in list(self._daemons.values()):
            if daemon.home == mine or not touch(daemon.record.place, place):
                continue
            if set(daemon.record.holders) & view.live():
                sentence = f"shares of project {daemon.record.project} run on GPU {place[0]}"
                raise RuntimeFailure(ShareCode.MODE, sentence)
            self._end(daemon, journal)

    def _ensure(self, daemon: Daemon, threads: int, memory_mib: int, journal: Journal) -> None:
        what = f"mps daemon {daemon.home.key} of {daemon.record.device} for {threads} %"
        intent = journal.record_intent(what)
        daemon.ensure(threads, memory_mib)
        journal.complete_intent(intent)

    def _end(self, daemon: Daemon, journal: Journal) -> None:
        intent = journal.record_intent(f"mps end {daemon.home.key} of {daemon.record.device}")
        daemon.end(GRACE_SECONDS)
        key = daemon.home.key
        self._daemons = {k: other for k, other in self._daemons.items() if k != key}
        journal.complete_intent(intent)

    def _daemon(self, home: Home, record: Record) -> Daemon:
        found = Daemon(home, record, self.ability.program, contained=self.ability.contained)
        self._daemons = {**self._daemons, home.key: found}
        return found


def _modes(gpus: Iterable[GpuFacts], desired: DesiredDocument) -> dict[str, GpuMode]:
    """As it will be, where the document says so; a GPU shared by MPS is whole for the driver."""
    now = {gpu.uuid: GpuMode.MIG if gpu.mig_current else GpuMode.WHOLE for gpu in gpus}
    return now | {gpu.uuid: gpu.mode for gpu in desired.gpus}


@contextmanager
def _told() -> Iterator[None]:
    """What MPS or the driver refused, as a failure of the replica."""
    try:
        yield
    except ControlFailure as failure:
        raise RuntimeFailure(str(failure.code), failure.sentence) from failure
    except NvmlFailure as failure:
        raise RuntimeFailure("mps_exclusive", failure.sentence) from failure
    except OSError as error:
        raise RuntimeFailure(ControlCode.PATH, f"no folder for an MPS daemon: {error}") from error
