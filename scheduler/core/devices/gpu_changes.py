"""When the idle slices of a GPU may be deleted, and when its mode may change."""

from enum import StrEnum

from agents.contract.boards import Board
from scheduler.core.model.snapshot import GpuView, NodeView

# Seconds of a mode change: drain, reset or re-enumerate, and come back. A reset takes the agent
# longer (docs/limits.md), so boards that need one cost more.
CHANGE_SECONDS = 20
RESET_SECONDS = 90


class FixedReason(StrEnum):
    """Why the idle slices and the mode of a GPU stay as they are."""

    PINNED = "an admin has pinned its partitions"
    SETTLING = "it was carved a short time ago"
    AWAY = "its node is not available"
    UNHEALTHY = "it is not healthy"


def fixed_reason(gpu: GpuView, now: int) -> FixedReason | None:
    """Why the idle slices of the GPU must stay; None if they may go. Jobs may reuse them anyway."""
    if gpu.pinned:
        return FixedReason.PINNED
    return FixedReason.SETTLING if now < gpu.settles_at else None


def untouchable_reason(node: NodeView, gpu: GpuView, now: int) -> FixedReason | None:
    """As `fixed_reason`, and also why nothing at all can be done on the GPU now."""
    if not node.available:
        return FixedReason.AWAY
    return FixedReason.UNHEALTHY if not gpu.healthy else fixed_reason(gpu, now)


def may_change_mode(node: NodeView, gpu: GpuView, now: int) -> bool:
    """Only an empty GPU may: no slice on it, allocated or idle, ready or being created."""
    return not gpu.slices and untouchable_reason(node, gpu, now) is None


def mode_change_seconds(board: Board) -> int:
    """How long a GPU is unavailable while its mode changes."""
    return RESET_SECONDS if board.mode_change_needs_reset else CHANGE_SECONDS
