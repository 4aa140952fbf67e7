"""The streams of the lists: ids, coming back, one look for all who ask the same, and their end."""

import asyncio
import threading

import pytest
from django.db import connection

from portal import event_stream as streaming
from portal.accounts.models import User
from portal.event_stream import ShuttingDown, shared_read
from portal.jobs.models import Job
from portal.live.bell import ring
from portal.live.listener import listener, subscribe
from portal.web.jobs import stream as jobs_stream
from portal.web.page_parts import StreamPace
from portal.web.queue import stream as queue_stream
from tests.support.event_stream import first_event, opened
from tests.support.rows import a_job

pytestmark = pytest.mark.django_db(transaction=True)
LISTS = ("/jobs/stream", "/queue/stream")


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """The same loop without its waits."""
    for stream in (jobs_stream, queue_stream):
        monkeypatch.setattr(
            stream, "PACE", StreamPace(min_seconds=0, max_seconds=5, read_time_factor=0)
        )
    monkeypatch.setattr(streaming, "REST_FACTOR", 0)


@pytest.fixture
def job(olga, team) -> Job:
    return a_job(olga, team, name="alpha")


def run(scenario):
    async def run_scenario():
        try:
            async with asyncio.timeout(500):
                return await scenario()
        finally:
            await listener().close()

    return asyncio.run(run_scenario())


def address(path: str, job: Job) -> str:
    return f"{path}?row={job.pk}"


@pytest.mark.parametrize("path", LISTS)
def test_who_comes_back_with_the_last_event_is_sent_nothing_twice(olga, job, path):
    first = first_event(olga, address(path, job))
    assert (first.name, len(first.id)) == ("page", 18)
    again = first_event(olga, address(path, job), last=first.id)
    assert (again.name, again.data) == ("beat", "")


@pytest.mark.parametrize("path", LISTS)
def test_who_comes_back_is_sent_what_changed_while_they_were_away(olga, job, path):
    first = first_event(olga, address(path, job))
    Job.objects.filter(pk=job.pk).update(position=77)
    again = first_event(olga, address(path, job), last=first.id)
    assert again.name == "page"
    assert "77" in again.data
    assert again.id != first.id


@pytest.mark.parametrize("last", ["e12.a3.0-456", "\xff\xfe", "x" * 10_000])
def test_an_id_of_another_stream_is_taken_for_none(olga, job, last):
    assert first_event(olga, "/queue/stream", last=last).name == "page"


@pytest.mark.parametrize("path", LISTS)
def test_a_bell_of_a_job_that_is_shown_is_heard_from_the_first_event_on(
    olga, job, path, monkeypatch
):
    # Only the bell makes it look again.
    patient = StreamPace(min_seconds=0, max_seconds=3_600, read_time_factor=0)
    for stream in (jobs_stream, queue_stream):
        monkeypatch.setattr(stream, "PACE", patient)

    def change() -> None:
        Job.objects.filter(pk=job.pk).update(position=77)
        ring(f"job:{job.pk}")
        connection.close()

    async def scenario():
        async with opened(olga, address(path, job)) as events:
            first = await anext(events)
            following = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            waited_for = f"job:{job.pk}"
            while waited_for not in listener()._bells:
                await asyncio.sleep(0)
            await asyncio.to_thread(change)
            return first, await following

    first, second = run(scenario)
    assert (first.name, second.name) == ("page", "page")
    assert "77" in second.data


@pytest.mark.parametrize("path", LISTS)
def test_who_may_sign_in_no_more_is_told_no_more(olga, job, path):
    def leave() -> None:
        User.objects.filter(pk=olga.pk).update(is_active=False)
        connection.close()

    async def scenario():
        async with opened(olga, address(path, job)) as events:
            await anext(events)
            await asyncio.to_thread(leave)
            listener().wake_all()
            return [event.name async for event in events]

    assert run(scenario) == ["done"]


@pytest.mark.parametrize("path", LISTS)
def test_a_stream_ends_at_once_when_the_process_goes_down_also_one_without_rows(olga, path):
    async def scenario():
        async with opened(olga, path) as events:
            await anext(events)
            listener().drain()
            return [event.name async for event in events]

    assert run(scenario) == []


def test_a_pause_is_over_when_the_process_goes_down():
    async def scenario():
        with subscribe() as bell:
            pause = asyncio.ensure_future(bell.pause(1_000))
            await asyncio.sleep(0)
            listener().drain()
            await pause
            return bell.is_closing

    assert run(scenario)


def test_three_hundred_who_ask_the_same_are_answered_by_two_looks():
    """One that had begun before most of them came, and one for all of those."""
    looks, begun, go = [], threading.Event(), threading.Event()

    def read() -> int:
        looks.append(1)
        mine = len(looks)
        begun.set()
        go.wait(300)
        return mine

    async def scenario():
        first = asyncio.ensure_future(shared_read(read, share_key="page"))
        await asyncio.to_thread(begun.wait, 300)
        others = [asyncio.ensure_future(shared_read(read, share_key="page")) for _ in range(299)]
        await asyncio.sleep(0)
        go.set()
        return await first, set(await asyncio.gather(*others))

    assert run(scenario) == (1, {2})
    assert len(looks) == 2


def test_who_goes_away_takes_nobody_else_along():
    def read() -> str:
        return "read"

    async def scenario():
        one, other = (asyncio.ensure_future(shared_read(read, share_key="page")) for _ in range(2))
        await asyncio.sleep(0)
        one.cancel()
        return await other

    assert run(scenario) == "read"


def test_a_look_that_fails_fails_for_all_who_waited_for_it_and_for_nobody_later():
    answers = iter([0])

    def read() -> str:
        for nothing in answers:
            return str(1 // nothing)
        return "read"

    async def scenario():
        asked = [shared_read(read, share_key="page") for _ in range(3)]
        failed = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one) for one in failed] == [ZeroDivisionError] * 3
        return await shared_read(read, share_key="page")

    assert run(scenario) == "read"


def test_looks_that_have_not_begun_are_left_out_when_the_process_goes_down():
    """A restart is not held up by all that hundreds of streams still wanted to see."""
    looks, begun, go = [], threading.Event(), threading.Event()

    def read(number: int) -> None:
        begun.set()
        go.wait(300)
        looks.append(number)

    async def scenario():
        asked = [asyncio.ensure_future(shared_read(read, n, share_key=n)) for n in range(20)]
        await asyncio.to_thread(begun.wait, 300)
        listener().drain()
        go.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    ended = run(scenario)
    assert len(looks) <= streaming.MAX_CONCURRENT_READS
    assert sum(isinstance(one, ShuttingDown) for one in ended) == 20 - len(looks)
