"""When a wait ends at the latest, and who ends then: quota, cap, budget, dependency, reservation.

A bound holds if running jobs keep their time limits, none is preempted, and nobody asks for more
meanwhile. The devices that a job then needs are another matter, of reservations and estimates.

`WaitBounds` counts what is held of each limit once, so that a long queue costs little more than a
short one.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from agents.contract.message import Message
from agents.contract.moments import write_latest
from scheduler.core.devices.options import DeviceOption, device_options, node_boards
from scheduler.core.model.decisions import Deferral, Plan
from scheduler.core.model.message_templates import dependency_label, make_message, owner_label
from scheduler.core.model.reasons import ReasonCode
from scheduler.core.model.snapshot import ClusterSnapshot, RunningJob, WaitingJob
from scheduler.core.quota.budgets import Budgets, remaining_seconds
from scheduler.core.quota.holders import board_of_gpus, quota_models, units_by_board

# Project, user ("" for the project), model; the model of a cap on running jobs is CAP.
LimitKey = tuple[str, str, str]
CAP = "(running jobs)"
QUOTA_CODES = (ReasonCode.QUOTA_PROJECT, ReasonCode.QUOTA_USER, ReasonCode.PENDING_LIMIT)
# Jobs that wait for a person, or for ever: they take nothing from others meanwhile.
_TAKES_NOTHING = (ReasonCode.HELD, ReasonCode.IMPOSSIBLE)


@dataclass(frozen=True, slots=True)
class WaitBound:
    """`at`: in seconds since the epoch; None if no time can be told, and the message says why."""

    at: int | None
    message: Message
    """A whole sentence, with the time in it."""
    jobs: tuple[str, ...] = ()
    """Ids of the running jobs that end then."""
    is_certain: bool = True
    """False: it may be later, as the message says."""

    @classmethod
    def by_time(
        cls,
        at: int,
        key: str,
        *,
        jobs: tuple[str, ...] = (),
        is_certain: bool = True,
        **values: Message | str,
    ) -> "WaitBound":
        """`key` and `values`: of the message, which gets the time as well."""
        return cls(at, make_message(key, at=write_latest(at), **values), jobs, is_certain)

    @classmethod
    def without_time(cls, key: str, **values: Message | str) -> "WaitBound":
        return cls(None, make_message(key, **values), is_certain=False)

    def as_dict(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "is_certain": self.is_certain,
            "sentence": self.message.text,
            "said": self.message.as_dict(),
            "jobs": list(self.jobs),
        }


@dataclass(slots=True)
class _Limit:
    """Something of which owners may hold so much at once, and who holds it until when."""

    max_amount: int
    held: list[tuple[int, str, int]] = field(default_factory=list)
    """(end, job, amount) of each holder."""
    requested: int = 0
    """By all jobs that wait for it."""
    _ends: list[int] = field(default_factory=list)
    _freed: list[int] = field(default_factory=list)

    def close(self) -> None:
        """After the last holder: sum what has come free, by time."""
        self.held.sort()
        self._ends = [end for end, _, _ in self.held]
        self._freed = list(accumulate(amount for _, _, amount in self.held))

    def free_when(self, amount: int, now: int) -> tuple[int, str] | None:
        """The first end after which `amount` is free, with the job that ends; (now, "") if it is
        free already, None if it never is."""
        in_use = self._freed[-1] if self._freed else 0
        missing = in_use + amount - self.max_amount
        if missing <= 0:
            return now, ""
        index = bisect_left(self._freed, missing)
        if index == len(self.held):
            return None
        end, job, _ = self.held[index]
        return max(now, end), job


class WaitBounds:
    """The bounds of the jobs that a plan leaves waiting. `after`: the snapshot once that is carried
    out; `expected_starts`: estimates by job id, in seconds since the epoch."""

    def __init__(
        self, after: ClusterSnapshot, plan: Plan, expected_starts: Mapping[str, int]
    ) -> None:
        self._snapshot, self._expected = after, expected_starts
        self._jobs = {job.id: job for job in after.jobs}
        self._runs = {run.job.id: run for run in after.running}
        self._reserved = {each.job: each.starts_at for each in plan.reservations}
        self._budgets = Budgets(after.budgets, after.now)
        self._boards = node_boards(after.nodes)
        self._options: dict[object, list[DeviceOption]] = {}
        self._most: dict[object, dict[LimitKey, int]] = {}
        self._limits = self._read_limits()
        self._count_held()
        reasons = {each.job: each.reason.code for each in plan.deferrals}
        for job in after.jobs:
            if reasons.get(job.id) not in _TAKES_NOTHING:
                for key, amount in self._largest(job).items():
                    self._limits[key].requested += amount
        for limit in self._limits.values():
            limit.close()

    def of(self, deferral: Deferral) -> WaitBound | None:
        """None: the reason says all there is to say."""
        job = self._jobs.get(deferral.job)
        if job is None:
            return None
        match deferral.reason.code:
            case ReasonCode.QUOTA_PROJECT | ReasonCode.QUOTA_USER | ReasonCode.PENDING_LIMIT:
                return self._of_limits(job, deferral.reason.code)
            case ReasonCode.BUDGET:
                return self._of_budget(job)
            case ReasonCode.DEPENDENCY:
                return self._of_dependency(job)
        if (at := self._reserved.get(job.id)) is not None:
            return WaitBound.by_time(at, "bound.reserved")
        return None

    def stops(self, deferral: Deferral) -> list[RunningJob]:
        """Running jobs of the same owner, the last to start first, each of which alone holds what
        this job lacks of every limit."""
        job = self._jobs.get(deferral.job)
        if job is None or deferral.reason.code not in QUOTA_CODES:
            return []
        now, found = self._snapshot.now, []
        for run in self._runs.values():
            if (run.job.project, run.job.user) != (job.project, job.user) or run.stopping:
                continue
            given = self._amounts_of_run(run)
            for option in self._options_of(job):
                amounts = self._amounts(job, option)
                needs = ((self._limits[key], n - given[key]) for key, n in amounts.items())
                if all(limit.free_when(n, now) == (now, "") for limit, n in needs):
                    found.append(run)
                    break
        return sorted(found, key=lambda run: (-run.started_at, run.job.id))

    def _of_limits(self, job: WaitingJob, code: ReasonCode) -> WaitBound:
        options = self._options_of(job)
        certain = [b for o in options if (b := self._free_when(job, o, alone=False))]
        alone = [b for o in options if (b := self._free_when(job, o, alone=True))]
        kind = "cap" if code is ReasonCode.PENDING_LIMIT else "quota"
        if not certain and not alone:
            return WaitBound.without_time("bound.lent")
        at, ending = min(certain or alone)
        if not ending:
            return WaitBound.without_time("bound.taken_first")
        key = f"bound.{kind}" if certain else f"bound.{kind}_shared"
        name, is_certain = self._name(ending), bool(certain)
        return WaitBound.by_time(at, key, job=name, jobs=(ending,), is_certain=is_certain)

    def _free_when(
        self, job: WaitingJob, option: DeviceOption, *, alone: bool
    ) -> tuple[int, str] | None:
        """When every limit of the option has room: for the job `alone`, or for all that wait."""
        own, latest = self._largest(job), (self._snapshot.now, "")
        for key, amount in self._amounts(job, option).items():
            limit = self._limits[key]
            others = 0 if alone else limit.requested - own.get(key, 0)
            free = limit.free_when(amount + max(0, others), self._snapshot.now)
            if free is None:
                return None
            latest = max(latest, free)
        return latest

    def _of_budget(self, job: WaitingJob) -> WaitBound | None:
        options = self._options_of(job)
        if not options:
            return None
        units = options[0].replica_units * job.replicas
        short = self._budgets.short(job, units)
        if not short:
            return None
        last = max(short, key=lambda view: view.ends_at)
        whose = owner_label(last.project, last.user)
        return WaitBound.by_time(last.ends_at, "bound.budget", whose=whose)

    def _of_dependency(self, job: WaitingJob) -> WaitBound | None:
        """The last end of the jobs that it starts after."""
        ends: list[tuple[int, str]] = []
        is_certain = True
        for other in job.after:
            waiting = self._jobs.get(other)
            if run := self._runs.get(other):
                ends.append((max(run.ends_at, self._snapshot.now), other))
            elif waiting and other in self._reserved:
                ends.append((self._reserved[other] + remaining_seconds(waiting), other))
            elif waiting and other in self._expected:
                ends.append((self._expected[other] + remaining_seconds(waiting), other))
                is_certain = False
            else:
                return WaitBound.without_time("bound.dependency_waits", job=dependency_label(other))
        if not ends:
            return None
        at, last = max(ends)
        key = "bound.dependency" if is_certain else "bound.dependency_expected"
        return WaitBound.by_time(at, key, job=f"J-{last}", jobs=(last,), is_certain=is_certain)

    def _name(self, id: str) -> str:
        return f"J-{id} ({self._runs[id].job.name})"

    # What there is, and who holds it.

    def _read_limits(self) -> dict[LimitKey, _Limit]:
        """Of a project only what is its own: what others lend, nobody can promise."""
        limits = {
            (q.project, q.user, q.model): _Limit(q.limit_units + (q.borrow_units if q.user else 0))
            for q in self._snapshot.quotas
        }
        return limits | {
            (owner.project, owner.user, CAP): _Limit(owner.max_running)
            for owner in self._snapshot.owners
            if owner.max_running
        }

    def _count_held(self) -> None:
        self._board_of_gpu = board_of_gpus(self._snapshot.nodes)
        for run in self._snapshot.running:
            for key, amount in self._amounts_of_run(run).items():
                self._limits[key].held.append((run.ends_at, run.job.id, amount))

    def _amounts_of_run(self, run: RunningJob) -> Counter[LimitKey]:
        amounts: Counter[LimitKey] = Counter()
        for board, units in units_by_board(run, self._board_of_gpu).items():
            for key in self._quota_keys(run.job, board):
                amounts[key] += units
        for key in self._cap_keys(run.job):
            amounts[key] = 1
        return amounts

    def _amounts(self, job: WaitingJob, option: DeviceOption) -> dict[LimitKey, int]:
        units = option.replica_units * job.replicas
        quotas = dict.fromkeys(self._quota_keys(job, option.board), units)
        return quotas | dict.fromkeys(self._cap_keys(job), 1)

    def _largest(self, job: WaitingJob) -> dict[LimitKey, int]:
        """The most that it may take of each limit, whichever option it gets."""
        request = (job.project, job.user, job.device, job.replicas)
        if (known := self._most.get(request)) is not None:
            return known
        most = self._most[request] = defaultdict(int)
        for option in self._options_of(job):
            for key, amount in self._amounts(job, option).items():
                most[key] = max(most[key], amount)
        return most

    def _quota_keys(self, job: WaitingJob, board: str) -> Iterable[LimitKey]:
        for model in quota_models(board):
            for user in ("", job.user):
                if (key := (job.project, user, model)) in self._limits:
                    yield key

    def _cap_keys(self, job: WaitingJob) -> Iterable[LimitKey]:
        keys = ((job.project, "", CAP), (job.project, job.user, CAP))
        return [key for key in keys if key in self._limits]

    def _options_of(self, job: WaitingJob) -> list[DeviceOption]:
        if job.device not in self._options:
            self._options[job.device] = device_options(job.device, self._boards)
        return self._options[job.device]
