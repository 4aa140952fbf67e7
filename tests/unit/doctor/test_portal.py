"""The checks of the way to the portal, on readings of real calls and on recorded ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from agents.route.connection import RouteFailure
from agents.route.portal_route import PortalRoute
from agents.route.reading import AddressReading, read_route
from tests.unit.doctor.machines import a_machine, a_portal, finding, verdict

FIRST, SECOND = "https://a.example", "https://b.example"
AWAY = AddressReading(SECOND, RouteFailure(f"{SECOND}: refused"))
UNTRUSTED = AddressReading(
    SECOND, RouteFailure(f"the certificate of {SECOND} has expired", "renew it", True)
)
NOW = 1_800_000_000.0
NOT_FOUND = {"error": {"code": "not_found", "sentence": "", "field": ""}}


@pytest.fixture
def machine(tmp_path):
    return a_machine(tmp_path)


def test_an_address_that_does_not_answer_is_named_with_what_to_do(machine):
    machine.portal = (a_portal(), AWAY)
    assert f"{SECOND}: refused" in finding(machine, "portal.reach").why
    assert "--proxy" in finding(machine, "portal.reach").mend
    assert verdict(machine, "portal.certificate") == "ok"


def test_a_certificate_that_is_not_trusted_is_said_by_its_own_check(machine):
    machine.portal = (UNTRUSTED,)
    found = finding(machine, "portal.certificate")
    assert (found.verdict, found.mend) == ("warn", "renew it") and "has expired" in found.why
    assert verdict(machine, "portal.reach") == "unknown"


@pytest.mark.parametrize(("days", "said"), [(13, "warn"), (14, "ok"), (50, "ok")])
def test_a_certificate_that_ends_soon_is_a_warning(machine, days, said):
    ends = datetime.now(UTC) + timedelta(days=days, hours=1)
    machine.portal = (a_portal(), a_portal(address=SECOND, expires_at=ends))
    assert verdict(machine, "portal.certificate") == said
    assert f"{days} more days" in finding(machine, "portal.certificate").why


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.0, "ok"), (10.0, "ok"), (11.0, "warn"), (-11.0, "warn")]
)
def test_clocks_that_differ_are_a_warning(machine, seconds, said):
    machine.portal = (a_portal(), a_portal(clock_seconds=seconds))
    assert verdict(machine, "portal.clock") == said


def test_without_an_address_nothing_is_known(machine):
    machine.portal = ()
    for check in ("reach", "certificate", "clock"):
        found = finding(machine, f"portal.{check}")
        assert found.verdict == "unknown" and "--portal" in found.mend


def read(answer: httpx.Response, clock: float = NOW, seconds: float = 0.0) -> AddressReading:
    """One reading by a clock that shows `clock`, and `seconds` more after the call."""
    times = iter((clock, clock + seconds))
    transport = httpx.MockTransport(lambda _: answer)
    (found,) = read_route(PortalRoute((FIRST,)), lambda: next(times), transport)
    return found


def dated(offset: int = 0) -> httpx.Response:
    """A portal's answer at NOW and `offset`, which it names in whole seconds."""
    at = format_datetime(datetime.fromtimestamp(NOW + offset, UTC), usegmt=True)
    return httpx.Response(404, json=NOT_FOUND, headers={"Date": at})


@pytest.mark.parametrize(
    ("clock", "seconds", "ahead"),
    [
        (NOW + 0.5, 0.2, 0.0),
        (NOW + 1.0, 0.0, 0.0),
        (NOW + 31.0, 0.5, 30.0),
        (NOW - 30.0, 0.5, -29.5),
        # The call took a minute: the portal's time may be any within it.
        (NOW - 30.0, 60.0, 0.0),
    ],
)
def test_the_clock_differs_by_no_less_than_is_read(clock, seconds, ahead):
    assert read(dated(), clock, seconds).clock_seconds == pytest.approx(ahead)


@pytest.mark.parametrize("date", ["", "yesterday"])
def test_a_portal_may_name_no_time(date):
    answer = httpx.Response(404, json=NOT_FOUND, headers={"Date": date})
    assert read(answer).clock_seconds is None


@pytest.mark.parametrize(
    "answer",
    [httpx.Response(200, text="a wiki"), httpx.Response(404, json=[]), httpx.Response(502)],
)
def test_another_server_at_the_address_is_no_portal(answer):
    failure = read(answer).failure
    assert failure is not None and "not as a portal does" in failure.why


def test_a_portal_is_known_by_how_it_refuses():
    assert read(dated()).failure is None
