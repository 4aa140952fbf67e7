"""Scalars of TensorBoard files: those of its own writer, and whatever else bears the name."""

import random
import tracemalloc

import pytest

from portal.files.event_records import masked_crc32c
from portal.files.scalar_events import MAX_POINTS, MAX_TAGS, EventsProblem, scalar_events
from tests.support.event_files import WRITTEN_BY_TENSORBOARD, event_record, scalar_record


def read(data: bytes, *, size=1_000, is_cut=False, seconds=60.0):
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return scalar_events(pieces, is_cut=is_cut, seconds=seconds)


@pytest.mark.parametrize("size", [1, 13, 10_000])
def test_what_tensorboard_wrote_is_read_in_each_of_its_forms(size):
    found = read(WRITTEN_BY_TENSORBOARD, size=size)
    series = {tag: one.by_step() for tag, one in found.series.items()}
    assert list(series) == ["loss/train", "accuracy", "lr"]
    assert series["loss/train"] == [(n, pytest.approx(1 / (n + 1))) for n in range(5)]
    assert series["accuracy"] == [(n, pytest.approx(0.1 * n)) for n in range(5)]
    assert series["lr"] == [(n, n**2) for n in range(5)]
    assert (found.problem, found.not_finite) == (None, 1)


def test_damage_ends_the_file_and_what_comes_before_counts():
    good = scalar_record("loss", 1, 0.5)
    bad = bytearray(scalar_record("loss", 2, 0.25))
    bad[-6] ^= 1
    found = read(good + bytes(bad) + good)
    assert found.series["loss"].by_step() == [(1, 0.5)]
    assert found.problem is EventsProblem.DAMAGED
    for data in (b"no events at all", bytes(64), b"\xff" * 64, event_record(b"\x2a\x7f")):
        assert read(data).problem is EventsProblem.DAMAGED
    assert read(good + good[:-3]).problem is EventsProblem.ENDS_EARLY
    assert read(good + good[:-3], is_cut=True).problem is EventsProblem.TOO_LARGE
    assert read(b"").problem is None


def test_any_damaged_file_has_an_answer():
    chance = random.Random(7)
    for _ in range(200):
        data = bytearray(WRITTEN_BY_TENSORBOARD)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        read(bytes(data[: chance.randrange(len(data))]))


def test_a_long_file_is_thinned_and_a_picture_in_it_is_passed_over():
    points = [scalar_record("loss", step, step / 2) for step in range(3_000)]
    # The last number of a step counts.
    again = scalar_record("loss", 2_999, 7.0)
    picture = event_record(b"\x2a" + bytes(200 << 10))
    found = read(picture + b"".join(points) + again)
    kept = found.series["loss"].by_step()
    assert (kept[0], kept[-1], found.problem) == ((0, 0.0), (2_999, 7.0), None)
    assert MAX_POINTS / 2 <= len(kept) <= 2 * MAX_POINTS


def test_time_tags_and_memory_are_bounded():
    many = b"".join(scalar_record(f"tag{n}", 1, n) for n in range(3 * MAX_TAGS))
    found = read(many)
    assert (len(found.series), len(found.omitted_tags)) == (MAX_TAGS, MAX_TAGS)
    assert read(many, seconds=-1).problem is EventsProblem.TOO_LARGE
    # A length that no memory could hold.
    tracemalloc.start()
    huge = (1 << 39).to_bytes(8, "little")
    read(huge + masked_crc32c(huge).to_bytes(4, "little") + bytes(100))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
