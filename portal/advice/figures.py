"""The figures of a board or of a MIG slice of it, as the advisor's formulas need them. Pure."""

from agents.contract.boards import Board, Profile
from scheduler.advisor.gpus import GPUS, GpuFigures

MIB = 1 << 20


def board_figures(board: Board, profile: Profile | None) -> GpuFigures | None:
    """`profile`: None for a whole GPU. None for a board whose figures no source gives."""
    whole = GPUS.get(board.key)
    if whole is None or profile is None:
        return whole
    compute = profile.compute_slices / board.compute_slices
    memory = profile.memory_slices / board.memory_slices
    return whole.slice(profile.memory_mib * MIB, compute, memory)
