"""Amounts as people write them: what is read, what is refused, and the shortest way back."""

import pytest

from scheduler.core.request.quantities import (
    MAX_AMOUNT,
    read_cpu_milli,
    read_disk_mib,
    read_memory_mib,
    read_seconds,
    write_cpu,
    write_memory,
    write_seconds,
)

READ = [
    (read_memory_mib, "512MiB", 512),
    (read_memory_mib, "64GiB", 65_536),
    (read_memory_mib, " 64 GiB ", 65_536),
    (read_memory_mib, "1TiB", 1_048_576),
    (read_memory_mib, "0064GiB", 65_536),
    (read_memory_mib, "2000000000MiB", MAX_AMOUNT),
    *((read_memory_mib, word, 65_536) for word in ("64GB", "64G", "64gib", "64 gb", "65536m")),
    (read_memory_mib, "1.5TiB", 1_572_864),
    (read_disk_mib, "200GiB", 204_800),
    (read_disk_mib, "200gb", 204_800),
    (read_disk_mib, "2 TiB", 2_097_152),
    (read_cpu_milli, 8, 8_000),
    (read_cpu_milli, "8", 8_000),
    (read_cpu_milli, "500m", 500),
    (read_cpu_milli, " 1500m ", 1_500),
    *((read_cpu_milli, half, 500) for half in ("0.5", 0.5, " 0.5 cores")),
    (read_cpu_milli, 1.25, 1_250),
    (read_cpu_milli, "8 cores", 8_000),
    (read_cpu_milli, 2_000_000, MAX_AMOUNT),
    (read_seconds, 90, 90),
    (read_seconds, "90s", 90),
    (read_seconds, "4h", 14_400),
    (read_seconds, "1h30m", 5_400),
    (read_seconds, "1d2h3m4s", 93_784),
    (read_seconds, "90m", 5_400),
    *((read_seconds, word, 7_200) for word in ("2 hours", "2 h", "2HRS", "120 minutes", "2:00")),
    *((read_seconds, word, 5_400) for word in ("1h 30m", "1:30", "1:30:00", "1 hour 30 min")),
    *((read_seconds, word, 216_000) for word in ("2-12", "2-12:00", "2-12:00:00", "2 days 12h")),
    (read_seconds, 2_000_000_000, MAX_AMOUNT),
]


@pytest.mark.parametrize(("read", "written", "amount"), READ)
def test_an_amount_is_read_with_its_unit(read, written, amount):
    assert read(written) == amount


NO_AMOUNT = ["", " ", "5 potatoes", "potatoes", -0.0, None, True, [], {}, "-1", "1e3"]
NO_UNIT = ["1.5", 1.5]
REFUSED = {
    read_memory_mib: [*NO_AMOUNT, *NO_UNIT, 4_096, "4096", "GiB", "-1GiB", "1GiB1MiB", "1.0001GiB"],
    read_disk_mib: [*NO_AMOUNT, *NO_UNIT, 200, "200", "0.3MiB"],
    read_cpu_milli: [*NO_AMOUNT, "m", "-500m", "500M", "1_000", "0.0005", 0.0005, float("nan")],
    read_seconds: [*NO_AMOUNT, *NO_UNIT, "h", "-1h", "1h-30m", "30m1h", "1w", "90", "1:60", "1:3"],
}
SAYS = {
    read_memory_mib: 'write memory with its unit, such as "64GiB" or "512MiB"',
    read_disk_mib: 'write disk with its unit, such as "200GiB" or "2TiB"',
    read_cpu_milli: 'write whole cores, such as 8, or thousandths, such as "500m"',
    read_seconds: 'write a time with its unit, such as "4h", "1h30m" or "90s"',
}


@pytest.mark.parametrize(
    ("read", "written"), [(read, word) for read, words in REFUSED.items() for word in words]
)
def test_what_is_no_amount_is_refused_with_an_example(read, written):
    with pytest.raises(ValueError) as refused:
        read(written)
    assert str(refused.value) == SAYS[read]


@pytest.mark.parametrize(
    ("read", "nothing"),
    [
        *((read_memory_mib, word) for word in ("0MiB", "0 TiB")),
        (read_disk_mib, "0GiB"),
        *((read_cpu_milli, word) for word in (0, "0", "0m", -3)),
        *((read_seconds, word) for word in (0, "0s", "0d0h", -3)),
    ],
)
def test_nothing_is_no_amount(read, nothing):
    with pytest.raises(ValueError, match="must be more than 0"):
        read(nothing)


@pytest.mark.parametrize(
    ("read", "much"),
    [
        *((read_memory_mib, word) for word in ("2000000001MiB", "999999999999TiB")),
        (read_disk_mib, "2000000001MiB"),
        *((read_cpu_milli, word) for word in (2_000_001, "999999999", 10**40)),
        *((read_seconds, word) for word in (2_000_000_001, "999999999d", 10**40)),
    ],
)
def test_what_no_column_could_hold_is_refused(read, much):
    with pytest.raises(ValueError, match="too large"):
        read(much)


@pytest.mark.parametrize("digits", ["٣", "３", "²"])
def test_only_ascii_digits_are_digits(digits):
    for read, unit in ((read_memory_mib, "GiB"), (read_cpu_milli, "m"), (read_seconds, "h")):
        with pytest.raises(ValueError):
            read(digits + unit)


@pytest.mark.parametrize(
    ("write", "amount", "written"),
    [
        (write_memory, 1, "1MiB"),
        (write_memory, 1_023, "1023MiB"),
        (write_memory, 1_024, "1GiB"),
        (write_memory, 1_536, "1536MiB"),
        (write_memory, 1_048_576, "1TiB"),
        (write_cpu, 1, "1m"),
        (write_cpu, 1_500, "1500m"),
        (write_cpu, 8_000, 8),
        (write_seconds, 1, "1s"),
        (write_seconds, 60, "1m"),
        (write_seconds, 5_400, "1h30m"),
        (write_seconds, 604_800, "7d"),
        (write_seconds, 93_784, "1d2h3m4s"),
    ],
)
def test_an_amount_is_written_in_the_largest_units_that_keep_it_exact(write, amount, written):
    assert write(amount) == written
