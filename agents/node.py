"""The reconcile loop: look, decide, do, say. Woken by news, never by polling; a slow tick only
catches what no news announced."""

import logging
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from agents.contract.calls import EventType
from agents.contract.documents import (
    DesiredDocument,
    DesiredReplica,
    ObservedDocument,
)
from agents.journal import Failure, Journal
from agents.observe import Hardware, observed
from agents.partition import (
    Create,
    Destroy,
    SetMode,
    Step,
    WantedSlice,
    carry_out,
    diff,
    place_of,
)
from agents.policy import Policy
from agents.reconcile import (
    Action,
    Fail,
    Forget,
    Known,
    Prepare,
    Remove,
    Start,
    Stop,
    actions,
    removes_too_much,
)
from agents.runtime.base import Phase, Runtime, RuntimeFailure, Seen

TICK_SECONDS = 5.0
WORKERS = 8

log = logging.getLogger("agents.node")


class NodeLoop:
    """Makes one node what the last desired document says. `told` is called with every new
    observed document, from the loop's thread."""

    def __init__(
        self,
        node_id: str,
        journal: Journal,
        hardware: Hardware,
        runtime: Runtime,
        policy: Policy,
        told: Callable[[ObservedDocument], None],
    ) -> None:
        self.node_id = node_id
        self.journal = journal
        self.hardware = hardware
        self.runtime = runtime
        self.policy = policy
        self.told = told
        self.desired = journal.desired() or DesiredDocument(node=node_id)
        self.may_remove = False
        self.lease_until: float | None = None
        self._news = threading.Event()
        self._stopping = False
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="replica")
        self._busy: set[Hashable] = set()
        self._lock = threading.Lock()
        self._last: ObservedDocument | None = None
        runtime.watch(self.wake)

    def wake(self) -> None:
        self._news.set()

    def accept(self, desired: DesiredDocument) -> bool:
        """Take a new desired document, written down first. False: it is held, see the event."""
        running = frozenset(
            key for key, seen in self.runtime.seen().items() if seen.phase is Phase.RUNNING
        )
        went_back = desired.revision < self.desired.revision
        too_much = removes_too_much(desired.replicas, running, went_back=went_back)
        if too_much and not desired.allow_mass_removal:
            sentence = "this document would end most running work: an admin has to allow it"
            self.journal.event(EventType.HOLDING, sentence)
            return False
        self.journal.keep_desired(desired)
        self.desired = desired
        self.wake()
        return True

    def in_contact(self, lease_until: float) -> None:
        """The portal answered in the present epoch: what is not wanted may go."""
        self.lease_until = max(lease_until, self.lease_until or 0)
        if not self.may_remove:
            self.may_remove = True
            self.wake()

    def run(self) -> None:
        """Until `stop`. An error in one round is logged; the next round starts from what is."""
        while not self._stopping:
            self._news.wait(TICK_SECONDS)
            ticked = not self._news.is_set()
            self._news.clear()
            try:
                if ticked:
                    self.hardware.refresh()
                self.round()
            except Exception:
                log.exception("round_failed")

    def stop(self) -> None:
        """Let go; what runs goes on and is found again at the next start."""
        self._stopping = True
        self.wake()
        self._pool.shutdown(wait=True)

    def round(self) -> None:
        desired, seen = self.desired, self.runtime.seen()
        self._partition(desired, seen)
        for action in actions(desired.replicas, self._known(desired, seen)):
            self._begin(("replica", _subject(action)), partial(self._do, action))
        self._tell(desired)

    def _tell(self, desired: DesiredDocument) -> None:
        document = observed(
            self.node_id,
            self.hardware,
            desired.replicas,
            self.runtime.seen(),
            self.journal.failures(),
        )
        if document != self._last:
            self._last = document
            self.told(document)

    def _known(self, desired: DesiredDocument, seen: dict[str, Seen]) -> Known:
        failures, started = self.journal.failures(), self.journal.started()
        shipped = self.journal.shipped()
        refused = {r.id: self.policy.refusal(r, self.runtime.kind) for r in desired.replicas}
        return Known(
            seen=seen,
            fences=self.journal.fences(),
            failures=failures,
            started=started,
            remembered=frozenset(failures) | started | frozenset(shipped),
            shipped=frozenset(r for r, offset in shipped.items() if self._is_shipped(r, offset)),
            devices=self.hardware.devices(),
            may_remove=self.may_remove,
            lease_over=self._lease_is_over(),
            refusals={replica: why for replica, why in refused.items() if why},
        )

    def _is_shipped(self, replica: str, offset: int) -> bool:
        return not self.runtime.log(replica, offset, 1)

    def _lease_is_over(self) -> bool:
        if self.lease_until is None or self.policy.on_lease_end != "stop":
            return False
        return time.clock_gettime(time.CLOCK_BOOTTIME) > self.lease_until

    def _begin(self, key: Hashable, work: Callable[[], None]) -> None:
        """Do it beside the loop, once at a time for one subject; look again when it is done."""
        with self._lock:
            if key in self._busy or self._stopping:
                return
            self._busy.add(key)

        def run() -> None:
            try:
                work()
            except Exception:
                log.exception("action_failed", extra={"subject": str(key)})
            finally:
                with self._lock:
                    self._busy.discard(key)
                self.wake()

        self._pool.submit(run)

    def _do(self, action: Action) -> None:
        try:
            self._act(action)
        except RuntimeFailure as failure:
            self.journal.fail(_subject(action), Failure(failure.code, failure.sentence))

    def _act(self, action: Action) -> None:
        match action:
            case Prepare(replica, devices):
                intent = self.journal.intend(f"prepare {replica.id} fence {replica.fence}")
                self.runtime.prepare(replica, devices)
                self.wake()
                self.journal.done(intent)
            case Start(replica, devices):
                self._start(replica, devices)
            case Stop(replica_id, grace_seconds):
                self.runtime.stop(replica_id, grace_seconds)
            case Remove(replica_id):
                self.runtime.stop(replica_id, 0)
                self.runtime.remove(replica_id)
            case Fail(replica_id, failure):
                self.journal.fail(replica_id, failure)
                sentence = failure.sentence
                self.journal.event(EventType.REPLICA_REFUSED, sentence, replica=replica_id)
            case Forget(replica_id):
                self.journal.forget(replica_id)

    def _start(self, replica: DesiredReplica, devices: tuple[str, ...]) -> None:
        if replica.rendezvous is None:
            return
        self.journal.start(replica.id)
        self.runtime.start(replica, devices, replica.rendezvous)

    def _partition(self, desired: DesiredDocument, seen: dict[str, Seen]) -> None:
        """Begin the partition changes that are due; one change of the node at a time."""
        if "partition" in self._busy:
            return
        live = {key for key, s in seen.items() if s.phase is not Phase.EXITED}
        held = [d for r in desired.replicas if r.id in live for d in r.devices]
        if live - {r.id for r in desired.replicas}:
            # Something runs that this document does not name: what it holds is not known.
            return
        changes = diff(
            self.hardware.gpus,
            self.hardware.instances,
            (WantedSlice(s.gpu_uuid, s.profile, s.start, s.size, s.id) for s in desired.slices),
            {gpu.uuid: gpu.mode for gpu in desired.gpus},
            frozenset(place_of(d) for d in held),
        )
        self.hardware.problems = changes.problems
        if changes.steps:
            self._begin("partition", lambda: self._carve(changes.steps))

    def _carve(self, steps: list[Step]) -> None:
        intents: dict[int, int] = {}

        def before(step: Step) -> None:
            intents[id(step)] = self.journal.intend(repr(step))

        def after(step: Step) -> None:
            self.journal.done(intents[id(step)])
            self.hardware.refresh()
            self._report_step(step)
            self.wake()

        problems = carry_out(self.hardware.nvml, steps, before, after)
        self.hardware.refresh()
        self.hardware.problems = problems
        if problems:
            # Tried again with the next tick, not at once.
            log.warning("partition_problem", extra={"why": problems[0].sentence})
            time.sleep(min(1.0, TICK_SECONDS))

    def _report_step(self, step: Step) -> None:
        gpu = {"gpu": step.slice.gpu_uuid if isinstance(step, Create) else step.gpu_uuid}
        match step:
            case Create(want):
                what = gpu | {"profile": want.profile, "start": str(want.start)}
                self.journal.event(EventType.SLICE_CREATED, f"{want.profile} carved", data=what)
            case Destroy():
                self.journal.event(EventType.SLICE_DELETED, "slice deleted", data=gpu)
            case SetMode():
                word = "on" if step.mig else "off"
                self.journal.event(EventType.MODE_CHANGED, f"MIG {word}", data=gpu)

    def stop_jobs(self) -> None:
        """End everything that runs here, for a demonstration that leaves nothing behind."""
        for replica in self.runtime.seen():
            self.runtime.stop(replica, 2)
            self.runtime.remove(replica)
        self.runtime.tidy()


def _subject(action: Action) -> str:
    match action:
        case Prepare(replica) | Start(replica):
            return replica.id
        case _:
            return action.replica
