"""Amounts as people write them ("64GiB", "500m", "1h30m") to integers with a unit, and back.

Every reader raises ValueError with a sentence that says what to write instead.
"""

import re

from agents.contract.message import Message

# Fits a 32-bit column, and is far above any machine.
MAX_AMOUNT = 2_000_000_000
# Stands between a number and its unit in what people read.
NBSP = "\u00a0"

_MEMORY_MIB = {"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
# G, GB and GiB are the same: memory comes in powers of two, and nobody means less by 64GB.
_SIZE = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,3}))?\s*([mgt])(?:i?b)?", re.ASCII | re.IGNORECASE)
_CPU_MILLI = re.compile(r"([0-9]{1,9})m")
_CPU = re.compile(
    r"([0-9]{1,9})(?:\.([0-9]{1,3}))?(?:\s*(?:cores?|cpus?|个?核心?))?", re.ASCII | re.IGNORECASE
)
# The units of a time in English and Chinese, the largest first.
_TIME_UNITS = (
    r"d(?:ays?)?|天|日",
    r"h(?:(?:ou)?rs?)?|个?小时|个?钟头",
    r"m(?:in(?:ute)?s?)?|分钟?",
    r"s(?:ec(?:ond)?s?)?|秒钟?",
)
_TIME = re.compile(
    r"[\s,]*(?:and\b\s*)?".join(rf"(?:([0-9]{{1,9}})\s*(?:{unit}))?" for unit in _TIME_UNITS),
    re.ASCII | re.IGNORECASE,
)
# "1.5h": one number with a decimal, and its unit.
_DECIMAL_TIME = re.compile(
    r"([0-9]{1,9})\.([0-9]{1,3})\s*(?:" + "|".join(f"({unit})" for unit in _TIME_UNITS) + r")",
    re.ASCII | re.IGNORECASE,
)
# As on a clock, "1:30" or "1:30:00", with days before it as Slurm writes them: "2-12", "2-12:30".
_CLOCK = re.compile(r"([0-9]{1,7}):([0-5][0-9])(?::([0-5][0-9]))?")
_DAYS = re.compile(r"([0-9]{1,5})-([0-9]{1,2})(?::([0-5][0-9]))?(?::([0-5][0-9]))?")


def read_memory_mib(value: object) -> int:
    """ "64GiB" -> 65536 MiB. "64GB" and "64 g" mean the same: units are powers of two."""
    return _size_mib(value, Message("memory"), Message('"64GiB" or "512MiB"'))


def read_disk_mib(value: object) -> int:
    """ "200GiB" -> 204800 MiB, in the units of memory."""
    return _size_mib(value, Message("disk"), Message('"200GiB" or "2TiB"'))


def read_cpu_milli(value: object) -> int:
    """8, "8" or "8 cores", 1.5, "500m" thousandths of a core -> millicores."""
    if isinstance(value, str) and (match := _CPU_MILLI.fullmatch(_tidy(value))):
        return _bounded(int(match[1]), Message("cpu"))
    text = f"{value:.3f}" if isinstance(value, float) and value == round(value, 3) else value
    if isinstance(text, str) and (match := _CPU.fullmatch(_tidy(text))):
        return _bounded(int(match[1]) * 1_000 + _thousandths(match[2]), Message("cpu"))
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError('write whole cores, such as 8, or thousandths, such as "500m"')
    return _bounded(value * 1_000, Message("cpu"))


def read_seconds(value: object) -> int:
    """ "4h", "1h30m", "1.5 hours", "2小时", "1:30" hours and minutes, "2-12" days and hours, or
    whole seconds as a number -> seconds."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _bounded(value, Message("a time"))
    text = _tidy(value) if isinstance(value, str) else ""
    if decimal := _DECIMAL_TIME.fullmatch(text):
        return _bounded(_decimal_seconds(decimal), Message("a time"))
    match = _TIME.fullmatch(text) or _DAYS.fullmatch(text)
    parts = match.groups() if match else ()
    if clock := _CLOCK.fullmatch(text):
        parts = ("0", *clock.groups())
    if not any(parts):
        raise ValueError('write a time with its unit, such as "4h", "1h30m" or "90s"')
    amounts = zip(parts, _SECONDS.values(), strict=True)
    return _bounded(sum(int(n) * unit for n, unit in amounts if n), Message("a time"))


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


def memory_words(mib: int) -> str:
    """As people read it, in the unit of the cards: "8 GB", "1.5 GB", "1537 MB"."""
    for unit, size in (("TB", 1 << 20), ("GB", 1 << 10)):
        if mib >= size and mib * 10 % size == 0:
            return f"{_decimal(mib * 10 // size, 1)} {unit}"
    return f"{mib} MB"


def cpu_words(milli: int) -> str:
    """The number of CPUs: "2", "0.5"."""
    return _decimal(milli, 3)


def _decimal(amount: int, places: int) -> str:
    """1500 with three places -> "1.5"."""
    whole, part = divmod(amount, 10**places)
    return f"{whole}.{part:0{places}}".rstrip("0").rstrip(".")


def _tidy(text: str) -> str:
    return text.replace(NBSP, " ").strip()


def _decimal_seconds(match: re.Match[str]) -> int:
    units = zip(match.groups()[2:], _SECONDS.values(), strict=True)
    size = next(seconds for name, seconds in units if name)
    return int(match[1]) * size + _thousandths(match[2]) * size // 1_000


def _size_mib(value: object, what: Message, examples: Message) -> int:
    match = _SIZE.fullmatch(_tidy(value)) if isinstance(value, str) else None
    unit = _MEMORY_MIB[f"{match[3].upper()}iB"] if match else 0
    part = unit * _thousandths(match[2]) if match else 0
    if match is None or part % 1_000:
        raise ValueError(
            Message(
                "write %(what)s with its unit, such as %(such_as)s", what=what, such_as=examples
            )
        )
    return _bounded(int(match[1]) * unit + part // 1_000, what)


def _thousandths(decimals: str | None) -> int:
    """ "5" of 1.5 -> 500."""
    return int((decimals or "0").ljust(3, "0"))


def _bounded(amount: int, what: Message) -> int:
    if amount < 1:
        raise ValueError(Message("%(what)s must be more than 0", what=what))
    if amount > MAX_AMOUNT:
        raise ValueError(Message("%(what)s is too large", what=what))
    return amount
