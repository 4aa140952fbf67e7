"""The reconcile loop: observe, decide, act, report.

Events wake it; a slow tick only catches changes that no event announced."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from agents.admission.local_checks import disk_refusals, local_refusals
from agents.admission.policy import NodePolicy
from agents.contract.calls import EventType
from agents.contract.documents import (
    DesiredDocument,
    DesiredReplica,
    ObservedDocument,
    ReplicaState,
)
from agents.contract.end_causes import EndCause
from agents.contract.lease import LeaseEnd
from agents.facts.device_keys import device_place
from agents.facts.ends import RunRecord, StopRecord
from agents.files.inputs import InputsAway
from agents.files.replica_files import NoFiles, ReplicaFiles
from agents.hardware import Hardware
from agents.host.machine_ids import boot_id, boot_seconds
from agents.job_secrets.delivery import ReplicaSecrets, SecretsAway, without_secrets
from agents.loop.action_log import ActionLog
from agents.loop.disk_limits import DiskLimits
from agents.loop.end_records import record_ends
from agents.loop.image_fit import ImageFit
from agents.loop.lease import Lease
from agents.loop.observe import observed_document, silent_document
from agents.loop.pulls import ImagePulls
from agents.loop.reconcile import (
    FailReplica,
    ForgetReplica,
    LocalState,
    PrepareReplica,
    RemoveReplica,
    ReplicaAction,
    StartReplica,
    StopReplica,
    action_subject,
    is_mass_removal,
    replica_actions,
    stops_of_all,
)
from agents.loop.workers import Workers
from agents.mps.shares import NodeShares, ReplicaView
from agents.mps.stop import stop_replica
from agents.nvml.errors import NvmlFailure
from agents.partitioning.carver import Carver
from agents.runtime.base import ContainerPhase, ContainerStatus, Runtime, RuntimeFailure
from agents.runtime.image_pull import ImageAbsent
from agents.state.journal import Journal

TICK_SECONDS = 5.0
AWAY_SECONDS = 1.0  # after a call for secrets that the portal did not answer

log = logging.getLogger("agents.loop.node")


class NodeLoop:
    """Brings one node to the last desired document. `on_observed` is called with every new observed
    document, from the loop's thread."""

    def __init__(
        self,
        node_id: str,
        journal: Journal,
        hardware: Hardware,
        runtime: Runtime,
        policy: NodePolicy,
        on_observed: Callable[[ObservedDocument], None],
        shares: NodeShares | None = None,
        secrets: ReplicaSecrets | None = None,
        files: ReplicaFiles | None = None,
        new_workers: Callable[[Callable[[], None]], Workers] = Workers,
    ) -> None:
        self.node_id = node_id
        self.journal = journal
        self.hardware = hardware
        self.runtime = runtime
        self.policy = policy
        self.on_observed = on_observed
        self.shares = shares or NodeShares()
        self.secrets, self.files = secrets or without_secrets(), files or NoFiles()
        self.carver = Carver(
            hardware, journal, policy, boot_seconds, self.wake, injection=runtime.injection
        )
        self.desired = journal.desired() or DesiredDocument(node=node_id)
        self.rounds, self.may_remove = 0, False
        # Each is called with a replica that has ended, before what it wrote is removed.
        self.before_removal: list[Callable[[str], None]] = [self.files.before_removal]
        self.boot_id = boot_id()
        self.lease = Lease(journal, self.boot_id)
        self._wake = threading.Event()
        self._stopping = False
        self._workers = new_workers(self.wake)
        self._pulls = ImagePulls(
            runtime,
            self.wake,
            stall_seconds=policy.pull_stall_seconds,
            max_tries=policy.pull_tries,
            clock=boot_seconds,
            start_thread=self._workers.start_thread,
        )
        self._fit = ImageFit(runtime, policy)
        # When replicas may be tried again whose secrets could not be fetched.
        self._not_before: dict[str, float] = {}
        self._disk = DiskLimits(runtime, policy.default_disk_mib, self.wake)
        self._last: ObservedDocument | None = None
        self.action_log = ActionLog()
        runtime.watch(self.wake)

    def wake(self) -> None:
        self._wake.set()

    def accept(self, desired: DesiredDocument) -> bool:
        """Take a new desired document, which is written down first. False: it is refused, and an
        event says why."""
        if not desired.allow_mass_removal and self._ends_most(desired):
            sentence = "this document would end most running work: an admin must allow it"
            self.journal.record_event(EventType.DOCUMENT_REFUSED, sentence)
            return False
        self.journal.store_desired(desired)
        self.desired = desired
        self.wake()
        return True

    def _ends_most(self, desired: DesiredDocument) -> bool:
        went_back = desired.revision < self.desired.revision
        # Only then what runs matters, which the engine has to list.
        is_suspect = went_back or not desired.replicas
        return is_suspect and is_mass_removal(desired.replicas, self._running(), is_older=went_back)

    def _running(self) -> frozenset[str]:
        """The running replicas; as last reported, if the engine does not answer."""
        try:
            seen = self.runtime.containers()
        except RuntimeFailure:
            reported = self._last.replicas if self._last else ()
            return frozenset(r.id for r in reported if r.state is ReplicaState.RUNNING)
        return frozenset(key for key, one in seen.items() if one.phase is ContainerPhase.RUNNING)

    def renew_lease(self, lease_until: float) -> None:
        """The portal answered in the present epoch, so what is not desired may be removed."""
        is_first = not (self.may_remove and self._may_start())
        self.lease.renew(lease_until)
        self.may_remove = True
        if is_first:
            self.wake()

    def run(self) -> None:
        """Run until `stop`. An error in a round is logged; the next round starts afresh."""
        self._disk.start()
        while not self._stopping:
            tick = self.carver.backoff.seconds_until_due(TICK_SECONDS)
            due = self._pulls.seconds_until_due(tick)
            self._wake.wait(due)
            ticked = due == tick and not self._wake.is_set()
            self._wake.clear()
            try:
                if ticked or self.hardware.is_due():
                    self.hardware.refresh()
                self.round()
            except (RuntimeFailure, NvmlFailure) as silent:
                self.report_silence(str(silent))
            except Exception:
                log.exception("round_failed")

    def stop(self) -> None:
        """End the loop. Running replicas go on, and the next agent adopts them."""
        self._stopping = True
        self.wake()
        self._pulls.close()
        self._disk.close()
        self._workers.close()

    def round(self) -> None:
        self.rounds += 1
        desired, seen = self.desired, self._settled_containers()
        self.hardware.apply_health(desired.replicas, seen, self.journal)
        self.runtime.connect(desired.replicas)
        # First: an unneeded MPS daemon keeps its instance open, which then cannot be deleted.
        self._share(ReplicaView(desired, seen, frozenset(self.journal.failures())))
        self._partition(desired, seen)
        actions = replica_actions(desired.replicas, self._local_state(desired, seen))
        for action in (ready := self._ready_actions(actions)):
            # A stop lasts for its grace period and waits for no other work.
            is_stop = isinstance(action, StopReplica)
            key = ("replica", action_subject(action))
            self._workers.begin(key, partial(self._do, action), has_own_thread=is_stop)
        self.journal.forget_environments(self._ended(seen))
        known = {r.id for r in desired.replicas} | seen.keys() | set(map(action_subject, actions))
        for gone in set(self._not_before) - known:
            del self._not_before[gone]
        for keep in (self.secrets.keep, self._fit.keep, self.files.keep, self.runtime.keep):
            keep(known)
        # What was begun may have changed them.
        self._report(desired, self._settled_containers() if ready else seen)

    def _ready_actions(self, actions: list[ReplicaAction]) -> list[ReplicaAction]:
        """Without those that wait for an image or for files, and with a failure where an image
        cannot be pulled. Whoever waits is woken: to ask again before would only turn the loop."""
        wanted = self.policy.wanted_image
        waiting = {wanted(a.replica) for a in actions if isinstance(a, PrepareReplica)}
        self._pulls.settle(waiting)
        pulling, ready, now = self._pulls.progress(), list[ReplicaAction](), boot_seconds()
        fetching, settling = self.files.fetching(self.desired.replicas), self.files.settling()
        for action in actions:
            subject = action_subject(action)
            if isinstance(action, StopReplica):
                if subject not in settling:
                    ready.append(action)
            elif subject in fetching or self._not_before.get(subject, 0) > now:
                continue
            elif not isinstance(action, PrepareReplica):
                ready.append(action)
            elif failure := self._pulls.failure(wanted(action.replica)):
                ready.append(FailReplica(action.replica.id, failure))
            elif wanted(action.replica) not in pulling:
                ready.append(action)
        return ready

    def _ended(self, seen: Mapping[str, ContainerStatus]) -> frozenset[str]:
        """Replicas that will not run again: their container exited, or they have failed."""
        exited = {key for key, one in seen.items() if one.phase is ContainerPhase.EXITED}
        return frozenset(exited) | frozenset(self.journal.failures())

    def _settled_containers(self) -> dict[str, ContainerStatus]:
        """The containers, once the journal has recorded what ended those that have ended."""
        seen = self.files.settle(self.runtime.containers())
        settled = self.journal.failures().keys() | self.journal.own_ends()
        fresh = [s for s in seen.values() if s.finished_at is not None and s.replica not in settled]
        if fresh:
            record_ends(fresh, self.journal, self.runtime, self.boot_id, self.action_log)
        return seen

    def _report(self, desired: DesiredDocument, seen: dict[str, ContainerStatus]) -> None:
        document = observed_document(
            self.node_id,
            self.hardware,
            desired.replicas,
            seen,
            self.journal.failures(),
            desired.unreadable,
            self._pulls.progress_of(desired.replicas, self.policy.wanted_image),
            self._fit.needs(),
            self.files.commits(desired.replicas),
        )
        if document != self._last:
            self._last = document
            self.on_observed(document)

    def report_silence(self, reason: str) -> None:
        """Report that the engine or the driver does not answer. Until it does, nothing is done, and
        replicas stay as last reported."""
        log.warning("engine_or_driver_silent", extra={"why": reason})
        document = silent_document(self._last, reason) if self._last else None
        if document is not None and document != self._last:
            self._last = document
            self.on_observed(document)

    def _local_state(
        self, desired: DesiredDocument, containers: dict[str, ContainerStatus]
    ) -> LocalState:
        failures, started = self.journal.failures(), self.journal.started_replicas()
        given = self.carver.available_devices(self.hardware.idle_devices())
        shipped = self.journal.shipped_offsets()
        begun = {k for k, seen in containers.items() if seen.phase is not ContainerPhase.CREATED}
        facts, kind = self.hardware.facts, self.runtime.kind
        refusals = local_refusals(desired.replicas, begun, self.policy, kind, facts)
        wanted = [r for r in desired.replicas if r.id not in failures and r.id not in refusals]
        short = disk_refusals(wanted, containers, facts.disk_mib)
        return LocalState(
            containers=containers,
            fences=self.journal.fences(),
            failures=failures,
            started=started,
            recorded=frozenset(failures) | started | frozenset(shipped),
            shipped=frozenset(r for r, offset in shipped.items() if self._is_shipped(r, offset)),
            devices=given,
            may_remove=self.may_remove,
            is_lease_over=self._lease_is_over(),
            may_start=self._may_start(),
            runs=self.journal.runs(),
            stops=self.journal.stops(),
            refusals=refusals | short,
            beyond_disk=self._disk.beyond(desired.replicas, containers),
        )

    def _is_shipped(self, replica: str, offset: int) -> bool:
        return not self.runtime.log(replica, offset, 1)

    def _lease_is_over(self) -> bool:
        return self.policy.on_lease_end == LeaseEnd.STOP and self.lease.is_over(boot_seconds())

    def _may_start(self) -> bool:
        """The portal may try elsewhere what was not started when contact was lost."""
        return self.lease.is_valid(boot_seconds())

    def _do(self, action: ReplicaAction) -> None:
        try:
            self._act(action)
            self.action_log.done(action)
        except (ImageAbsent, SecretsAway, InputsAway) as away:
            if isinstance(away, SecretsAway):
                self._not_before[action_subject(action)] = boot_seconds() + AWAY_SECONDS
            log.info("not_yet", extra={"replica": action_subject(action), "why": str(away)})
        except RuntimeFailure as failure:
            self.journal.record_failure(action_subject(action), failure.of_replica())

    def _act(self, action: ReplicaAction) -> None:
        match action:
            case PrepareReplica(replica, devices):
                sign_in = partial(self.secrets.pull_credential, replica)
                self._pulls.require(self.policy.wanted_image(replica), sign_in)
                self._fit.require(replica, self.hardware.facts)
                self.secrets.deliver(replica)
                self.files.deliver(replica, partial(self.runtime.make_folders, replica))
                intent = self.journal.record_intent(f"prepare {replica.id} fence {replica.fence}")
                self.shares.prepare_devices(replica, devices, self._view, self.journal)
                self.runtime.prepare(replica, devices)
                self.wake()
                self.journal.complete_intent(intent)
            case StartReplica(replica, devices):
                self._start(replica, devices)
            case StopReplica(replica_id, grace_seconds, cause):
                self.journal.record_stop(replica_id, StopRecord(cause, time.time()))
                stop_replica(self.runtime, self.shares, replica_id, grace_seconds)
            case RemoveReplica(replica_id):
                stop_replica(self.runtime, self.shares, replica_id, 0)
                self._remove(replica_id)
            case FailReplica(replica_id, failure):
                self.journal.record_failure(replica_id, failure)
                refused = EventType.REPLICA_REFUSED
                self.journal.record_event(refused, failure.sentence, replica=replica_id)
            case ForgetReplica(replica_id):
                # If a person removed its container, its log is still there.
                self._remove(replica_id)
                self.journal.forget_replica(replica_id)

    def _remove(self, replica_id: str) -> None:
        for hook in self.before_removal:
            hook(replica_id)
        self.runtime.remove(replica_id)

    def _start(self, replica: DesiredReplica, devices: tuple[str, ...]) -> None:
        if replica.rendezvous is None:
            return
        self.secrets.deliver(replica)
        self.journal.record_start(replica.id, RunRecord(self.boot_id, replica.grace_seconds))
        self.shares.prepare_devices(replica, devices, self._view, self.journal)
        self.runtime.start(replica, devices, replica.rendezvous)

    def _view(self) -> ReplicaView:
        return ReplicaView(
            self.desired, self.runtime.containers(), frozenset(self.journal.failures())
        )

    def _share(self, view: ReplicaView) -> None:
        """Refuse shares that the node cannot give, and begin what their daemons need."""
        hardware, started = self.hardware, self.journal.started_replicas()
        judged = self.shares.refusals(view, started, hardware.gpus, hardware.instances)
        for replica, failure in judged.items():
            self._do(FailReplica(replica, failure))
        if self.shares.is_due(view):
            settle = partial(self.shares.settle, self._view, self.journal)
            self._workers.begin("shares", settle, has_own_thread=True)

    def _partition(self, desired: DesiredDocument, containers: dict[str, ContainerStatus]) -> None:
        """Begin the partition changes that are due, one at a time for the node."""
        if self._workers.is_busy("partition"):
            return
        live = {key for key, s in containers.items() if s.phase is not ContainerPhase.EXITED}
        devices = [d for r in desired.replicas if r.id in live for d in r.devices]
        if live - {r.id for r in desired.replicas}:
            # A replica runs that this document does not name, so its devices are unknown.
            return
        judges = bool(desired.revision) or self.may_remove
        places = frozenset(device_place(device) for device in devices)
        work = self.carver.due_work(desired, places, is_authoritative=judges)
        if work is not None:
            self._workers.begin("partition", work, has_own_thread=True)

    def stop_jobs(self) -> None:
        """End everything that runs, for a demonstration that leaves nothing behind. The next agent
        reports what was ended here."""
        state = self._local_state(self.desired, self._settled_containers())
        stops = stops_of_all(self.desired.replicas, state, EndCause.AGENT_STOPPED)
        with ThreadPoolExecutor(len(stops) or 1, thread_name_prefix="stop") as pool:
            list(pool.map(self._act, stops))
        for replica in self._settled_containers():
            self.runtime.remove(replica)
        self.runtime.tidy()
        self.shares.stop_all(self.journal)
