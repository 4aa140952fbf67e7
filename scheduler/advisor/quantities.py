"""Units: decimal and binary bytes are never mixed. GB is 10^9 bytes, GiB 2^30."""

from scheduler.advisor.errors import one_of

BYTES = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "hours": 3_600.0, "days": 86_400.0}
DTYPE_BYTES = {
    "fp32": 4.0,
    "float32": 4.0,
    "tf32": 4.0,
    "fp16": 2.0,
    "float16": 2.0,
    "bf16": 2.0,
    "bfloat16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp4": 0.5,
    "int4": 0.5,
}


def _first_word(unit: str) -> str:
    return unit.replace("/", " ").split()[0] if unit.split() else ""


def bytes_as(size: float, unit: str) -> float:
    """A number of bytes in a unit, of whose text the first word counts: `MiB (floor)`."""
    word = _first_word(unit)
    if word not in BYTES:
        raise one_of("unit", unit, BYTES)
    return size / BYTES[word]


def seconds_as(seconds: float, unit: str) -> float:
    word = _first_word(unit)
    if word not in SECONDS:
        raise one_of("unit", unit, SECONDS)
    return seconds / SECONDS[word]


def dtype_bytes(name: str) -> float:
    """Bytes of one number of a type, half a byte for 4 bits."""
    if name not in DTYPE_BYTES:
        raise one_of("dtype", name, DTYPE_BYTES)
    return DTYPE_BYTES[name]
