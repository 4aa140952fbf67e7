"""The second step of the request form: the model of GPU and the slice, for those who know them.

A row is one kind of device. Kinds with the same memory are told apart by their part of the compute.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents.contract.boards import Board, Profile
from agents.contract.documents import SliceKind
from portal.web.request.form import MPS_SHARE, WHOLE_GPUS, amount_model, memory_of
from portal.web.request.memory_sizes import Stock
from portal.web.wording.capacity import device_breakdown
from portal.web.wording.labels import NBSP, gigabytes
from scheduler.core.availability.counts import WHOLE_GPU, DeviceCount, DeviceKind

LAST_SORT_KEY = 10**9


@dataclass(slots=True)
class DeviceRow:
    """A kind of device to choose."""

    value: str
    """Of the form's field `amount`."""
    size: str
    """Its GPU memory."""
    part: str = ""
    """Of a GPU, in words."""
    profile: str = ""
    """The MIG profile of a slice."""
    models: list[str] = field(default_factory=list)
    """That have it."""
    names: list[str] = field(default_factory=list)
    """Under which a request may name the model."""
    sort_key: int = LAST_SORT_KEY
    count: DeviceCount = field(default_factory=DeviceCount)
    """How many more could start now; for shares, on how many GPUs."""
    is_on_a_node: bool = True
    """Whether some node has it."""

    @property
    def is_share(self) -> bool:
        return self.value == MPS_SHARE

    @property
    def stock(self) -> str:
        """How many are free, and how many of these exist or would be carved."""
        if not self.is_on_a_node:
            return ""
        if not self.count.total:
            return _("none in service")
        words = {"free": f"{self.count.available:,}", "total": f"{self.count.total:,}"}
        if not self.count.available:
            return _("none of %(total)s free") % words
        if self.is_share:
            text = ngettext(
                "room on %(free)s of %(total)s GPU",
                "room on %(free)s of %(total)s GPUs",
                self.count.total,
            )
            return text % words
        line = _("%(free)s of %(total)s free") % words
        is_plain = not self.profile and not self.count.recarvable
        return line if is_plain else f"{line}: {device_breakdown(self.count)}"


def device_rows(stock: Stock, shares: DeviceCount) -> tuple[DeviceRow, ...]:
    """Slices and whole GPUs by memory, then the MPS share."""
    rows = [*_slice_rows(stock), *_gpu_rows(stock)]
    if shares.total:
        share = DeviceRow(MPS_SHARE, _("MPS share"), _("part of a GPU, not isolated"), count=shares)
        rows.append(share)
    return tuple(sorted(rows, key=lambda row: row.sort_key))


def unknown_row(amount: str) -> DeviceRow:
    """Of an amount that no node has."""
    size = amount_model(amount) or memory_of(amount) or amount
    if amount == MPS_SHARE:
        size = _("MPS share")
    return DeviceRow(amount, size, _("not available on any node"), is_on_a_node=False)


def _slice_rows(stock: Stock) -> Iterable[DeviceRow]:
    """One row for each profile, over all boards that have it. A slice as large as its GPU is left
    to the row of the whole GPU."""
    rows: dict[str, DeviceRow] = {}
    for board, counts in stock:
        for profile in board.profiles:
            if profile.has_media_extensions or profile.memory_slices == board.memory_slices:
                continue
            row = rows.setdefault(profile.name, _slice_row(board, profile))
            row.count.add(counts.of(DeviceKind(SliceKind.MIG, profile.name)))
            if board.model not in row.models:
                row.models.append(board.model)
    return rows.values()


def _slice_row(board: Board, profile: Profile) -> DeviceRow:
    parts = {
        "compute": f"{profile.compute_slices}/{board.compute_slices}",
        "memory": str(Fraction(profile.memory_slices, board.memory_slices)),
    }
    return DeviceRow(
        value=profile.name,
        size=gigabytes(profile.name),
        part=_("%(compute)s of the compute, %(memory)s of the memory") % parts,
        profile=profile.name,
        sort_key=profile.memory_mib * 10 + profile.compute_slices,
    )


def _gpu_rows(stock: Stock) -> Iterable[DeviceRow]:
    """One row for each board. With a single board, the card of whole GPUs is that."""
    models = [board.model for board, _counts in stock]
    for board, counts in stock if len(stock) > 1 else ():
        # As a request names it: by the model, or by the board if the model has several.
        name = board.model if models.count(board.model) == 1 else board.key
        yield DeviceRow(
            value=f"{WHOLE_GPUS}:{name}",
            size=board_size(board),
            part=_("whole GPU"),
            models=[name],
            names=[name, board.key],
            sort_key=board.memory_mib * 10 + 9,
            count=counts.of(WHOLE_GPU),
        )


def board_size(board: Board) -> str:
    """The vendor's rounded size, of a profile or of the board's name."""
    full = (p for p in board.profiles if p.memory_slices == board.memory_slices)
    profile = next((p for p in full if not p.has_media_extensions), None)
    if profile:
        return gigabytes(profile.name)
    named = board.key.rpartition("-")[2].removesuffix("GB")
    return f"{named if named.isdecimal() else round(board.memory_mib / 1_024)}{NBSP}GB"
