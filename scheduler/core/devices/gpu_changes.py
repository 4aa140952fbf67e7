"""When a GPU's idle slices may go, and when its mode may change."""

from enum import StrEnum

from agents.contract.boards import Board
from scheduler.core.model.snapshot import GpuView, NodeView

# A mode change: drain, reset or re-enumerate, come back. Seconds; a reset takes the node's agent
# longer (docs/limits.md), so boards that need one pay more.
CHANGE_SECONDS = 20
RESET_SECONDS = 90


class FixedReason(StrEnum):
    """Why a GPU's idle slices and its mode stay as they are."""

    PINNED = "an admin has pinned its partitions"
    SETTLING = "it was carved a short time ago"
    AWAY = "its node is not available"
    UNHEALTHY = "it is not healthy"


def fixed_reason(gpu: GpuView, now: int) -> FixedReason | None:
    """Whether idle slices of the GPU must stay; they may be reused all the same."""
    if gpu.pinned:
        return FixedReason.PINNED
    return FixedReason.SETTLING if now < gpu.settles_at else None


def untouchable_reason(node: NodeView, gpu: GpuView, now: int) -> FixedReason | None:
    """As `fixed`, and nothing is proposed where nothing can be done now."""
    if not node.available:
        return FixedReason.AWAY
    return FixedReason.UNHEALTHY if not gpu.healthy else fixed_reason(gpu, now)


def may_change_mode(node: NodeView, gpu: GpuView, now: int) -> bool:
    """Only an empty GPU: nothing on it, held or idle, ready or on its way."""
    return not gpu.slices and untouchable_reason(node, gpu, now) is None


def mode_change_seconds(board: Board) -> int:
    """How long a GPU is away while its mode changes."""
    return RESET_SECONDS if board.mode_change_needs_reset else CHANGE_SECONDS
