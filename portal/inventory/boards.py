"""The board of a GPU row: from the table of boards, or as its driver reported it."""

from collections.abc import Iterable
from typing import Any

from agents.contract.boards import Board, Profile, known_boards, unknown_board
from agents.contract.codec import decode
from agents.contract.discovered_boards import plausible_profiles
from agents.contract.documents import ObservedProfile
from portal.inventory.models import Gpu


def board_of(row: Gpu) -> Board:
    """The board. One without a table entry and profiles can only be given whole."""
    known = known_boards().get(row.board)
    return known or unknown_board(row.product_name, row.memory_mib, profiles_of(row.profiles))


def profiles_of(reported: Iterable[Any]) -> tuple[Profile, ...]:
    """The MIG profiles of an unknown board, as its driver reported them: `Gpu.profiles`."""
    return plausible_profiles(decode(ObservedProfile, profile) for profile in reported)


def quota_model_names(row: Gpu) -> frozenset[str]:
    """The values of `Quota.model` that count this GPU: "" (every model), board key, board model."""
    board = board_of(row)
    return frozenset({"", board.key, board.model})


def board_quota_models(key: str) -> frozenset[str]:
    """The values of `Quota.model` that count a GPU of this board key."""
    board = known_boards().get(key)
    return frozenset({"", key, board.model if board else key})


def cluster_boards() -> tuple[Board, ...]:
    """Every board of a node that is not retired. One query, one row for each board."""
    names = ("board", "product_name", "memory_mib", "profiles")
    rows = Gpu.objects.active().order_by().values(*names).distinct()
    found = {board.key: board for board in (board_of(Gpu(**row)) for row in rows)}
    return tuple(found[key] for key in sorted(found))
