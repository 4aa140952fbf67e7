"""Logs by lines: any page of a large one, its end, its words and its times, with bounded reads."""

import tracemalloc
from datetime import UTC, datetime

import pytest
from django.conf import settings

from portal.job_logs import reading as log_reading
from portal.job_logs.adoption import file_name
from portal.job_logs.reading import BLOCK, count_lines, last_lines, lines_from, lines_since, search
from portal.job_logs.storage import log_stream, stream_name
from portal.jobs.models import Replica
from portal.storage import segments
from portal.storage.arrivals import pack_arrivals, unpack_arrivals
from portal.web.logs.lines import merge_by_arrival, search_logs, tail
from tests.support.logs import write_log
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
MIB = 1 << 20


@pytest.fixture
def replica() -> Replica:
    return replicas()[0]


def replicas(count: int = 1) -> list[Replica]:
    olga = a_user("olga")
    node = a_node("n1", gpus=2)
    a_job(olga, a_project("vision", olga), replicas=count)
    settle(node)
    return list(Replica.objects.order_by("rank"))


def arrive(replica: Replica, data: bytes) -> None:
    """As a node's call does it."""
    write_log(replica, replica.log_bytes, data)
    replica.log_bytes += len(data)
    replica.save(update_fields=["log_bytes"])


def numbered(count: int, start: int = 0) -> bytes:
    return b"".join(b"line %d is here\n" % (i + 1) for i in range(start, start + count))


def words(lines) -> list[bytes]:
    return [line.data for line in lines]


def test_the_end_of_a_log_has_its_true_line_numbers(replica):
    arrive(replica, numbered(200_000))
    piece = last_lines(replica, 3)
    assert [(line.number, line.data) for line in piece.lines] == [
        (n, b"line %d is here" % n) for n in (199_998, 199_999, 200_000)
    ]
    assert piece.end == replica.log_bytes
    assert count_lines(replica) == 200_000


@pytest.mark.parametrize("number", [1, 2, 55_188, 55_189, 120_000, 200_000])
def test_a_page_begins_at_the_line_that_was_asked_for(replica, number):
    arrive(replica, numbered(200_000))
    first = lines_from(replica, number, 2).lines[0]
    assert (first.number, first.data) == (number, b"line %d is here" % number)


def test_a_page_beyond_the_end_is_empty(replica):
    arrive(replica, numbered(3))
    assert lines_from(replica, 4, 10).lines == []
    assert words(lines_from(replica, 3, 10).lines) == [b"line 3 is here"]


def test_a_line_whose_end_has_not_come_is_shown_and_comes_again_whole(replica):
    arrive(replica, b"one\ntw")
    piece = last_lines(replica, 10)
    assert [(line.data, line.is_complete) for line in piece.lines] == [
        (b"one", True),
        (b"tw", False),
    ]
    assert lines_since(replica, piece.end, 1000).lines == []
    arrive(replica, b"o\nthr")
    assert words(lines_since(replica, piece.end, 1000).lines) == [b"two"]
    assert words(lines_since(replica, 8, 1000, is_final=True).lines) == [b"thr"]
    assert count_lines(replica) == 3


def test_what_came_is_read_in_pieces_without_a_line_lost_or_doubled(replica):
    arrive(replica, numbered(5_000))
    offset, seen = 0, []
    while piece := lines_since(replica, offset, 777).lines:
        seen += piece
        offset = lines_since(replica, offset, 777).end
    assert [line.number for line in seen] == list(range(1, 5_001))
    assert offset == replica.log_bytes


def test_a_line_longer_than_a_piece_goes_out_in_parts(replica):
    arrive(replica, b"x" * 2_000)
    piece = lines_since(replica, 0, 500)
    assert (piece.end, piece.lines[0].is_complete) == (500, False)


def test_a_long_line_is_cut_and_says_by_how_much(replica):
    arrive(replica, b"a" * (log_reading.LINE_BYTES + 5) + b"\nnext\n")
    first, second = last_lines(replica, 10).lines
    assert (len(first.data), first.cut_bytes) == (log_reading.LINE_BYTES, 5)
    assert second.data == b"next"


