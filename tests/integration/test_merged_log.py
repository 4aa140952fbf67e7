"""The logs of a gang as one: in order of arrival, in pieces, without a line lost or doubled."""

import random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.job_logs.merging import MAX_LOGS, merged_since, merged_tail
from portal.job_logs.position import LogPosition, parse_position
from portal.job_logs.storage import stream_name
from portal.jobs.models import Attempt, Job, Replica
from portal.storage.segments import StreamEnd, record, upload
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


def a_gang(olga, team, replicas: int = 3, **fields) -> Job:
    node = a_node("n1", gpus=4)
    job = a_job(olga, team, replicas=replicas, device={"mig": "1g.18gb"}, **fields)
    settle(node)
    job.refresh_from_db()
    assert job.status == "running"
    return job


def ranks(job: Job) -> list[Replica]:
    rows = Replica.objects.filter(attempt__job=job).select_related("attempt__job")
    return list(rows.order_by("rank"))


@pytest.fixture
def arrive(monkeypatch):
    """Bytes of one rank's log that arrive at this second."""

    def at(replica: Replica, second: int, text: str) -> None:
        monkeypatch.setattr("time.time_ns", lambda: (1_000_000 + second) * 10**9)
        data = text.encode()
        name = stream_name(replica)
        record([StreamEnd(name, replica.log_bytes, upload(name, data))])
        replica.log_bytes += len(data)
        replica.save(update_fields=["log_bytes"])

    return at


def texts(lines) -> list[str]:
    return [f"{line.rank} {line.data.decode()}" for line in lines]


def all_pieces(replicas: list[Replica], budget: int, **fields) -> list[str]:
    offsets: dict[int, int] = {}
    found: list[str] = []
    while True:
        piece = merged_since(replicas, offsets, budget=budget, **fields)
        found += texts(piece.lines)
        offsets = piece.offsets
        if not piece.has_more:
            return found
        assert piece.lines, "a read with more to come brings at least one line"


def test_lines_come_in_the_order_of_arrival(olga, team, arrive):
    zero, one, _ = rows = ranks(a_gang(olga, team))
    arrive(zero, 1, "a\n")
    arrive(one, 2, "b\n")
    arrive(zero, 3, "c\n")
    assert texts(merged_since(rows, {}).lines) == ["0 a", "1 b", "0 c"]


def test_in_small_pieces_the_order_is_the_same(olga, team, arrive, monkeypatch):
    monkeypatch.setattr("portal.job_logs.merging.MIN_LOG_BYTES", 64)
    rows = ranks(a_gang(olga, team))
    rng = random.Random(7)
    expected = []
    for second in range(1, 60):
        replica = rng.choice(rows)
        # One rank writes far more than the others.
        count = 20 if replica.rank == 0 else 1
        words = [f"{second} {n} {'x' * rng.randrange(30)}" for n in range(count)]
        arrive(replica, second, "".join(f"{word}\n" for word in words))
        expected += [f"{replica.rank} {word}" for word in words]
    assert all_pieces(rows, 192) == expected
    assert texts(merged_since(rows, {}).lines) == expected


def test_a_line_longer_than_a_piece_and_one_that_is_open_stop_nobody(
    olga, team, arrive, monkeypatch
):
    monkeypatch.setattr("portal.job_logs.merging.MIN_LOG_BYTES", 64)
    zero, one, _ = rows = ranks(a_gang(olga, team))
    arrive(zero, 1, "y" * 150 + "\n")
    arrive(one, 2, "10 %")
    arrive(zero, 3, "end\n")
    found = all_pieces(rows, 192)
    assert "".join(line.split()[1] for line in found if "y" in line) == "y" * 150
    assert found[-1] == "0 end"
    assert "1 10 %" not in found
    assert "1 10 %" in all_pieces(rows, 192, is_final=True)


