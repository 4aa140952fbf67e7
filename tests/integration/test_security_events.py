"""Finding 2.9 of the security review: who was refused, from where, and how often."""

import asyncio
import json

import pytest
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from django.core.cache import cache
from django.db import DatabaseError
from django.test import Client
from rest_framework.test import APIClient

from agents.contract.calls import ENROL_PATH, HELLO_PATH
from portal.agentapi.door import door
from portal.asgi import application
from portal.audit import security_events
from portal.audit.codes import AuditAction
from portal.audit.models import AuditEntry
from portal.audit.security_events import MAX_ADDRESSES, forget_refusals, security_event_record
from portal.client_address import set_client_address
from portal.quotas.services import quota_set
from tests.support.rows import a_user

pytestmark = pytest.mark.django_db(transaction=True)
WRONG = {"username": "olga", "password": "a secret typed wrongly"}


@pytest.fixture(autouse=True)
def nothing_was_tried_before(monkeypatch):
    cache.clear()
    door.cache_clear()
    # One minute for all of a test.
    monkeypatch.setattr(security_events.time, "time", lambda: 1_800_000_000.0)


def lines(action: AuditAction) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action=action).order_by("id"))


def test_a_refused_sign_in_is_a_line_with_address_and_request(olga):
    Client().post("/sign-in/", WRONG, headers={"X-Request-Id": "r-1"}, REMOTE_ADDR="192.0.2.7")
    (line,) = lines(AuditAction.SIGN_IN_REFUSED)
    assert (line.noun, line.noun_id, line.actor) == ("user", "olga", "anonymous")
    assert (line.address, line.request_id, line.occurrences) == ("192.0.2.7", "r-1", 1)
    assert "secret" not in json.dumps([line.before, line.after])


def test_a_name_that_is_no_account_is_not_written_down(olga):
    Client().post("/sign-in/", {"username": "hunter2", "password": "olga"})
    (line,) = lines(AuditAction.SIGN_IN_REFUSED)
    assert line.noun_id == ""


def test_an_attacker_gets_one_line_a_minute_and_kind(olga):
    for number in range(40):
        Client().post("/sign-in/", WRONG | {"username": f"stranger-{number}"})
    (refused,) = lines(AuditAction.SIGN_IN_REFUSED)
    (limited,) = lines(AuditAction.THROTTLED)
    # Written at 1, 2, 4, 8, …: 30 were refused, 10 more did not get that far.
    assert (refused.occurrences, limited.occurrences) == (16, 8)
    assert refused.address == limited.address == "127.0.0.1"


def test_what_was_not_written_in_its_minute_is_written_in_the_next(monkeypatch):
    for _ in range(7):
        security_event_record(AuditAction.TOKEN_REFUSED, noun="token")
    assert lines(AuditAction.TOKEN_REFUSED)[0].occurrences == 4
    monkeypatch.setattr(security_events.time, "time", lambda: 1_800_000_061.0)
    security_event_record(AuditAction.TOKEN_REFUSED, noun="token")
    assert [line.occurrences for line in lines(AuditAction.TOKEN_REFUSED)] == [7, 1]


def test_many_addresses_share_a_line_beyond_a_number():
    for number in range(MAX_ADDRESSES + 50):
        set_client_address(f"198.51.{number // 250}.{number % 250}")
        security_event_record(AuditAction.TOKEN_REFUSED, noun="token")
    set_client_address("")
    found = lines(AuditAction.TOKEN_REFUSED)
    assert len(found) == MAX_ADDRESSES + 1
    assert (found[-1].address, found[-1].occurrences) == ("*", 32)


def test_two_processes_write_one_line():
    security_event_record(AuditAction.TOKEN_REFUSED, noun="token")
    forget_refusals()
    security_event_record(AuditAction.TOKEN_REFUSED, noun="token")
    assert [line.occurrences for line in lines(AuditAction.TOKEN_REFUSED)] == [2]


def test_a_refusal_stands_also_where_it_cannot_be_written(olga, monkeypatch):
    def broken(*_):
        raise DatabaseError("away")

    monkeypatch.setattr(security_events, "_write", broken)
    answer = Client().post("/sign-in/", WRONG)
    assert answer.status_code == 200
    assert "Incorrect user name or password" in answer.content.decode()


def test_a_refused_token_and_limited_calls_over_rest(olga, settings):
    stranger = APIClient()
    stranger.credentials(HTTP_AUTHORIZATION="Bearer tsr_" + "x" * 60)
    for _ in range(4):
        assert stranger.get("/api/v1/me").status_code == 401
    (line,) = lines(AuditAction.TOKEN_REFUSED)
    assert (line.noun, line.occurrences, line.after) == ("token", 4, {})


def test_a_refused_second_step(olga):
    totp.TOTP.activate(olga, totp.generate_totp_secret())
    RecoveryCodes.activate(olga)
    client = Client()
    client.post("/sign-in/", {"username": "olga", "password": "pw"})
    client.post("/sign-in/second-step/", {"code": "000000"})
    assert [line.noun for line in lines(AuditAction.SECOND_STEP_REFUSED)] == ["user"]


@pytest.mark.parametrize(
    ("path", "body", "action"),
    [
        (
            ENROL_PATH,
            {"join_token": "x", "node": "gpu01", "public_key": "A" * 43 + "=", "machine_id": "m"},
            AuditAction.ENROLMENT_REFUSED,
        ),
        (
            HELLO_PATH,
            {
                "node_id": "11111111-1111-1111-1111-111111111111",
                "boot_id": "b",
                "time_ms": 1,
                "nonce": "n" * 22,
                "signature": "s",
            },
            AuditAction.HELLO_REFUSED,
        ),
    ],
)
def test_refused_nodes_are_lines_too(path, body, action):
    async def call() -> int:
        sent = []

        async def receive() -> dict:
            return {"type": "http.request", "body": json.dumps(body).encode()}

        async def send(message: dict) -> None:
            sent.append(message)

        headers = [(b"x-request-id", b"r-2"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
        await application(scope | {"client": ("192.0.2.9", 1), "query_string": b""}, receive, send)
        return sent[0]["status"]

    assert asyncio.run(call()) >= 400
    (line,) = lines(action)
    assert (line.noun, line.address, line.request_id) == ("node", "192.0.2.9", "r-2")
    assert line.after["reason"]


def test_every_privileged_change_names_its_address_and_the_console_shows_it(olga, team):
    root = a_user("root", is_superuser=True)
    admin = Client()
    admin.force_login(root)
    Client().post("/sign-in/", {"username": "olga", "password": "pw"}, REMOTE_ADDR="192.0.2.8")
    assert lines(AuditAction.SIGN_IN)[0].address == "192.0.2.8"
    assert lines(AuditAction.SIGN_IN)[0].request_id
    quota_set(project=team, limit_units=1, actor="root")
    assert lines(AuditAction.QUOTA_SET)[0].address == ""
    Client().post("/sign-in/", WRONG, REMOTE_ADDR="192.0.2.7")
    Client().post("/sign-in/", WRONG, REMOTE_ADDR="192.0.2.7")
    page = admin.get("/console/audit/?action=sign_in_refused").content.decode()
    assert "192.0.2.7" in page and "Sign-in refused × 2" in page
    table = b"".join(admin.get("/console/audit.csv?q=192.0.2.7")).decode().splitlines()
    assert table[0].endswith("address,request_id,occurrences")
    assert ",192.0.2.7," in table[1] and table[1].endswith(",2")