def test_a_search_finds_lines_everywhere_also_across_the_borders_of_its_reads(replica):
    filler = b"." * 99 + b"\n"
    data = bytearray(filler * (3 * BLOCK // 100))
    for border in (BLOCK, 2 * BLOCK):
        data[border - 3 : border + 3] = b"needle"
    data[:6] = b"Needle"
    arrive(replica, bytes(data))
    hits = search(replica, "needle", max_hits=10, budget=1 << 30)
    assert [line.number for line in hits.lines] == [1, BLOCK // 100 + 1, 2 * BLOCK // 100 + 1]
    assert all(b"eedle" in line.data for line in hits.lines)
    assert hits.next_offset is None
    assert len(search(replica, "Needle", max_hits=10, budget=1 << 30).lines) == 1


def test_a_search_goes_on_where_it_stopped(replica):
    arrive(replica, numbered(450))
    seen, on, looks = [], "", 0
    while True:
        hits = search_logs([replica], "is here", on)
        seen += [line.number for line in hits.lines]
        looks += 1
        on = hits.next_position
        if not on:
            break
    assert seen == list(range(1, 451))
    assert looks == 3


def test_a_search_that_has_looked_enough_says_where_it_stopped(replica):
    arrive(replica, numbered(200_000))
    hits = search(replica, "line 200000 ", max_hits=10, budget=MIB)
    assert (hits.lines, hits.next_offset) == ([], MIB)
    assert search(replica, "line 200000 ", start=MIB, max_hits=10, budget=1 << 30).lines


def test_words_that_nobody_wrote_and_offsets_that_nobody_gave_are_harmless(replica):
    arrive(replica, b"one\n")
    for on in ("", "0-99999999", "x", "-", "9-0", "0-" + "9" * 40):
        assert search_logs([replica], "two", on).lines == []


def test_a_large_log_is_never_in_memory_at_once(replica):
    path = settings.PLATFORM.var / file_name(stream_name(replica))  # as an older Tessera left it
    path.parent.mkdir(parents=True, exist_ok=True)
    chunk = numbered(60_000)
    with path.open("wb") as file:
        while file.tell() < 100 * MIB:
            file.write(chunk)
        replica.log_bytes = file.tell()
    tracemalloc.start()
    last_lines(replica, 1_000)
    lines_from(replica, 1_000_000, 1_000)
    search(replica, "nobody wrote this", max_hits=200, budget=1 << 30)
    count_lines(replica)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * MIB


def test_counts_of_lines_are_right_while_a_log_grows_and_is_merged(replica):
    whole = numbered(150_000)
    for start in range(0, len(whole), 30_000):
        arrive(replica, whole[start : start + 30_000])
        segments.merge_end(stream_name(replica))
    log = log_stream(replica)
    assert len(log.segments) < 45
    assert log.first_gap is None
    for place in (0, 5, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, len(whole)):
        assert log.lines_before(place) == whole[:place].count(b"\n")
    assert log.line_offset(150_001) == len(whole)
    assert log.read(0, len(whole)) == whole


def test_what_a_failed_write_left_is_not_counted(replica):
    write_log(replica, 0, b"\n" * (2 * BLOCK))  # never counted: log_bytes stays 0
    arrive(replica, b"x\n" * BLOCK)
    arrive(replica, b"end\n")
    assert count_lines(replica) == BLOCK + 1
    assert last_lines(replica, 1).lines[0].number == BLOCK + 1


def test_lines_have_the_time_at_which_they_arrived(replica, monkeypatch):
    clock = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    monkeypatch.setattr(segments.time, "time_ns", lambda: int(clock * 1e9))
    for text, seconds in ((b"a\nb\n", 0), (b"c\n", 5), (b"d\n", 5.5), (b"e\n", 60)):
        clock = datetime(2026, 1, 1, tzinfo=UTC).timestamp() + seconds
        arrive(replica, text)
    lines, _ = tail([replica])
    assert [f"{line.text}{line.at:%M:%S}" for line in lines] == [
        "a00:00",
        "b00:00",
        "c00:05",
        "d00:05",
        "e01:00",
    ]


def test_times_of_arrival_are_kept_once_a_second_and_are_bounded():
    pairs = [(0, 1_000), (10, 1_500), (20, 2_100), (30, 900)]
    assert unpack_arrivals(pack_arrivals(pairs)) == [(0, 1_000), (20, 2_100), (30, 900)]
    many = [(offset, offset * 1_000) for offset in range(10_000)]
    packed = unpack_arrivals(pack_arrivals(many))
    assert len(packed) == 2_500
    assert packed[0] == many[0]


def test_all_replicas_together_stand_in_the_order_of_arrival(monkeypatch):
    first, second = replicas(2)
    clock = 1_000
    monkeypatch.setattr(segments.time, "time_ns", lambda: clock * 10**9)
    for replica, text in ((first, b"a\n"), (second, b"b\n"), (first, b"c\n")):
        arrive(replica, text)
        clock += 10
    lines, offsets = tail([first, second])
    assert [(line.rank, line.text) for line in lines] == [(0, "a"), (1, "b"), (0, "c")]
    assert offsets == {0: 4, 1: 2}


def test_a_clock_that_steps_back_never_turns_the_lines_of_one_replica_around(replica, monkeypatch):
    clock = 1_000
    monkeypatch.setattr(segments.time, "time_ns", lambda: clock * 10**9)
    arrive(replica, b"a\n")
    clock = 500
    arrive(replica, b"b\n")
    lines = merge_by_arrival([last_lines(replica, 10)])
    assert [line.text for line in lines] == ["a", "b"]
