"""The board of a GPU row: that of the table, or what the driver told of one that is not in it."""

from agents.contract.boards import Board, Profile, boards, unknown_board
from agents.contract.codec import decode
from agents.contract.documents import ObservedProfile
from portal.inventory.models import Gpu


def board_of(row: Gpu) -> Board:
    """Never refused: without a table and without profiles it can be given whole."""
    known = boards().get(row.board)
    return known or unknown_board(row.product_name, row.memory_mib, profiles_of(row))


def profiles_of(row: Gpu) -> tuple[Profile, ...]:
    """What the driver told of an unknown board; empty for a known one."""
    return tuple(_profile(decode(ObservedProfile, stored)) for stored in row.profiles)


def _profile(told: ObservedProfile) -> Profile:
    return Profile(
        name=told.name,
        id=told.id,
        query_index=told.query_index,
        compute_slices=told.compute_slices,
        memory_slices=told.size,
        memory_mib=told.memory_mib,
        multiprocessors=told.multiprocessors,
        max_instances=told.max_instances,
        starts=told.starts,
    )
