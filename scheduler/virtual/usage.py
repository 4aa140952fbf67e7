"""What owners have allocated of their quotas, and their use over time."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from scheduler.core.model.snapshot import OwnerView, QuotaView, RunningJob
from scheduler.core.queue.fairshare import Amounts, OwnerKey, add_amounts, decayed
from scheduler.core.quota.holders import quota_models, units_by_board

NOTHING: Amounts = (0, 0, 0)


@dataclass(slots=True)
class _OwnerUse:
    """Amount-seconds (units, millicores, MiB) as they were at a time."""

    amounts: Amounts
    at: int

    def decayed_to(self, now: int, half_life: int) -> Amounts:
        units, cpu, memory = (decayed(a, now - self.at, half_life) for a in self.amounts)
        return units, cpu, memory


class OwnerUsage:
    """`boards`: board key by GPU. Without owners no use is counted."""

    def __init__(
        self,
        quotas: Iterable[QuotaView],
        owners: Iterable[OwnerView],
        boards: Mapping[str, str],
        *,
        since: int,
        half_life_seconds: int,
    ) -> None:
        self._quotas = tuple(quotas)
        self._owners = {(owner.project, owner.user): owner for owner in owners}
        self._boards = boards
        self._half_life = half_life_seconds
        self._allocated: Counter[tuple[str, str, str]] = Counter()
        self._runs: dict[str, RunningJob] = {}
        self._uses = {
            key: _OwnerUse((o.used_units, o.used_cpu_milli, o.used_memory_mib), since)
            for key, o in self._owners.items()
        }

    def started(self, run: RunningJob) -> None:
        self._runs[run.job.id] = run
        self._count(run, 1)

    def ended(self, run: RunningJob, now: int) -> None:
        del self._runs[run.job.id]
        self._count(run, -1)
        amounts = _amounts(run, now)
        for key in _owners(run):
            old = self._uses.get(key, _OwnerUse(NOTHING, now)).decayed_to(now, self._half_life)
            self._uses[key] = _OwnerUse(add_amounts(old, amounts), now)

    def quotas(self) -> tuple[QuotaView, ...]:
        return tuple(
            replace(q, used_units=self._allocated[q.project, q.user, q.model]) for q in self._quotas
        )

    def owners(self, now: int) -> tuple[OwnerView, ...]:
        """Running jobs count undecayed, as in portal.planning.history."""
        if not self._owners:
            return ()
        used = {key: seen.decayed_to(now, self._half_life) for key, seen in self._uses.items()}
        for run in self._runs.values():
            for key in _owners(run):
                used[key] = add_amounts(used.get(key, NOTHING), _amounts(run, now))
        return tuple(self._owner(key, *used.get(key, NOTHING)) for key in self._keys(used))

    def _keys(self, used: Iterable[OwnerKey]) -> list[OwnerKey]:
        return sorted({*self._owners, *used})

    def _owner(self, key: OwnerKey, units: int, cpu: int, memory: int) -> OwnerView:
        known = self._owners.get(key) or OwnerView(*key)
        return replace(known, used_units=units, used_cpu_milli=cpu, used_memory_mib=memory)

    def _count(self, run: RunningJob, sign: int) -> None:
        """On every quota that may name these boards, of the project and of the user."""
        for board, units in units_by_board(run, self._boards).items():
            for model in quota_models(board):
                for project, user in _owners(run):
                    self._allocated[project, user, model] += sign * units


def _owners(run: RunningJob) -> tuple[OwnerKey, OwnerKey]:
    return (run.job.project, ""), (run.job.project, run.job.user)


def _amounts(run: RunningJob, now: int) -> Amounts:
    seconds = max(0, now - run.started_at)
    units = sum(device.units for replica in run.replicas for device in replica.devices)
    cpu = run.job.replicas * run.job.cpu_milli
    return units * seconds, cpu * seconds, run.job.replicas * run.job.memory_mib * seconds
