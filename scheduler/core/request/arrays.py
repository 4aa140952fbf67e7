"""Arrays and sweeps: which members a request makes, and what each of them is given.

    array "0-99%10"                     ─▶ indices 0 to 99, at most 10 at once
    sweep ["lr=1e-3,1e-4", "seed=1,2"]  ─▶ four members, 0 to 3, each with its lr and seed

The readers report problems to `refuse` and return a valid value in any case.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from agents.contract.message import Message
from scheduler.core.request.values import JobRequest, ProblemCode, Refuse

MAX_MEMBERS = 1_000
MAX_INDEX = 999_999
MAX_PARAMETERS = 8
INDEX = "index"
"""The name in braces of a member's index; no parameter may have it."""
EXAMPLES = "write indices such as 0-99 or 1,3,7, and %10 after them for at most 10 at once"
SWEEP_EXAMPLE = "write a name and its values, such as lr=1e-3,1e-4"

_ARRAY = re.compile(r"([0-9,:-]*)(?:%([0-9]{1,9}))?")
_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
_PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_VALUE = re.compile(r"[^\s,\0]{1,200}")
# What people write for a hyphen, and around indices.
_DASHES = re.compile(r"\s*(?:[\u2010-\u2015~]|\.\.+|\bto\b)\s*")


