"""Every time on every page is on the reader's clock, with its date and zone on hover."""

import re
from datetime import datetime

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.demo.scale import ClusterSize
from portal.jobs.models import Job
from scheduler.core.model.states import JobStatus
from tests.browser.shown_rows import shown
from tests.support.event_stream import first_event
from tests.support.examples import first_quick
from tests.support.page_times import PageTimes
from tests.support.pages import PAGES, address
from tests.support.scale_rows import client_of, known, seeded

pytestmark = pytest.mark.django_db(transaction=True)
SMALL = ClusterSize(jobs=150, nodes=8, users=12, projects=3)
ZONES = {
    "Asia/Shanghai": ("+08:00", "Asia/Shanghai (UTC+8)"),
    "America/New_York": (r"-0[45]:00", "America/New_York (UTC-"),
    "UTC": ("+00:00", " UTC"),
}
TITLE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ")


@pytest.fixture
def looks() -> dict[str, tuple[str, str]]:
    """Who looks at which address: all pages, and the states that a seed lacks."""
    seeded(SMALL, now=timezone.now(), password="a long password of nobody")
    words = known()
    listed = {name: (page.as_user, address(name, words)) for name, page in PAGES.items()}
    return listed | shown(words)


def problems(html: str, zone: str) -> list[str]:
    offset, label = ZONES[zone]
    times = PageTimes(html)
    found = [f"no element: {text}" for text in times.bare]
    for element in times.elements:
        if not re.search(offset.replace("+", r"\+") + "$", element.datetime):
            found.append(f"another clock: {element}")
        if not TITLE.match(element.title) or label not in element.title:
            found.append(f"no date or zone on hover: {element}")
    if "&lt;time" in html:
        found.append("an element is shown as text")
    return found


@pytest.mark.parametrize("zone", first_quick(*ZONES))
def test_no_page_shows_a_time_outside_the_readers_clock(looks, zone):
    wrong = {}
    seen = 0
    for name, (who, path) in looks.items():
        client = client_of(who)
        client.cookies["time_zone"] = zone
        answer = client.get(path)
        assert answer.status_code == 200, name
        html = answer.content.decode()
        seen += len(PageTimes(html).elements)
        if found := problems(html, zone):
            wrong[name] = found[:4]
    assert wrong == {}
    assert seen > 200


def test_the_streams_of_pages_are_on_the_clock_of_their_page(looks, django_user_model):
    """Also where the account's zone has changed since the page was made."""
    alice = django_user_model.objects.get(username="alice")
    alice.time_zone = "UTC"
    alice.save()
    waiting = Job.objects.filter(owner=alice, status=JobStatus.QUEUED)[0]
    streams = [
        reverse("web:job_stream", args=[known()["job"]]) + "?tab=events&",
        reverse("web:job_stream", args=[waiting.label]) + "?",
        reverse("web:queue_stream") + "?",
        reverse("web:jobs_stream") + f"?row={waiting.pk}&",
    ]
    for path in streams:
        event = first_event(alice, f"{path}zone=Asia/Shanghai")
        assert event.name == "page"
        assert problems(event.data, "Asia/Shanghai") == [], path
        assert PageTimes(event.data).elements, path
        assert "zone=" not in event.data


def test_a_job_of_another_day_has_its_date_everywhere(looks):
    """The seeded history is weeks old: "13:44" alone would say nothing."""
    alice = client_of("alice")
    job = Job.objects.filter(owner__username="alice", status=JobStatus.SUCCEEDED).earliest("pk")
    html = alice.get(reverse("web:job_events", args=[job.label])).content.decode()
    texts = [element.text for element in PageTimes(html).elements]
    assert len(texts) > 4
    today = timezone.localdate()
    for element in PageTimes(html).elements:
        at = datetime.fromisoformat(element.datetime)
        has_day = re.search(r"\d+ [A-Z][a-z]{2}|yesterday|tomorrow", element.text)
        assert has_day or at.date() == today, element
