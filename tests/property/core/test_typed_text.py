"""What is shown to people parses back to itself, and no text breaks a reader."""

from datetime import datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.request.moments import tidy
from scheduler.core.request.quantities import (
    NBSP,
    cpu_words,
    memory_words,
    read_cpu_milli,
    read_memory_mib,
    read_seconds,
    write_seconds,
)
from scheduler.core.request.typed_text import MENDS, READERS, probably_meant, read_typed
from scheduler.core.request_fields import FieldKind

NOW = datetime(2026, 11, 25, 18, 20, tzinfo=ZoneInfo("Asia/Shanghai"))
PIECES = st.sampled_from(
    [
        "tomorrow",
        "明天",
        "9",
        "90",
        ":",
        "点",
        "半",
        "am",
        "pm",
        "h",
        "GB",
        "小时",
        " ",
        "-",
        "+",
        ".",
    ]
)
TEXTS = st.one_of(st.text(max_size=30), st.lists(PIECES, max_size=6).map("".join))
CHECKS = {
    FieldKind.DURATION: read_seconds,
    FieldKind.SIZE: read_memory_mib,
    FieldKind.CPU: read_cpu_milli,
}


@given(st.integers(1, 10**7))
def test_a_shown_amount_of_memory_reads_back(mib):
    for shown in (memory_words(mib), memory_words(mib).replace(" ", NBSP)):
        assert read_memory_mib(shown) == mib
        assert read_memory_mib(read_typed(FieldKind.SIZE, shown, NOW).written) == mib


@given(st.integers(1, 10**6))
def test_a_shown_number_of_cpus_reads_back(milli):
    assert read_cpu_milli(cpu_words(milli)) == milli
    assert (
        read_cpu_milli(read_typed(FieldKind.CPU, f"{cpu_words(milli)} CPUs", NOW).written) == milli
    )


@given(st.integers(1, 10**7))
def test_a_shown_time_reads_back(seconds):
    written = write_seconds(seconds)
    assert read_typed(FieldKind.DURATION, written, NOW).written == written
    spaced = written.replace("h", " h ").replace("m", " min ").replace("d", " days ")
    assert read_seconds(spaced) == seconds
    chinese = spaced.replace(" h ", "小时").replace(" min ", "分钟").replace(" days ", "天")
    assert read_seconds(chinese.replace("s", "秒")) == seconds


@given(st.sampled_from(sorted(READERS)), TEXTS)
def test_any_text_is_read_or_left_as_it_is(kind, text):
    written = read_typed(kind, text, NOW).written
    if written != tidy(text) and kind in CHECKS:
        assert CHECKS[kind](written)


@given(st.sampled_from(sorted(MENDS)), TEXTS)
def test_what_is_offered_would_be_accepted(kind, text):
    if meant := probably_meant(kind, text):
        assert CHECKS[kind](meant)
