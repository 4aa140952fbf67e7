"""The scalars of a TensorBoard event file: what `SummaryWriter.add_scalar` wrote. Pure.

Of protobuf only what scalars need is read: `Event.step`, `Event.summary`, and of its values the
tag with either `simple_value` or a tensor of one number. Everything else is passed over.
"""

import math
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from portal.files.event_records import RecordDamaged, RecordsEnd, event_records

MAX_POINTS = 400
MAX_TAGS = 200
MAX_TAG_CHARACTERS = 200
# Of the summaries of hyperparameters, which are no scalars.
OTHER_TAGS = "_hparams_/"

# Numbers of the fields of Event, Summary, Value and TensorProto.
STEP, SUMMARY, VALUE, TAG, SIMPLE_VALUE, TENSOR = 2, 5, 1, 1, 2, 8
TENSOR_TYPE, TENSOR_CONTENT = 1, 4
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
# Of a tensor's type: how its content is read, and the field that may have the number instead.
NUMBERS = {1: ("<f", 5), 2: ("<d", 6)}


class EventsProblem(StrEnum):
    """Why a file was not read to its end."""

    DAMAGED = "damaged"
    ENDS_EARLY = "ends_early"
    TOO_LARGE = "too_large"


@dataclass
class ScalarSeries:
    """The numbers of one tag. Of a long one every `stride`-th, and the last."""

    points: list[tuple[int, float]] = field(default_factory=list)
    last: tuple[int, float] = (0, 0.0)
    count: int = 0
    stride: int = 1

    def add(self, step: int, value: float) -> None:
        if self.count % self.stride == 0:
            self.points.append((step, value))
        self.last = (step, value)
        self.count += 1
        if len(self.points) >= 2 * MAX_POINTS:
            self.points, self.stride = self.points[::2], 2 * self.stride

    def by_step(self) -> list[tuple[int, float]]:
        """The last number of a step counts."""
        return sorted(dict([*self.points, self.last]).items())


@dataclass
class ScalarEvents:
    """By tag, in the order in which they came."""

    series: dict[str, ScalarSeries] = field(default_factory=dict)
    omitted_tags: set[str] = field(default_factory=set)
    not_finite: int = 0
    problem: EventsProblem | None = None

    def add(self, tag: str, step: int, value: float) -> None:
        if not math.isfinite(value):
            self.not_finite += 1
        elif tag in self.series or len(self.series) < MAX_TAGS:
            self.series.setdefault(tag, ScalarSeries()).add(step, value)
        elif len(self.omitted_tags) < MAX_TAGS:
            self.omitted_tags.add(tag)


def scalar_events(pieces: Iterable[bytes], *, is_cut: bool, seconds: float) -> ScalarEvents:
    """What can be read before the first damage, and in this time. `is_cut`: the pieces are only
    the beginning of the file."""
    found, end = ScalarEvents(), time.monotonic() + seconds
    try:
        for record in event_records(pieces):
            if time.monotonic() > end:
                found.problem = EventsProblem.TOO_LARGE
                break
            if scalars := list(_scalars(record.data)):
                record.check()
            for tag, step, value in scalars:
                found.add(tag, step, value)
    except RecordsEnd:
        found.problem = EventsProblem.TOO_LARGE if is_cut else EventsProblem.ENDS_EARLY
    except RecordDamaged:
        found.problem = EventsProblem.DAMAGED
    return found


def _scalars(event: bytes) -> Iterator[tuple[str, int, float]]:
    """Tag, step and number. Raises RecordDamaged."""
    step, summaries = 0, list[bytes]()
    for number, kind, value in _fields(event):
        if (number, kind) == (STEP, VARINT):
            step = int.from_bytes(value, "little", signed=True)
        elif (number, kind) == (SUMMARY, BYTES):
            summaries.append(value)
    for summary in summaries:
        for number, kind, value in _fields(summary):
            if (number, kind) == (VALUE, BYTES):
                tag, scalar = _scalar(value)
                if scalar is not None and step >= 0 and not tag.startswith(OTHER_TAGS):
                    yield tag, step, scalar


def _scalar(summary_value: bytes) -> tuple[str, float | None]:
    tag, scalar = "", None
    for number, kind, value in _fields(summary_value):
        if (number, kind) == (TAG, BYTES):
            tag = value.decode(errors="replace")[:MAX_TAG_CHARACTERS]
        elif (number, kind) == (SIMPLE_VALUE, FIXED32):
            scalar = struct.unpack("<f", value)[0]
        elif (number, kind) == (TENSOR, BYTES):
            scalar = _tensor_number(value)
    return tag, scalar


def _tensor_number(tensor: bytes) -> float | None:
    """None unless it holds one number."""
    fields = {number: value for number, kind, value in _fields(tensor)}
    form, field_number = NUMBERS.get(
        int.from_bytes(fields.get(TENSOR_TYPE, b""), "little"), ("", 0)
    )
    content = fields.get(TENSOR_CONTENT) or fields.get(field_number, b"")
    if not form or len(content) != struct.calcsize(form):
        return None
    number: float = struct.unpack(form, content)[0]
    return number


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Number, kind and bytes of each field; a number of variable length as 8 bytes. Raises
    RecordDamaged."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == VARINT:
            whole, at = _varint(message, at)
            yield key >> 3, kind, whole.to_bytes(8, "little")
            continue
        if kind == BYTES:
            size, at = _varint(message, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise RecordDamaged
        if at + size > len(message):
            raise RecordDamaged
        yield key >> 3, kind, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number, and where it ends. Raises RecordDamaged."""
    number = 0
    for shift in range(0, 70, 7):
        if at == len(message):
            raise RecordDamaged
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & (1 << 64) - 1, at
    raise RecordDamaged
