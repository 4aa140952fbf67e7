"""Who holds how much of a quota: told in its reason, so that people know whom to ask."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from agents.contract.boards import known_boards
from agents.contract.units import as_gpus
from scheduler.core.devices.options import gpu_board
from scheduler.core.model.message import Message, make_message
from scheduler.core.model.snapshot import NodeView, RunningJob

MAX_NAMED_USERS = 3
# By project and board: units by user.
UnitsByOwner = dict[str, dict[str, Counter[str]]]


class QuotaUsers:
    """Units by project, board and user. Running work is only counted when somebody asks."""

    def __init__(self, running: Sequence[RunningJob], nodes: Sequence[NodeView]) -> None:
        self._running = running
        self._nodes = nodes
        self._held: UnitsByOwner | None = None
        self._charged: UnitsByOwner = {}

    def reuse_counts(self, before: "QuotaUsers") -> "QuotaUsers":
        """These, without counting anew what another pass counted of the very same running work."""
        if before._running is self._running and before._nodes is self._nodes:
            self._held = before._held
        return self

    def charge(self, project: str, user: str, units: int, board: str) -> None:
        _users(self._charged, project, board)[user] += units

    def units_by_user(self, project: str, model: str) -> dict[str, int]:
        """Units by user on boards that a quota calls `model`, the most first."""
        if self._held is None:
            self._held = _held(self._running, board_of_gpus(self._nodes))
        both: Counter[str] = Counter()
        for kept in (self._held, self._charged):
            for board, users in kept.get(project, {}).items():
                if not model or model in quota_models(board):
                    both.update(users)
        found = sorted(both.items(), key=lambda item: (-item[1], item[0]))
        return {user: units for user, units in found if units > 0}


@cache
def quota_models(board: str) -> tuple[str, ...]:
    """What a quota may call this board: "" (of every model), its key, its model."""
    if not board:
        return ("",)
    known = known_boards().get(board)
    model = known.model if known else board.rsplit("-", 1)[0]
    return ("", board, model) if model != board else ("", board)


def board_of_gpus(nodes: Iterable[NodeView]) -> dict[str, str]:
    """The board's key by the id of the GPU."""
    return {gpu.id: gpu_board(gpu).key for node in nodes for gpu in node.gpus}


def units_by_board(running: RunningJob, boards: Mapping[str, str]) -> Counter[str]:
    """What a running job holds; "" for GPUs that the snapshot does not have."""
    found: Counter[str] = Counter()
    for replica in running.replicas:
        for device in replica.devices:
            found[boards.get(device.gpu, "")] += device.units
    return found


def user_list(holders: dict[str, int]) -> Message | str:
    """As in "vera (3), kim (1) and 2 others (1)": in GPUs, the first few by name."""
    first = list(holders.items())[:MAX_NAMED_USERS]
    told: list[Message | str] = [f"{name} ({as_gpus(units)})" for name, units in first]
    if rest := list(holders.values())[MAX_NAMED_USERS:]:
        told.append(make_message("quota.others", number=len(rest), gpus=as_gpus(sum(rest))))
    return make_message("clause.and", first=told[:-1], then=told[-1]) if len(told) > 1 else told[0]


def _held(running: Sequence[RunningJob], boards: dict[str, str]) -> UnitsByOwner:
    found: UnitsByOwner = {}
    for each in running:
        for board, units in units_by_board(each, boards).items():
            _users(found, each.job.project, board)[each.job.user] += units
    return found


def _users(held: UnitsByOwner, project: str, board: str) -> Counter[str]:
    boards = held.get(project)
    if boards is None:
        boards = held[project] = {}
    users = boards.get(board)
    if users is None:
        users = boards[board] = Counter()
    return users