def test_the_end_of_all_logs_together(olga, team, arrive):
    zero, one, _ = rows = ranks(a_gang(olga, team))
    for second in range(1, 11):
        arrive(zero if second % 2 else one, second, f"{second}\n")
    end = merged_tail(rows, 3)
    assert texts(end.lines) == ["0 9" if n == 9 else f"1 {n}" for n in (8, 9, 10)]
    arrive(one, 11, "new\n")
    assert texts(merged_since(rows, end.offsets).lines) == ["1 new"]
    assert merged_tail(rows, 0).lines == []


@pytest.mark.parametrize("text", ["", "a", "a1.", "a1.0", "e1.a1", "a1.0-1.x", "a1.0-1\n", "a-1"])
def test_a_position_that_nobody_sent_is_none(text):
    assert parse_position(text) is None


def test_a_position_reads_back_for_as_many_logs_as_are_merged():
    position = LogPosition(3, {rank: rank * 7 for rank in range(MAX_LOGS)})
    assert parse_position(str(position)) == position
    assert parse_position("a0") == LogPosition()


# REST


@pytest.fixture
def read(client, olga):
    client.force_login(olga)

    def get(job: Job, **fields):
        answer = client.get(f"/api/v1/jobs/{job.label}/logs/merged", fields)
        assert answer.status_code == 200, answer.content
        return answer.json()

    return get


def test_rest_reads_it_from_the_start_and_goes_on_after(olga, team, arrive, read):
    zero, one, _ = ranks(job := a_gang(olga, team))
    arrive(zero, 1, "\x1b[31ma\n")
    arrive(one, 2, "b\n")
    page = read(job)
    assert [(row["rank"], row["line"], row["text"]) for row in page["results"]] == [
        (0, 1, "\x1b[31ma"),
        (1, 1, "b"),
    ]
    assert page["results"][0]["at"] < page["results"][1]["at"]
    assert (page["attempt"], page["has_more"], page["omitted_ranks"]) == (1, False, 0)
    arrive(one, 3, "c\n")
    assert [row["text"] for row in read(job, after=page["next_after"])["results"]] == ["c"]


def test_rest_begins_with_the_last_lines_and_brings_an_open_one_once(olga, team, arrive, read):
    zero, one, _ = ranks(job := a_gang(olga, team))
    arrive(zero, 1, "a\nb\nc\n")
    arrive(one, 2, "50 %")
    page = read(job, tail=3)
    assert [row["text"] for row in page["results"]] == ["b", "c"]
    assert read(job, after=page["next_after"])["results"] == []
    Attempt.objects.update(ended_at="2026-01-01T00:00Z")
    page = read(job, tail=3)
    assert page["has_more"]
    rest = read(job, after=page["next_after"])
    assert [row["text"] for row in rest["results"]] == ["50 %"]


def test_rest_before_a_start_after_removal_and_with_nonsense(olga, team, client, read):
    waiting = a_job(olga, team)
    page = read(waiting)
    assert (page["attempt"], page["results"], page["next_after"]) == (0, [], "a0")
    assert read(waiting, after="a0")["results"] == []
    address = f"/api/v1/jobs/{waiting.label}/logs/merged"
    assert client.get(address, {"after": "x"}).status_code == 400
    assert client.get(address, {"attempt": 7}).status_code == 404
    job = a_gang(olga, team)
    Replica.objects.update(log_removed_at="2026-01-01T00:00Z")
    answer = client.get(f"/api/v1/jobs/{job.label}/logs/merged")
    assert answer.json()["code"] == "log_removed"


def test_rest_costs_the_same_queries_for_more_ranks(olga, team, arrive, read):
    job = a_gang(olga, team, replicas=6)
    rows = ranks(job)
    counts = []
    for few in (rows[:2], rows):
        for replica in few:
            arrive(replica, 1, "x\n")
        with CaptureQueriesContext(connection) as asked:
            read(job)
        counts.append(len(asked))
    assert counts[0] == counts[1] < 12
