"""A job's event stream: lines come once and in order, also after the connection was lost."""

import asyncio
import re
from contextlib import aclosing
from dataclasses import replace

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection
from django.test import AsyncClient, override_settings

from portal.accounts.models import Membership, User
from portal.event_stream import retry_directive
from portal.jobs.models import Job, Replica
from portal.live.bell import ring
from portal.live.listener import listener
from portal.web.job import stream as job_stream
from portal.web.job.stream import FollowedPage, job_stream_events
from portal.web.logs import updates as log_updates
from portal.web.logs.cursor import Cursor, parse_cursor
from portal.web.page_parts import PageFace
from tests.support.logs import write_log
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)
LINE = re.compile(r"<span>r(\d)</span><span>([^<]*)")


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """The same loop without its waits."""
    monkeypatch.setattr(job_stream, "PACE_SECONDS", 0)
    monkeypatch.setattr(job_stream, "HEARTBEAT_SECONDS", 5)


@pytest.fixture
def olga():
    return a_user("olga")


@pytest.fixture
def node():
    return a_node("n1", gpus=2)


@pytest.fixture
def running(olga, node) -> Job:
    return start(olga, node)


def start(olga: User, node, **fields) -> Job:
    job = a_job(olga, a_project("vision", olga), **fields)
    settle(node)
    job.refresh_from_db()
    assert job.status == "running"
    return job


def write(job: Job, text: str, rank: int = 0) -> None:
    try:
        replica = Replica.objects.filter(attempt__job=job, rank=rank).latest("attempt__number")
        data = text.encode()
        write_log(replica, replica.log_bytes, data)
        Replica.objects.filter(pk=replica.pk).update(log_bytes=replica.log_bytes + len(data))
        ring(f"job:{job.pk}")
    finally:
        connection.close()


class Reader:
    """A browser's end of one connection: it keeps the id of the last event that came whole."""

    def __init__(self, user: User, job: Job, *, seen: str = "", rank: int | None = None) -> None:
        self.user, self.job, self.seen, self.rank = user, job, seen, rank
        self.lines: list[tuple[int, str]] = []
        self.events: list[str] = []
        self.texts: list[str] = []

    async def read(self, until, *, tab: str = "logs", between=None) -> None:
        """Until `until(self)`; `between(n)` is called in a thread after each event."""
        watched = FollowedPage(self.job.label, tab, self.rank, PageFace("en", ""))
        async with aclosing(
            job_stream_events(self.user, self.job.pk, watched, parse_cursor(self.seen))
        ) as events:
            async for text in events:
                self.take(text)
                if until(self):
                    return
                if between:
                    await asyncio.to_thread(between, len(self.texts))

    def take(self, text: str) -> None:
        self.texts.append(text)
        fields = [line.partition(": ")[::2] for line in text.split("\n")]
        for name, value in fields:
            if name == "id":
                self.seen = value
            if name == "event":
                self.events.append(value)
        if "event: log\n" in text:
            self.lines += [(int(rank), line) for rank, line in LINE.findall(text)]


def follow(*readers_and_ends) -> None:
    async def all_of_them() -> None:
        try:
            for reader, until, between in readers_and_ends:
                await reader.read(until, between=between)
        finally:
            await listener().close()

    asyncio.run(all_of_them())


def test_lines_come_once_and_in_order_as_they_are_written(olga, running):
    reader = Reader(olga, running)
    texts = iter(["one\ntwo\n", "three\nfo", "ur\n", "five\n"])

    def more(_: int) -> None:
        if text := next(texts, None):
            write(running, text)

    follow((reader, lambda r: len(r.lines) == 5, more))
    assert [line for _, line in reader.lines] == ["one", "two", "three", "four", "five"]


def test_a_page_stays_connected_when_the_folder_of_logs_cannot_be_used(olga, running, tmp_path):
    (tmp_path / "logs").touch()  # no folder
    reader = Reader(olga, running)
    with override_settings(PLATFORM=replace(settings.PLATFORM, var=tmp_path)):
        follow((reader, lambda r: r.events, None))
    assert reader.events == ["page"]
    assert "The log store does not answer" in reader.texts[-1]


