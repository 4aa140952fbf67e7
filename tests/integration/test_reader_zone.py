"""Whose clock a page is on: the account's, else the browser's, else the portal's."""

import asyncio
import csv
import io
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from asgiref.sync import SyncToAsync
from django.test import AsyncClient, modify_settings, override_settings

from portal.accounts.time_zones import user_zone, zone_named, zone_names
from portal.api.jobs.event_stream import event_message
from portal.audit.codes import AuditAction
from portal.audit.models import AuditEntry
from portal.audit.services import audit_record
from portal.jobs.models import Job
from tests.support.request_form import a_form
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db(transaction=True)
SHANGHAI, NEW_YORK = "Asia/Shanghai", "America/New_York"


@pytest.fixture
def olga(client):
    olga = a_user("olga")
    client.force_login(olga)
    return olga


@pytest.fixture
def job(olga):
    return a_job(olga, a_project("vision", olga))


def file_of(user, path: str, zone: str) -> list[dict[str, str]]:
    """Its lines, read after the response has begun, as a browser does."""

    async def read() -> bytes:
        client = AsyncClient()
        client.cookies["time_zone"] = zone
        await client.aforce_login(user)
        answer = await client.get(path)
        return b"".join([part async for part in answer.streaming_content])

    return list(csv.DictReader(io.StringIO(asyncio.run(read()).decode("utf-8-sig"))))


def zone_of(client, path="/jobs/") -> str:
    """The zone that a page was written in, and says at its foot."""
    html = client.get(path).content.decode()
    zone = re.search(r'<html [^>]*data-zone="([^"]+)"', html)[1]
    assert zone in re.search(r'<footer class="foot">(.*?)</footer>', html)[1]
    return zone


def test_the_portals_zone_without_a_script_or_a_setting(client, olga):
    assert zone_of(client) == "UTC"
    with override_settings(TIME_ZONE="Europe/Berlin"):
        assert zone_of(client) == "Europe/Berlin"


def test_the_browsers_zone_and_above_it_the_accounts(client, olga):
    client.cookies["time_zone"] = SHANGHAI
    assert zone_of(client) == SHANGHAI
    client.post("/account/time-zone/", {"time_zone": NEW_YORK})
    olga.refresh_from_db()
    assert olga.time_zone == NEW_YORK
    assert zone_of(client) == NEW_YORK
    client.post("/account/time-zone/", {"time_zone": ""})
    assert zone_of(client) == SHANGHAI


def test_a_visitor_has_the_browsers_zone(client):
    client.cookies["time_zone"] = SHANGHAI
    assert zone_of(client, "/sign-in/") == SHANGHAI


@pytest.mark.parametrize(
    "name",
    ["", "x", "Mars/Olympus", "../../etc/passwd", "Asia", "A" * 300, "Asia/Shanghai\x00", "ü"],
)
def test_a_zone_that_nobody_knows_is_no_zone(client, olga, name):
    assert zone_named(name) is None
    client.cookies["time_zone"] = name
    olga.time_zone = name[:64]
    olga.save()
    assert zone_of(client) == "UTC"
    client.post("/account/time-zone/", {"time_zone": name or "Mars/Olympus"})
    olga.refresh_from_db()
    assert olga.time_zone == name[:64]


def test_the_account_page_offers_all_zones_and_the_browsers(client, olga):
    client.cookies["time_zone"] = SHANGHAI
    html = client.get("/account/").content.decode()
    assert "As the browser says: Asia/Shanghai (UTC+8)" in html
    assert {SHANGHAI, NEW_YORK, "UTC", "Asia/Kolkata"} <= set(re.findall(r'value="([^"]+)"', html))
    assert len(zone_names()) > 300
    client.post("/account/time-zone/", {"time_zone": NEW_YORK})
    html = client.get("/account/").content.decode()
    assert f'<option value="{NEW_YORK}" selected>' in html


def test_only_a_page_on_the_browsers_clock_is_loaded_again_for_it(client, olga):
    assert "data-follows-browser" in client.get("/").content.decode()
    assert "data-follows-browser" not in client.post("/request/", {}).content.decode()
    client.post("/account/time-zone/", {"time_zone": NEW_YORK})
    assert "data-follows-browser" not in client.get("/").content.decode()