@dataclass(frozen=True, slots=True)
class ArrayIndices:
    """What `array` says. Without indices it is the cap of a sweep."""

    indices: tuple[int, ...] = ()
    cap: int = 0
    """How many members may run at once; 0 if all."""

    def __str__(self) -> str:
        return ",".join(_runs(self.indices)) + (f"%{self.cap}" if self.cap else "")


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an array."""

    index: int
    parameters: Mapping[str, str]


def read_array(value: Any, refuse: Refuse) -> str:
    """In its canonical form: "0-99%10". "" without one."""
    if not isinstance(value, str):
        refuse("array", ProblemCode.TYPE, EXAMPLES, _meant(value))
        return ""
    text = re.sub(r"\s+", "", value)
    match = _ARRAY.fullmatch(text)
    if match is None:
        refuse("array", ProblemCode.VALUE, EXAMPLES, _meant(value))
        return ""
    indices: set[int] = set()
    for part in filter(None, match[1].split(",")):
        found = _range(part)
        if found is None or (not found and _PART.fullmatch(part)):
            refuse("array", ProblemCode.VALUE, EXAMPLES, _meant(value))
            return ""
        if found[-1] > MAX_INDEX or len(found) > MAX_MEMBERS:
            indices.update(range(MAX_MEMBERS + 1))
            break
        indices.update(found)
    if len(indices) > MAX_MEMBERS:
        sentence = Message(
            "an array has at most %(most)s members, with indices up to %(last)s",
            most=MAX_MEMBERS,
            last=MAX_INDEX,
        )
        refuse("array", ProblemCode.RANGE, sentence)
        return ""
    if match[1].isdigit():
        number = int(match[1])
        sentence = Message(
            "%(number)s is one index: write 0-%(last)s for %(number)s members",
            number=number,
            last=max(0, number - 1),
        )
        refuse("array", ProblemCode.VALUE, sentence, _meant(value))
        return ""
    cap = int(match[2] or 0)
    if match[2] and not 1 <= cap <= MAX_MEMBERS:
        sentence = Message("after %% write a number from 1 to %(most)s", most=MAX_MEMBERS)
        refuse("array", ProblemCode.RANGE, sentence, {"array": match[1]} if match[1] else None)
        return match[1]
    return str(ArrayIndices(tuple(sorted(indices)), cap))


def read_sweep(value: Any, refuse: Refuse) -> tuple[str, ...]:
    """Each as `name=value,value`. A mapping of names to values is read as well."""
    if isinstance(value, Mapping):
        value = [_parameter_text(name, values) for name, values in value.items()]
    if not isinstance(value, list) or len(value) > MAX_PARAMETERS:
        sentence = Message(
            'write a list of at most %(n)s texts, such as ["lr=1e-3,1e-4"]', n=MAX_PARAMETERS
        )
        refuse("sweep", ProblemCode.TYPE, sentence)
        return ()
    words: dict[str, str] = {}
    for place, entry in enumerate(value):
        word = _sweep_word(entry)
        if not word:
            mended = _mended_sweep(value, place)
            refuse(f"sweep.{place}", ProblemCode.VALUE, SWEEP_EXAMPLE, mended)
            continue
        name = word.partition("=")[0]
        if name.upper() in words or name.lower() == INDEX:
            sentence = Message("%(name)s is taken: use another name", name=name)
            refuse(f"sweep.{place}", ProblemCode.VALUE, sentence)
        words[name.upper()] = word
    if prod(word.count(",") + 1 for word in words.values()) > MAX_MEMBERS:
        sentence = Message(
            "these values make more than %(most)s members: leave some out", most=MAX_MEMBERS
        )
        refuse("sweep", ProblemCode.RANGE, sentence)
        return ()
    return tuple(words.values())


def refuse_array_combination(array: str, sweep: Sequence[str], refuse: Refuse) -> None:
    """Indices and parameters both count members: only one of them can."""
    indices = parse_array(array)
    if sweep and indices.indices:
        sentence = "a sweep counts its members itself: leave only the cap, such as %10"
        cap = str(ArrayIndices((), indices.cap))
        refuse("array", ProblemCode.COMBINATION, sentence, {"array": cap})
    elif indices.cap and not indices.indices and not sweep:
        sentence = "write indices before the cap, such as 0-99%10"
        refuse("array", ProblemCode.COMBINATION, sentence)


def parse_array(array: str) -> ArrayIndices:
    """Of the canonical form."""
    written, _, cap = array.partition("%")
    parts = [_range(part) or range(0) for part in written.split(",") if part]
    return ArrayIndices(tuple(index for part in parts for index in part), int(cap or 0))


def parameter_values(sweep: Iterable[str]) -> dict[str, list[str]]:
    """By the name of each parameter, in their order."""
    pairs = (word.partition("=") for word in sweep)
    return {name: values.split(",") for name, _, values in pairs}


def is_array(request: JobRequest) -> bool:
    return bool(request.array or request.sweep)


def array_members(request: JobRequest) -> list[Member]:
    """In the order of their indices; of a plain job none."""
    if not request.sweep:
        return [Member(index, {}) for index in parse_array(request.array).indices]
    values = parameter_values(request.sweep)
    return [
        Member(index, dict(zip(values, chosen, strict=True)))
        for index, chosen in enumerate(product(*values.values()))
    ]


def array_cap(request: JobRequest) -> int:
    """How many members may run at once; 0 if all."""
    return parse_array(request.array).cap


def members_at_once(request: JobRequest) -> tuple[int, int]:
    """How many members there are, and how many of them may run at once; 1 and 1 of a plain job."""
    size = len(array_members(request)) if is_array(request) else 1
    return size, min(size, array_cap(request) or size)


def plain_request(request: JobRequest, **changes: Any) -> JobRequest:
    """The request of one job."""
    return replace(request, array="", sweep=(), **changes)


def _range(part: str) -> range | None:
    match = _PART.fullmatch(part)
    if match is None or (match[3] and not int(match[3])):
        return None
    first = int(match[1])
    return range(first, int(match[2] or first) + 1, int(match[3] or 1))


def _runs(indices: Sequence[int]) -> Iterator[str]:
    """Neighbours as one range: 0, 1, 2, 7 are "0-2" and "7"."""
    start = 0
    for place, index in enumerate(indices):
        is_last = place + 1 == len(indices) or indices[place + 1] != index + 1
        if is_last:
            first = indices[start]
            # A single index alone would read as a number of members.
            lonely = len(indices) == 1
            yield f"{first}-{index}" if first != index or lonely else str(index)
            start = place + 1


def _meant(value: object) -> dict[str, str] | None:
    """The array that was probably meant."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = _DASHES.sub("-", str(value).strip().strip("[](){}"))
    text = re.sub(r"\s+", "", text)
    if text.partition("%")[0].isdigit():
        count, _, cap = text.partition("%")
        number = int(count[:9])
        text = f"0-{number - 1}" + (f"%{cap}" if cap else "") if number > 1 else ""
    text = re.sub(
        r"([0-9]{1,9})-([0-9]{1,9})",
        lambda m: f"{m[2]}-{m[1]}" if int(m[1]) > int(m[2]) else m[0],
        text,
    )
    problems: list[object] = []
    read = read_array(text, lambda *args: problems.append(args)) if text != value else ""
    return {"array": read} if read and not problems else None


def _sweep_word(entry: object) -> str:
    """In its canonical form; "" if it is none."""
    if not isinstance(entry, str):
        return ""
    name, _, written = entry.partition("=")
    values = list(dict.fromkeys(each.strip() for each in written.split(",")))
    is_valid = _PARAMETER.fullmatch(name.strip()) and all(map(_VALUE.fullmatch, values))
    return f"{name.strip()}={','.join(values)}" if is_valid else ""


def _mended_sweep(entries: Sequence[object], place: int) -> dict[str, list[object]] | None:
    """With a colon or blanks where = and commas belong, and without empty values."""
    entry = entries[place]
    if not isinstance(entry, str):
        return None
    name, _, values = re.sub(r"\s*[:=]\s*", "=", entry.strip("- "), count=1).partition("=")
    kept = [value for value in re.split(r"[\s,;]+", values) if value]
    word = _sweep_word(f"{name}={','.join(kept)}") if kept else ""
    return {"sweep": [*entries[:place], word, *entries[place + 1 :]]} if word else None


def _parameter_text(name: object, values: object) -> str:
    listed = values if isinstance(values, list | tuple) else [values]
    return f"{name}={','.join(str(value) for value in listed)}"