def test_a_connection_that_was_cut_loses_no_line_and_doubles_none(olga, running):
    """Cut after every single event, while lines go on being written."""
    seen, written = "", 0
    lines: list[str] = []

    async def scenario() -> None:
        nonlocal seen, written
        try:
            while len(lines) < 60:
                reader = Reader(olga, running, seen=seen)
                if written < 60:
                    text = "".join(f"line {n}\n" for n in range(written, written + 3))
                    await asyncio.to_thread(write, running, text)
                    written += 3
                await reader.read(lambda r: "log" in r.events)
                lines.extend(line for _, line in reader.lines)
                seen = reader.seen
        finally:
            await listener().close()

    asyncio.run(scenario())
    assert lines == [f"line {n}" for n in range(60)]


def test_the_page_and_its_stream_meet_without_a_gap(client, olga, running):
    write(running, "on the page\nunfini")
    client.force_login(olga)
    page = client.get(f"/jobs/{running.label}/").content.decode()
    address = re.search(r'data-stream="([^"]+)"', page)[1].replace("&amp;", "&")
    seen = re.search(r"from=([^&]+)", address)[1]
    assert "on the page" in page
    assert "unfini" in page
    write(running, "shed\nlater\n")
    reader = Reader(olga, running, seen=seen)
    follow((reader, lambda r: len(r.lines) == 2, None))
    assert reader.lines == [(0, "unfinished"), (0, "later")]


def test_each_replica_is_followed_by_itself_and_all_together(olga, node):
    job = start(olga, node, replicas=2)
    write(job, "a\n", 0)
    write(job, "b\n", 1)
    both, second = Reader(olga, job), Reader(olga, job, rank=1)
    follow(
        (both, lambda r: len(r.lines) == 2, None),
        (second, lambda r: len(r.lines) == 1, None),
    )
    assert sorted(both.lines) == [(0, "a"), (1, "b")]
    assert second.lines == [(1, "b")]


def test_a_log_that_ran_ahead_is_taken_up_at_its_end_and_says_what_is_left_out(
    olga, running, monkeypatch
):
    monkeypatch.setattr(log_updates, "MAX_BEHIND_BYTES", 10_000)
    write(running, "".join(f"line {n}\n" for n in range(1, 40_001)))
    reader = Reader(olga, running)
    follow((reader, lambda r: bool(r.lines), None))
    text = next(text for text in reader.texts if "event: log" in text)
    first = int(reader.lines[1][1].removeprefix("line "))
    assert f"Lines 1 to {first - 1} arrived too fast" in text
    assert reader.lines[-1] == (0, "line 40000")


@pytest.mark.slow
def test_what_came_while_one_was_away_comes_in_several_events_without_a_gap(olga, running):
    write(running, "".join(f"line {n}\n" for n in range(30_000)))
    reader = Reader(olga, running)
    follow((reader, lambda r: len(r.lines) == 30_000, None))
    assert [line for _, line in reader.lines] == [f"line {n}" for n in range(30_000)]
    assert reader.events.count("log") > 1


def test_lines_are_text_in_the_stream_too(olga, running):
    write(running, "<script>alert(1)</script>\u2028data: x\x85event: done\r\n\x1b[31mred\n")
    reader = Reader(olga, running)
    follow((reader, lambda r: "log" in r.events, None))
    text = next(text for text in reader.texts if "event: log" in text)
    assert "<script>" not in text
    assert reader.events.count("done") == 0
    assert reader.lines[-1] == (0, "red")


def test_the_last_line_comes_when_the_job_ends_without_a_line_end(olga, node, monkeypatch):
    monkeypatch.setattr(job_stream, "LATE_LOG_SECONDS", -1)
    job = start(olga, node)
    write(job, "no end")
    node.finish(exit_code=0)
    settle(node)
    reader = Reader(olga, job)
    follow((reader, lambda r: "done" in r.events, None))
    assert reader.lines == [(0, "no end")]
    assert reader.events[-1] == "done"


