"""How much of a quota each user has, so that a reason can name whom to ask."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from agents.contract.boards import known_boards
from agents.contract.message import Message
from agents.contract.units import as_gpus
from scheduler.core.devices.options import gpu_board
from scheduler.core.model.message_templates import make_message
from scheduler.core.model.snapshot import NodeView, RunningJob

MAX_NAMED_USERS = 3
# By project and board: units by user.
UnitsByOwner = dict[str, dict[str, Counter[str]]]


class QuotaUsers:
    """Units of running jobs by project, board and user, counted on the first query."""

    def __init__(self, running: Sequence[RunningJob], nodes: Sequence[NodeView]) -> None:
        self._running = running
        self._nodes = nodes
        self._running_units: UnitsByOwner | None = None

    def reuse_counts(self, previous: "QuotaUsers") -> "QuotaUsers":
        """Take over the counts of a pass with the very same running jobs."""
        if previous._running is self._running and previous._nodes is self._nodes:
            self._running_units = previous._running_units
        return self

    def units_by_user(self, project: str, model: str) -> dict[str, int]:
        """Units by user on the boards of a quota for `model`, largest first."""
        if self._running_units is None:
            self._running_units = _count_running(self._running, board_of_gpus(self._nodes))
        held: Counter[str] = Counter()
        for board, users in self._running_units.get(project, {}).items():
            if not model or model in quota_models(board):
                held.update(users)
        return dict(sorted(held.items(), key=lambda item: (-item[1], item[0])))


@cache
def quota_models(board: str) -> tuple[str, ...]:
    """The models of quotas that count this board: "" (every model), its key, its model."""
    if not board:
        return ("",)
    listed = known_boards().get(board)
    model = listed.model if listed else board.rsplit("-", 1)[0]
    return ("", board, model) if model != board else ("", board)


def quota_models_of_gpus(nodes: Iterable[NodeView]) -> dict[str, tuple[str, ...]]:
    """The models of quotas that count each GPU, by its id."""
    return {gpu: quota_models(board) for gpu, board in board_of_gpus(nodes).items()}


def board_of_gpus(nodes: Iterable[NodeView]) -> dict[str, str]:
    """Keys of boards by GPU id."""
    return {gpu.id: gpu_board(gpu).key for node in nodes for gpu in node.gpus}


def units_by_board(running: RunningJob, boards: Mapping[str, str]) -> Counter[str]:
    """Units of a running job by board key; "" for GPUs that the snapshot does not have."""
    units: Counter[str] = Counter()
    for replica in running.replicas:
        for device in replica.devices:
            units[boards.get(device.gpu, "")] += device.units
    return units


def user_list(holders: dict[str, int]) -> Message | str:
    """In GPUs, the first few by name: "vera (3), kim (1) and 2 others (1)"."""
    first = list(holders.items())[:MAX_NAMED_USERS]
    parts: list[Message | str] = [f"{name} ({as_gpus(units)})" for name, units in first]
    if rest := list(holders.values())[MAX_NAMED_USERS:]:
        parts.append(make_message("quota.others", number=len(rest), gpus=as_gpus(sum(rest))))
    return Message("clause.and", first=parts[:-1], then=parts[-1]) if len(parts) > 1 else parts[0]


def _count_running(running: Sequence[RunningJob], boards: dict[str, str]) -> UnitsByOwner:
    units_by_owner: UnitsByOwner = {}
    for each in running:
        for board, units in units_by_board(each, boards).items():
            _users(units_by_owner, each.job.project, board)[each.job.user] += units
    return units_by_owner


def _users(units_by_owner: UnitsByOwner, project: str, board: str) -> Counter[str]:
    boards = units_by_owner.get(project)
    if boards is None:
        boards = units_by_owner[project] = {}
    users = boards.get(board)
    if users is None:
        users = boards[board] = Counter()
    return users
