"""Brings the partitions of one node to the desired document, and keeps track of its own instances.

Work is decided in the node's loop and executed beside it, never both at once.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from agents.admission.policy import NodePolicy
from agents.contract.calls import EventType
from agents.contract.documents import DesiredDocument
from agents.facts.device_keys import DeviceKey, InstancePlace
from agents.facts.gpus import GpuFacts, InstanceFacts
from agents.facts.partitions import InstanceClaim, PartitionProblem
from agents.hardware import Hardware
from agents.host.files import FileTree, HostFiles
from agents.host.machine_ids import boot_id
from agents.nvml.errors import NvmlCode, NvmlFailure
from agents.nvml.gate import GateBusy
from agents.nvml.processes import gpu_processes, is_passed_through
from agents.partitioning import capabilities, modes
from agents.partitioning.backoff import Backoff, BackoffChange
from agents.partitioning.busy_reason import explained_problem
from agents.partitioning.container_devices import PARTS, ContainerDevices
from agents.partitioning.diff import partition_changes
from agents.partitioning.execute import execute_steps
from agents.partitioning.ownership import Ownership, judge_ownership, unmanaged_problems
from agents.partitioning.steps import (
    CreateInstance,
    DestroyInstance,
    PartitionStep,
    SetMigMode,
    WantedSlice,
    gpu_of,
)
from agents.runtime.injection import Injection
from agents.state.journal import Journal

# A GPU with one of these problems is not as the portal expects: it takes no new work.
OUT_OF_SERVICE = ("unmanaged", "quarantined", modes.RESET_REQUIRED, modes.REBOOT_REQUIRED)
# Only a person can mend these.
NEEDS_PERSON = (modes.RESET_REQUIRED, modes.REBOOT_REQUIRED, capabilities.MISSING)
# The journal's fact with the backoff state. It is valid until a reboot, like the clock in it.
BACKOFF_FACT = "patience"

log = logging.getLogger("agents.partitioning")


class Carver:
    """The partitions of one node.

    `now` counts seconds and never goes back. `wake` starts another round of the loop. In `files`
    the processes that use a GPU are found. `injection`: how containers get their devices; None if
    replicas are no containers."""

    def __init__(
        self,
        hardware: Hardware,
        journal: Journal,
        policy: NodePolicy,
        now: Callable[[], float],
        wake: Callable[[], None],
        files: HostFiles | None = None,
        injection: Injection | None = None,
    ) -> None:
        self.hardware = hardware
        self.journal = journal
        self.policy = policy
        self.wake = wake
        self.files = files or FileTree(Path("/"))
        self._container_devices = ContainerDevices(
            policy, injection, self.files, simulated=hardware.facts.simulated
        )
        self.backoff = Backoff(now)
        if (memory := json.loads(journal.fact(BACKOFF_FACT) or "{}")).get("boot") == boot_id():
            self.backoff.restore(memory["streaks"])
        self._claims = {claim.place: claim for claim in journal.claims()}
        self._intents: dict[int, int] = {}
        self._refused: list[PartitionProblem] = []
        self._unmanaged: list[PartitionProblem] = []
        # By GPU, the step that was refused last, and whether only a person can mend that.
        self._failed_steps: dict[str, tuple[PartitionStep, bool]] = {}

    def due_work(
        self, desired: DesiredDocument, in_use: frozenset[InstancePlace], *, is_authoritative: bool
    ) -> Callable[[], None] | None:
        """Work to execute now beside the loop, or None.

        Also updates the hardware's problems. `in_use`: the places of live replicas' devices.
        `is_authoritative`: the document is from the portal, so instances that it does not name, and
        that the journal does not claim, are foreign."""
        hardware = self.hardware
        slices = [WantedSlice(s.gpu_uuid, s.profile, s.start, s.size, s.id) for s in desired.slices]
        ownership = self._judge_ownership(slices) if is_authoritative else Ownership()
        left_alone = hardware.unread.union(ownership.foreign)
        changes = partition_changes(
            [gpu for gpu in hardware.gpus if gpu.uuid not in left_alone],
            hardware.instances,
            [want for want in slices if want.gpu_uuid not in left_alone],
            {gpu.uuid: gpu.mode for gpu in desired.gpus},
            in_use,
        )
        self._update_backoff(changes.steps)
        steps = [step for step in changes.steps if self.backoff.is_due(gpu_of(step))]
        self._refused = changes.problems
        self._report_unmanaged(unmanaged_problems(hardware.gpus, ownership))
        self._publish()
        if steps or any(map(self._is_due, PARTS)):
            planned_on = {gpu: hardware.instances_of(gpu) for gpu in map(gpu_of, steps)}
            return partial(self._carve, steps, planned_on, in_use)
        return None

    def available_devices(self, devices: Mapping[DeviceKey, str]) -> dict[DeviceKey, str]:
        """Those of the devices that a new replica may get now."""
        shut = self.hardware.out_of_service
        return {
            key: uuid
            for key, uuid in devices.items()
            if key[0] not in shut and self._container_devices.is_available(key, uuid)
        }

    def _judge_ownership(self, desired: list[WantedSlice]) -> Ownership:
        adopt = self.policy.adopt_instances
        found = judge_ownership(self.hardware.instances, desired, self._claims, adopt=adopt)
        if found.claims:
            self._claim(found.claims)
        return found

    def _report_unmanaged(self, problems: list[PartitionProblem]) -> None:
        """Record an event for each GPU that has become unmanaged."""
        known = {problem.gpu_uuid for problem in self._unmanaged}
        for problem in problems:
            if problem.gpu_uuid not in known:
                self._record_event(EventType.GPU_UNMANAGED, problem.sentence, problem.gpu_uuid)
        self._unmanaged = problems

    def _claim(self, claims: Iterable[InstanceClaim]) -> None:
        claims = list(claims)
        self.journal.record_claims(claims)
        self._claims |= {claim.place: claim for claim in claims}

    def _update_backoff(self, steps: list[PartitionStep]) -> None:
        """End the streak of a GPU that needs no change any more, or whose mode a person mended.

        If its change is another one than the one that failed, it is tried at once."""
        busy = {gpu_of(step) for step in steps}
        for gpu in self.backoff.failing_subjects() - {*PARTS} - self.hardware.unread:
            stuck, for_a_person = self._failed_steps.get(gpu, (None, False))
            if gpu not in busy or (for_a_person and stuck not in steps):
                self._record_success(gpu)
            elif stuck not in steps:
                self.backoff.retry_now(gpu)

    def _publish(self) -> None:
        standing = self._unmanaged + self.backoff.problems()
        self.hardware.problems = self._refused + [self._with_gpu(problem) for problem in standing]
        self.hardware.out_of_service = {
            p.gpu_uuid: p.sentence for p in standing if p.code in OUT_OF_SERVICE
        }
        self.hardware.node_problems = tuple(
            p.sentence for p in standing if p.code == modes.REBOOT_REQUIRED
        )

    def _with_gpu(self, problem: PartitionProblem) -> PartitionProblem:
        """On the wire every problem names a GPU: that of the CDI file names the first one."""
        gpus = self.hardware.gpus
        return problem if problem.gpu_uuid or not gpus else replace(problem, gpu_uuid=gpus[0].uuid)

    def _carve(
        self,
        planned: list[PartitionStep],
        planned_on: Mapping[str, list[InstanceFacts]],
        in_use: frozenset[InstancePlace],
    ) -> None:
        """`planned_on`: the instances for which the steps were planned, by GPU."""
        stale = {gpu for gpu, found in planned_on.items() if self._is_stale(gpu, found)}
        steps = [step for step in planned if gpu_of(step) not in stale]
        problems = execute_steps(
            self.hardware.nvml, steps, self._before, self._after, self._explain
        )
        failed = {problem.gpu_uuid for problem in problems}
        for gpu in failed:
            self.hardware.refresh_gpu(gpu)
        for gpu in {gpu_of(step) for step in steps} - failed:
            self._record_success(gpu)
        for problem in problems:
            is_mode = problem.code == NvmlCode.RESET_REQUIRED
            remaining = self._reset(problem, in_use) if is_mode else problem
            if remaining is not None:
                self._record_failure(remaining.gpu_uuid, remaining)
        self._prepare_devices()
        self._publish()

    def _is_stale(self, gpu: str, planned_on: list[InstanceFacts]) -> bool:
        """Whether another tool has changed the GPU since it was read, so that its steps are to be
        planned again."""
        self.hardware.refresh_gpu(gpu)
        return self.hardware.instances_of(gpu) != planned_on or gpu in self.hardware.unread

    def _explain(self, step: PartitionStep, failure: NvmlFailure) -> PartitionProblem:
        # Its intent stays open in the journal: the result is not known for certain.
        self._intents.pop(id(step))
        self._failed_steps[gpu_of(step)] = (step, False)
        return explained_problem(self.files, step, failure)

    def _before(self, step: PartitionStep) -> None:
        if isinstance(step, CreateInstance):
            want = step.slice
            self._claim([InstanceClaim(want.gpu_uuid, want.start, want.size, want.profile)])
        self._intents[id(step)] = self.journal.record_intent(repr(step))

    def _after(self, step: PartitionStep) -> None:
        self.journal.complete_intent(self._intents.pop(id(step)))
        if isinstance(step, DestroyInstance):
            self.journal.remove_claim(step.gpu_uuid, step.start, step.size)
            self._claims.pop((step.gpu_uuid, step.start, step.size), None)
        self.hardware.refresh_gpu(gpu_of(step))
        match step:
            case CreateInstance(want):
                what = {"profile": want.profile, "start": str(want.start)}
                self._record_event(
                    EventType.SLICE_CREATED, f"{want.profile} carved", want.gpu_uuid, what
                )
            case DestroyInstance():
                self._record_event(EventType.SLICE_DELETED, "slice deleted", step.gpu_uuid)
            case SetMigMode():
                word = "on" if step.mig else "off"
                self._record_event(EventType.MODE_CHANGED, f"MIG {word}", step.gpu_uuid)
        self.wake()

    def _reset(
        self, problem: PartitionProblem, in_use: frozenset[InstancePlace]
    ) -> PartitionProblem | None:
        """Reset a GPU whose mode change requires it, if allowed; else say what a person must do."""
        gpu = next((g for g in self.hardware.gpus if g.uuid == problem.gpu_uuid), None)
        if gpu is None:
            return problem
        try:
            if not self.policy.may_reset_gpus:
                return modes.reset_required(gpu)
            if gpu_processes(gpu.uuid) or any(place[0] == gpu.uuid for place in in_use):
                return modes.reset_required(gpu, "The agent does it when nothing is on it")
            return self._reset_now(gpu, passed_through=is_passed_through(gpu.uuid))
        except NvmlFailure as failure:
            return replace(problem, sentence=failure.sentence)
        except GateBusy:
            return modes.reset_required(gpu, "A call of the agent to the driver does not end")

    def _reset_now(self, gpu: GpuFacts, *, passed_through: bool) -> PartitionProblem | None:
        with self.hardware.without_handles():
            intent = self.journal.record_intent(f"reset {gpu.uuid}")
            problem = modes.reset_gpu(self.policy.nvidia_smi, gpu)
            self.journal.complete_intent(intent)
        self.hardware.refresh()
        if problem is None:
            self._record_event(
                EventType.GPU_RESET, f"GPU {gpu.index} was reset for its mode", gpu.uuid
            )
            self._record_success(gpu.uuid)
        elif passed_through:
            why = "in a virtual machine the GPU could not be reset"
            problem = modes.reboot_required(gpu, why)
        return problem

    def _record_failure(self, subject: str, problem: PartitionProblem) -> None:
        for_a_person = problem.code in NEEDS_PERSON
        news = self.backoff.record_failure(subject, problem, needs_person=for_a_person)
        if for_a_person and subject in self._failed_steps:
            self._failed_steps[subject] = (self._failed_steps[subject][0], True)
        if news is BackoffChange.BEGAN_TO_FAIL:
            self._record_event(EventType.SLICE_FAILED, problem.sentence, problem.gpu_uuid)
            self._store_backoff()
        elif news is BackoffChange.QUARANTINED:
            self._record_event(EventType.GPU_QUARANTINED, problem.sentence, problem.gpu_uuid)
            self._store_backoff()
        log.warning("partition_problem", extra={"code": problem.code, "why": problem.sentence})

    def _record_success(self, subject: str) -> None:
        self._failed_steps.pop(subject, None)
        if subject not in self.backoff.failing_subjects():
            return
        if self.backoff.record_success(subject) is BackoffChange.RELEASED:
            self._record_event(EventType.GPU_RELEASED, "changes of this GPU work again", subject)
        self._store_backoff()

    def _store_backoff(self) -> None:
        kept = {"boot": boot_id(), "streaks": self.backoff.as_data()}
        self.journal.store_fact(BACKOFF_FACT, json.dumps(kept))

    def _is_due(self, part: str) -> bool:
        hardware = self.hardware
        return self._container_devices.is_stale(
            part, hardware.instances, hardware.devices()
        ) and self.backoff.is_due(part)

    def _prepare_devices(self) -> None:
        """For containers, before a replica gets any device of the change."""
        for part in filter(self._is_due, PARTS):
            problem = self._container_devices.prepare(
                part, self.hardware.instances, self.hardware.devices()
            )
            if problem is not None:
                self._record_failure(part, problem)
            else:
                self._record_success(part)

    def _record_event(
        self, kind: EventType, sentence: str, gpu: str, data: dict[str, str] | None = None
    ) -> None:
        self.journal.record_event(kind, sentence, data={"gpu": gpu} | (data or {}))