def test_a_new_attempt_begins_the_log_anew(olga, running):
    write(running, "first try\n")
    reader = Reader(olga, running)
    follow((reader, lambda r: bool(r.lines), None))
    old = running.attempts.get()
    new = running.attempts.create(number=2, created_at=old.created_at)
    row = old.replicas.get()
    Replica.objects.create(attempt=new, rank=0, node=row.node, status=row.status)
    write(running, "second try\n")
    again = Reader(olga, running, seen=reader.seen)
    follow((again, lambda r: bool(r.lines), None))
    assert again.lines == [(0, "second try")]
    assert any("data-restart" in text for text in again.texts)


def test_nothing_but_a_beat_comes_where_nothing_changed(olga, running, monkeypatch):
    monkeypatch.setattr(job_stream, "HEARTBEAT_SECONDS", 0)
    reader = Reader(olga, running)
    follow((reader, lambda r: r.events.count("beat") == 3, None))
    assert reader.events == ["page", "beat", "beat", "beat"]


def test_a_stream_ends_by_itself_after_its_life(olga, running, monkeypatch):
    monkeypatch.setattr(job_stream, "lifetime_seconds", lambda: 0.0)
    reader = Reader(olga, running)
    follow((reader, lambda _: False, None))
    assert reader.texts == [retry_directive()]


@pytest.mark.parametrize("change", ["membership", "active"])
def test_who_may_no_longer_see_the_job_hears_nothing_more(olga, running, monkeypatch, change):
    monkeypatch.setattr(job_stream, "HEARTBEAT_SECONDS", 0)
    reader = Reader(olga, running)

    def shut_out(_: int) -> None:
        try:
            if change == "membership":
                Membership.objects.filter(user=olga).delete()
            else:
                User.objects.filter(pk=olga.pk).update(is_active=False)
            write(running, "secret\n")
        finally:
            connection.close()

    follow((reader, lambda _: False, shut_out))
    assert reader.events[-1] == "done"
    assert not any("secret" in text for text in reader.texts)


@pytest.mark.parametrize(
    "seen", ["", "x", "e1", "e1.a1.0-", "e9.a9.0-9999999999", "e1.a1.0-5\nevent: x", "e" * 9_000]
)
def test_an_id_that_this_stream_never_gave_shows_the_log_from_its_start(olga, running, seen):
    write(running, "one\ntwo\n")
    found = parse_cursor(seen)
    reader = Reader(olga, running)
    reader.seen = seen
    if found and found.attempt == 1:
        return
    follow((reader, lambda r: bool(r.lines), None))
    assert [line for _, line in reader.lines] == ["one", "two"]


def test_a_cursor_is_read_back_as_it_was_written():
    cursor = Cursor(12, 3, {0: 456, 11: 7})
    assert parse_cursor(str(cursor)) == cursor
    assert parse_cursor(str(Cursor())) == Cursor()


def test_the_events_tab_is_live_too(olga, running):
    reader = Reader(olga, running)

    async def scenario() -> None:
        try:
            await reader.read(lambda r: "page" in r.events, tab="events")
        finally:
            await listener().close()

    asyncio.run(scenario())
    text = next(text for text in reader.texts if "event: page" in text)
    assert 'data-part="events"' in text
    assert 'data-part="logbar"' not in text


@pytest.mark.parametrize(
    "path", ["/jobs/{}/stream", "/cluster/stream", "/jobs/stream", "/queue/stream"]
)
def test_an_open_stream_holds_no_connection_to_the_database(olga, running, path):
    async def held() -> object:
        reader = AsyncClient()
        await reader.aforce_login(olga)
        try:
            answer = await reader.get(path.format(running.label))
            async with aclosing(aiter(answer.streaming_content)) as events:
                while "event: " not in (await anext(events)).decode():
                    pass
                return await sync_to_async(lambda: connection.connection)()
        finally:
            await listener().close()

    assert asyncio.run(held()) is None