def test_the_zone_costs_a_page_no_way_to_a_thread_and_back(olga, monkeypatch):
    """Django takes a page to a thread once, for its middleware and its view."""
    ways = []
    call = SyncToAsync.__call__
    monkeypatch.setattr(SyncToAsync, "__call__", lambda *a, **k: ways.append(a) or call(*a, **k))

    async def page() -> None:
        client = AsyncClient()
        await client.aforce_login(olga)
        ways.clear()
        assert (await client.get("/jobs/")).status_code == 200

    def ways_of_a_page() -> int:
        asyncio.run(page())
        return len(ways)

    with_the_zone = ways_of_a_page()
    with modify_settings(MIDDLEWARE={"remove": ["portal.web.time_zone.TimeZoneMiddleware"]}):
        assert ways_of_a_page() == with_the_zone


def test_an_address_names_the_zone_of_its_page_and_no_link_keeps_it(client, job):
    html = client.get("/jobs/?status=queued&zone=Asia/Tokyo").content.decode()
    assert 'data-zone="Asia/Tokyo"' in html
    assert not re.search(r'href="[^"]*zone=', html)


@pytest.mark.parametrize("zone_of_portal", ["UTC", "Europe/Berlin"])
def test_rest_has_utc_whatever_the_reader_and_the_portal_say(client, olga, job, zone_of_portal):
    client.cookies["time_zone"] = SHANGHAI
    olga.time_zone = NEW_YORK
    olga.save()
    with override_settings(TIME_ZONE=zone_of_portal):
        texts = [
            client.get(path).content.decode()
            for path in (f"/api/v1/jobs/{job.label}", "/api/v1/jobs", "/api/v1/usage")
        ]
        texts.append(event_message(job.events.latest("id")))
    for text in texts:
        moments = re.findall(r'"(\d{4}-\d\d-\d\dT[^"]+)"', text)
        assert moments and all(moment.endswith("Z") for moment in moments), text


@pytest.mark.parametrize(
    ("zone", "offset"), [(SHANGHAI, "+08:00"), ("Asia/Kolkata", "+05:30"), ("UTC", "+00:00")]
)
def test_files_have_the_readers_offset(olga, job, zone, offset):
    (row,) = file_of(olga, "/jobs.csv", zone)
    assert row["submitted_at"].endswith(offset)
    assert datetime.fromisoformat(row["submitted_at"]) == job.submitted_at.replace(microsecond=0)
    (waiting,) = file_of(olga, "/queue.csv", zone)
    assert waiting["waiting_since"].endswith(offset)


def test_days_of_a_filter_begin_at_the_readers_midnight(client, olga, job):
    """20:30 UTC of 1 March is 2 March in Shanghai."""
    Job.objects.update(submitted_at=datetime(2026, 3, 1, 20, 30, tzinfo=UTC))
    for zone, count in ((SHANGHAI, 1), ("UTC", 0)):
        client.cookies["time_zone"] = zone
        page = client.get("/jobs/?submitted_after=2026-03-02")
        assert len(page.context["page"].rows) == count, zone


def test_days_of_the_audit_are_the_readers(client):
    root = a_user("root", is_superuser=True, is_staff=True)
    client.force_login(root)
    audit_record(actor="root", action=AuditAction.USER_CHANGE, noun="user", noun_id="root")
    AuditEntry.objects.update(at=datetime(2026, 3, 1, 20, 30, tzinfo=UTC))
    for zone, count in ((SHANGHAI, 0), ("UTC", 1)):
        client.cookies["time_zone"] = zone
        page = client.get("/console/audit/?until=2026-03-01&since=2026-03-01")
        assert page.context["page"].paginator.count == count, zone
        assert zone in page.content.decode()


@pytest.mark.parametrize("typed", ["tomorrow 9:00", "{day} 09:00", "{day}T09:00", "{day}T01:00Z"])
def test_a_begin_time_is_read_on_the_readers_clock(client, olga, typed):
    a_node("n1")
    a_project("vision", olga)
    client.cookies["time_zone"] = SHANGHAI
    day = datetime.now(ZoneInfo(SHANGHAI)).date() + timedelta(days=1)
    form = a_form(project="vision", begin_at=typed.format(day=day))
    assert client.post("/request/", form).status_code == 302
    begin = Job.objects.get().begin_at.astimezone(ZoneInfo(SHANGHAI))
    assert begin == datetime(day.year, day.month, day.day, 9, tzinfo=ZoneInfo(SHANGHAI))


def test_what_no_clock_shows_is_refused_as_before(client, olga):
    a_node("n1")
    a_project("vision", olga)
    answer = client.post("/request/", a_form(project="vision", begin_at="soon"))
    assert answer.status_code == 400


def test_mails_are_on_the_recipients_clock():
    eve = a_user("eve")
    assert str(user_zone(eve)) == "UTC"
    eve.time_zone = SHANGHAI
    assert str(user_zone(eve)) == SHANGHAI
