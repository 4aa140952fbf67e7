"""The MPS shares of one node: refuses, grants, supervises and ends them.

Changes of daemons take one lock. Each daemon has a folder on disk, so a new agent adopts what an
earlier one started. The checks of every round take no lock: the mappings of daemons and holders are
replaced, never changed.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from agents.facts.device_keys import DeviceKey, device_key
from agents.facts.failures import ReplicaFailure
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.mps.capacities import share_capacities
from agents.mps.control import ControlCode, ControlFailure
from agents.mps.daemons import MpsDaemon
from agents.mps.fault_isolation import gpu_sentence, may_have_harmed_neighbours, neighbour_sentence
from agents.mps.grants import (
    DaemonFolders,
    client_limits,
    daemon_folders,
    share_device,
    share_grant,
)
from agents.mps.record import DaemonRecord, ShareHolder, load_record
from agents.mps.refusals import ShareCode, overlap, share_claims, share_refusals
from agents.mps.support import NO_SUPPORT, MpsSupport
from agents.nvml.errors import NvmlFailure
from agents.runtime.base import ContainerPhase, ContainerStatus, RuntimeFailure
from agents.runtime.grants import Grant
from agents.state.journal import Journal

NO_FOLDER = Path(os.devnull)
GRACE_SECONDS = 5
# How long to wait before a failed change of a daemon is tried again.
RETRY_SECONDS = 5.0

log = logging.getLogger("agents.mps")


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """What is desired, what runs, and which replicas have failed, at one moment."""

    desired: DesiredDocument
    containers: Mapping[str, ContainerStatus]
    failures: frozenset[str]

    def live_replicas(self) -> set[str]:
        return {
            key for key, seen in self.containers.items() if seen.phase is not ContainerPhase.EXITED
        }

    def sharing_replicas(self) -> set[str]:
        """Replicas that use their share now, or are about to get a container."""
        coming = {r.id for r in self.desired.replicas if r.id not in self.containers}
        return self.live_replicas() | (coming - self.failures)


class NodeShares:
    """`root`: the folder of the daemons. `now` counts seconds and never goes back."""

    def __init__(
        self,
        root: Path = NO_FOLDER,
        support: MpsSupport = NO_SUPPORT,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without arguments: a node that refuses every share."""
        self.root = root.absolute()
        self.support = support
        self._now = now
        self._lock = threading.Lock()
        self._daemons: dict[str, MpsDaemon] = {}
        for folder in self.root.iterdir() if self.root.is_dir() else ():
            if record := load_record(folder):
                self._daemon(DaemonFolders(self.root, folder.name), record)

    def grant(self, replica: DesiredReplica, devices: Sequence[str]) -> Grant:
        """For the runtimes: what the replica's container is created with."""
        return share_grant(self.root, replica, devices, in_containers=self.support.in_containers)

    def refusals(
        self,
        view: ReplicaView,
        started: frozenset[str],
        gpus: Iterable[GpuFacts],
        instances: Iterable[InstanceFacts],
    ) -> dict[str, ReplicaFailure]:
        """Replicas that this node will not run because of shares. `started`: they ran before."""
        gpus, replicas, kept, live = (
            list(gpus),
            view.desired.replicas,
            view.sharing_replicas(),
            view.live_replicas(),
        )
        standing = [c for d in self._daemons.values() for c in d.record.claims()]
        if not standing and not any(share_device(r) for r in replicas):
            return {}
        running = [c for c in standing if c.replica in kept]
        have = {c.replica for c in running}
        running += [c for r in replicas if r.id in live - have for c in share_claims(r)]
        over = have | started | view.failures | set(view.containers)
        coming = [
            r for r in replicas if r.id not in over and r.wish is not DesiredReplicaState.STOP
        ]
        found = share_refusals(
            running,
            [c for r in coming for c in share_claims(r)],
            share_capacities(gpus, instances, self.support.cuda),
            _modes(gpus, view.desired),
            self.support.unavailable_reason,
        )
        return {key: ReplicaFailure(str(r.code), r.sentence, r.message) for key, r in found.items()}

    def prepare_devices(
        self,
        replica: DesiredReplica,
        devices: Sequence[str],
        current_view: Callable[[], ReplicaView],
        journal: Journal,
    ) -> None:
        """Prepare a replica's devices before its container is created or started.

        A share gets its daemon, and a device for exclusive use loses the one it had. May be
        repeated. `current_view` is called only if a daemon is in the way. Raises RuntimeFailure."""
        with self._lock, _as_runtime_failure():
            home = None
            if share := share_device(replica):
                home = daemon_folders(self.root, replica.project, device_key(share))
            for device in replica.devices:
                self._clear(device_key(device), home, current_view, journal)
            if share is None or home is None:
                return
            record = DaemonRecord(replica.project, device_key(share), devices[0], self.support.uid)
            daemon = self._daemons.get(home.key) or self._daemon(home, record)
            if daemon.record.device != devices[0]:
                # The instance was carved again: it has another UUID.
                self._end(daemon, journal)
                daemon = self._daemon(home, record)
            holder = ShareHolder(share.threads, share.memory_mib, replica.processes)
            daemon.record.holders = {**daemon.record.holders, replica.id: holder}
            self._ensure(daemon, *client_limits(replica, share), journal)

    def has_share(self, replica: str) -> bool:
        """Whether a daemon here serves this replica."""
        return any(replica in daemon.record.holders for daemon in self._daemons.values())

    def disconnect(self, replica: str, pids: Collection[int]) -> None:
        """End the connections of these processes of a replica to their server, which leaves their
        neighbours unharmed. Their next CUDA call fails. What a daemon refuses is logged.

        Without processes it has ended already, and may have harmed its neighbours."""
        if not pids:
            return
        with self._lock:
            for daemon in list(self._daemons.values()):
                if replica in daemon.record.holders:
                    try:
                        daemon.disconnect(set(pids))
                        daemon.disconnected = daemon.disconnected | {replica}
                    except ControlFailure as failure:
                        log.warning("mps_not_disconnected", extra={"why": str(failure)})

    def report_gpu_fault(self, gpu_uuid: str, reason: str) -> None:
        """The GPU had a fault, such as an XID. The next round records that its shares are at risk.
        Any thread may call."""
        for daemon in list(self._daemons.values()):
            if daemon.record.place[0] == gpu_uuid:
                daemon.fault_reason = reason

    def is_due(self, view: ReplicaView) -> bool:
        """Whether `settle` has work to do."""
        kept = view.sharing_replicas()
        return any(self._is_due(daemon, kept) for daemon in self._daemons.values())

    def settle(self, current_view: Callable[[], ReplicaView], journal: Journal) -> None:
        """Record which shares are at risk, mend broken daemons and stop unused ones.

        `current_view` is called under the lock, so no share is granted meanwhile."""
        with self._lock:
            view = current_view()
            kept = view.sharing_replicas()
            for daemon in list(self._daemons.values()):
                if not self._is_due(daemon, kept):
                    continue
                try:
                    self._settle(daemon, view, journal)
                except (ControlFailure, NvmlFailure) as failure:
                    daemon.retry_at = self._now() + RETRY_SECONDS
                    log.warning("mps_unsettled", extra={"why": str(failure)})

    def stop_all(self, journal: Journal) -> None:
        """Stop every daemon, once nothing runs on the node any more."""
        with self._lock:
            for daemon in list(self._daemons.values()):
                try:
                    self._end(daemon, journal)
                except NvmlFailure as failure:
                    log.warning("mps_unsettled", extra={"why": str(failure)})

    def _is_due(self, daemon: MpsDaemon, sharing: set[str]) -> bool:
        if self._now() < daemon.retry_at:
            return False
        left = not set(daemon.record.holders) <= sharing or not daemon.record.holders
        return (
            left or bool(daemon.fault_reason) or daemon.is_suspect or daemon.running_pid() is None
        )

    def _settle(self, daemon: MpsDaemon, view: ReplicaView, journal: Journal) -> None:
        record, kept = daemon.record, view.sharing_replicas()
        runs = daemon.running_pid() is not None
        gone = [replica for replica in record.holders if replica not in kept]
        left = [replica for replica in record.holders if replica in kept]
        ended = [view.containers[replica] for replica in gone if replica in view.containers]
        daemon.is_suspect = daemon.is_suspect or any(seen.exit_code for seen in ended)
        fault = runs and daemon.is_suspect and daemon.has_fault()
        for seen in ended:
            harmless = seen.replica in daemon.disconnected
            if may_have_harmed_neighbours(seen, disconnected=harmless, has_server_fault=fault):
                self._report_risk(daemon, left, neighbour_sentence(seen), view, journal)
        if why := daemon.fault_reason:
            self._report_risk(daemon, left, gpu_sentence(why), view, journal)
            daemon.fault_reason, daemon.is_suspect = "", True
        if not runs and left:
            self._report_risk(daemon, left, gpu_sentence("its MPS daemon ended"), view, journal)
        record.holders = {key: held for key, held in record.holders.items() if key in kept}
        daemon.disconnected &= record.holders.keys()
        daemon.save()
        if not record.holders:
            self._end(daemon, journal)
        elif not runs:
            self._ensure(daemon, record.threads, record.memory_mib, journal)
        elif daemon.is_suspect:
            daemon.is_suspect = not daemon.renew_servers()
            daemon.retry_at = self._now() + (RETRY_SECONDS if daemon.is_suspect else 0)

    def _report_risk(
        self, daemon: MpsDaemon, left: list[str], sentence: str, view: ReplicaView, journal: Journal
    ) -> None:
        gpu = {"gpu": daemon.record.place[0]}
        for replica in left:
            if seen := view.containers.get(replica):
                journal.record_event(
                    EventType.SHARE_AT_RISK, sentence, replica=replica, fence=seen.fence, data=gpu
                )

    def _clear(
        self,
        place: DeviceKey,
        mine: DaemonFolders | None,
        current_view: Callable[[], ReplicaView],
        journal: Journal,
    ) -> None:
        """Stop other daemons on this place. Raises RuntimeFailure if one still has a live share."""
        for daemon in list(self._daemons.values()):
            if daemon.folders == mine or not overlap(daemon.record.place, place):
                continue
            if set(daemon.record.holders) & current_view().live_replicas():
                sentence = f"shares of project {daemon.record.project} run on GPU {place[0]}"
                raise RuntimeFailure(ShareCode.MODE, sentence)
            self._end(daemon, journal)

    def _ensure(self, daemon: MpsDaemon, threads: int, memory_mib: int, journal: Journal) -> None:
        what = f"mps daemon {daemon.folders.key} of {daemon.record.device} for {threads} %"
        intent = journal.record_intent(what)
        daemon.ensure_running(threads, memory_mib)
        journal.complete_intent(intent)

    def _end(self, daemon: MpsDaemon, journal: Journal) -> None:
        intent = journal.record_intent(f"mps end {daemon.folders.key} of {daemon.record.device}")
        daemon.stop(GRACE_SECONDS)
        key = daemon.folders.key
        self._daemons = {k: other for k, other in self._daemons.items() if k != key}
        journal.complete_intent(intent)

    def _daemon(self, home: DaemonFolders, record: DaemonRecord) -> MpsDaemon:
        found = MpsDaemon(
            home, record, self.support.program, in_containers=self.support.in_containers
        )
        self._daemons = {**self._daemons, home.key: found}
        return found


def _modes(gpus: Iterable[GpuFacts], desired: DesiredDocument) -> dict[str, GpuMode]:
    """The desired mode of each GPU, else its current one. MPS is only known from the document."""
    now = {gpu.uuid: GpuMode.MIG if gpu.mig_current else GpuMode.WHOLE for gpu in gpus}
    return now | {gpu.uuid: gpu.mode for gpu in desired.gpus}


@contextmanager
def _as_runtime_failure() -> Iterator[None]:
    """Turn a refusal of MPS or of the driver into RuntimeFailure."""
    try:
        yield
    except ControlFailure as failure:
        raise RuntimeFailure(str(failure.code), failure.sentence) from failure
    except NvmlFailure as failure:
        raise RuntimeFailure("mps_exclusive", failure.sentence) from failure
    except OSError as error:
        raise RuntimeFailure(ControlCode.PATH, f"no folder for an MPS daemon: {error}") from error
