"""Amounts as people write them ("64GiB", "500m", "1h30m") to integers with a unit, and back.

Every reader raises ValueError with a sentence that says what to write instead.
"""

import re

from agents.contract.message import Message

# Fits a 32-bit column, and is far above any machine.
MAX_AMOUNT = 2_000_000_000

_MEMORY_MIB = {"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_SIZE = re.compile(r"([0-9]{1,12})\s*(MiB|GiB|TiB)")
_CPU = re.compile(r"([0-9]{1,9})m")
_TIME = re.compile(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")


def read_memory_mib(value: object) -> int:
    """ "64GiB" -> 65536 MiB. Only binary units are accepted, as GB is ambiguous."""
    return _size_mib(value, Message("memory"), Message('"64GiB" or "512MiB"'))


def read_disk_mib(value: object) -> int:
    """ "200GiB" -> 204800 MiB, in the units of memory."""
    return _size_mib(value, Message("disk"), Message('"200GiB" or "2TiB"'))


def read_cpu_milli(value: object) -> int:
    """8 or "8" cores, "500m" thousandths of a core -> millicores."""
    if isinstance(value, str) and (match := _CPU.fullmatch(value.strip())):
        return _bounded(int(match[1]), Message("cpu"))
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value.strip()):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError('write whole cores, such as 8, or thousandths, such as "500m"')
    return _bounded(value * 1_000, Message("cpu"))


def read_seconds(value: object) -> int:
    """ "4h", "1h30m", "90s", or whole seconds as a number -> seconds."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _bounded(value, Message("a time"))
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not any(match.groups()):
        raise ValueError('write a time with its unit, such as "4h", "1h30m" or "90s"')
    parts = zip(match.groups(), _SECONDS.values(), strict=True)
    return _bounded(sum(int(n) * unit for n, unit in parts if n), Message("a time"))


def write_memory(mib: int) -> str:
    for unit in ("TiB", "GiB"):
        if mib % _MEMORY_MIB[unit] == 0:
            return f"{mib // _MEMORY_MIB[unit]}{unit}"
    return f"{mib}MiB"


def write_cpu(milli: int) -> int | str:
    return milli // 1_000 if milli % 1_000 == 0 else f"{milli}m"


def write_seconds(seconds: int) -> str:
    text = ""
    for unit, size in _SECONDS.items():
        amount, seconds = divmod(seconds, size)
        text += f"{amount}{unit}" if amount else ""
    return text


def _size_mib(value: object, what: Message, examples: Message) -> int:
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(
            Message(
                "write %(what)s with its unit, such as %(such_as)s", what=what, such_as=examples
            )
        )
    return _bounded(int(match[1]) * _MEMORY_MIB[match[2]], what)


def _bounded(amount: int, what: Message) -> int:
    if amount < 1:
        raise ValueError(Message("%(what)s must be more than 0", what=what))
    if amount > MAX_AMOUNT:
        raise ValueError(Message("%(what)s is too large", what=what))
    return amount
