"""The network of the ranks, on the Spec tab: what each replica is told, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agents.collectives.variables import RankVariable
from portal.accounts.models import User
from portal.desired.rank_network import rank_networks
from portal.jobs.models import Attempt, Job
from portal.web.wording.messages import message_text


@dataclass(frozen=True, slots=True)
class VariableRow:
    name: str
    value: str
    why: str
    is_requested: bool


@dataclass(frozen=True, slots=True)
class RanksTable:
    """Replicas that are told the same."""

    ranks: str
    """"0, 1" or "0-7"."""
    nodes: str
    rows: Sequence[VariableRow]


def ranks_network(user: User, job: Job, attempt: Attempt) -> list[RanksTable]:
    """One table for all replicas that are told the same."""
    return [
        RanksTable(as_runs(one.ranks), ", ".join(one.nodes), [*map(_row, one.variables)])
        for one in rank_networks(user, job, attempt)
    ]


def as_runs(ranks: Sequence[int]) -> str:
    """ "0-3, 6" of ranks in their order."""
    return ", ".join(_runs(ranks))


def _runs(ranks: Sequence[int]) -> Iterator[str]:
    start = 0
    for at, rank in enumerate(ranks):
        if at + 1 == len(ranks) or ranks[at + 1] != rank + 1:
            yield str(rank) if ranks[start] == rank else f"{ranks[start]}-{rank}"
            start = at + 1


def _row(variable: RankVariable) -> VariableRow:
    return VariableRow(
        variable.name, variable.value, message_text(variable.why), variable.is_requested
    )
