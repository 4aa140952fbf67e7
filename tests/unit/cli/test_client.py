"""Calls of REST: what is tried again, what is not, and how refusals end."""

from __future__ import annotations

import httpx
import pytest

from portal.cli.client import Client, api_path
from portal.cli.config import PortalAccess
from portal.cli.exit_codes import CommandFailed, ExitCode
from tests.unit.cli.fake_rest import URL, Rest, problem


def a_client(rest: Rest) -> Client:
    transport = httpx.MockTransport(rest)
    return Client(PortalAccess(URL, "tsr_x"), transport=transport, pause=rest.pauses.append)


@pytest.mark.parametrize(
    ("status", "code", "exit"),
    [
        (400, "request_invalid", ExitCode.USAGE),
        (400, "impossible", ExitCode.FAILURE),
        (400, "quota_project", ExitCode.DENIED),
        (401, "not_authenticated", ExitCode.DENIED),
        (403, "forbidden", ExitCode.DENIED),
        (404, "not_found", ExitCode.NOT_FOUND),
        (409, "not_waiting", ExitCode.CONFLICT),
        (409, "pending_limit", ExitCode.DENIED),
        (412, "version_stale", ExitCode.CONFLICT),
        (422, "idempotency_mismatch", ExitCode.CONFLICT),
        (500, "error", ExitCode.FAILURE),
    ],
)
def test_a_refusal_ends_with_its_exit_code(status: int, code: str, exit: ExitCode):
    rest = Rest().on("GET", "jobs", problem(status, code))
    with pytest.raises(CommandFailed) as failed:
        a_client(rest).get("jobs")
    assert (failed.value.code, failed.value.exit_code) == (code, exit)


def test_a_busy_portal_is_asked_again_after_the_time_it_names():
    busy = httpx.Response(429, headers={"Retry-After": "7"})
    rest = Rest().on("GET", "jobs", busy, httpx.Response(503), {"results": []})
    assert a_client(rest).get("jobs") == {"results": []}
    assert rest.pauses[0] == 7 and len(rest.calls) == 3


def test_a_portal_cannot_make_us_wait_for_hours():
    busy = httpx.Response(429, headers={"Retry-After": "86400"})
    rest = Rest().on("GET", "jobs", busy, {})
    a_client(rest).get("jobs")
    assert rest.pauses == [30]


def test_a_lost_answer_to_a_post_with_a_key_is_asked_for_again_with_the_same_key():
    rest = Rest().on("POST", "jobs", httpx.ReadError("cut"), {"id": "J-1"})
    assert a_client(rest).post("jobs", {"a": 1}, key="k") == {"id": "J-1"}
    assert [call.headers["Idempotency-Key"] for call in rest.calls] == ["k", "k"]
    assert rest.calls[0].content == rest.calls[1].content


def test_a_post_whose_first_try_is_still_carried_out_waits_for_its_answer():
    busy = problem(409, "idempotency_running")
    busy.headers["Retry-After"] = "2"
    rest = Rest().on("POST", "jobs", httpx.ReadError("cut"), busy, {"id": "J-1"})
    assert a_client(rest).post("jobs", {"a": 1}, key="k") == {"id": "J-1"}
    assert rest.pauses[-1] == 2 and len(rest.calls) == 3


def test_a_conflict_that_names_no_time_is_not_tried_again():
    rest = Rest().on("POST", "jobs", problem(409, "pending_limit"))
    with pytest.raises(CommandFailed, match="pending_limit"):
        a_client(rest).post("jobs", {"a": 1}, key="k")
    assert len(rest.calls) == 1


def test_a_failure_of_the_portal_names_the_request_to_look_for():
    failed = problem(500, "server_error", "It failed", request_id="r-7")
    with pytest.raises(CommandFailed, match=r"It failed \(request r-7\)"):
        a_client(Rest().on("GET", "jobs", failed)).get("jobs")


def test_a_post_without_a_key_is_sent_once():
    rest = Rest().on("POST", "jobs/J-1/replace", httpx.ReadError("cut"), {"id": "J-2"})
    with pytest.raises(CommandFailed, match="unreachable"):
        a_client(rest).post("jobs/J-1/replace", {})
    assert len(rest.calls) == 1


def test_tries_end():
    rest = Rest().on("GET", "jobs", httpx.ConnectTimeout("slow"))
    with pytest.raises(CommandFailed, match="timeout") as failed:
        a_client(rest).get("jobs")
    assert failed.value.exit_code is ExitCode.TIMEOUT and len(rest.calls) == 4


@pytest.mark.parametrize("status", [200, 404, 502])
def test_what_is_no_portal_is_told(status: int):
    page = httpx.Response(status, text="<html>hello", headers={"Content-Type": "text/html"})
    rest = Rest().on("GET", "jobs", page)
    with pytest.raises(CommandFailed, match="not_a_portal"):
        a_client(rest).get("jobs")


def test_a_redirect_does_not_take_the_token_elsewhere():
    away = httpx.Response(302, headers={"Location": "https://evil.example.org/"})
    rest = Rest().on("GET", "jobs", away)
    with pytest.raises(CommandFailed, match="not_a_portal"):
        a_client(rest).get("jobs")
    assert len(rest.calls) == 1


def test_pages_are_followed_by_their_cursor_alone():
    first = {"results": [{"n": 1}], "next": "https://evil.example.org/x?cursor=abc&page_size=9"}
    rest = Rest().on("GET", "jobs", first, {"results": [{"n": 2}], "next": None})
    assert a_client(rest).rows("jobs", page_size=1) == [{"n": 1}, {"n": 2}]
    assert str(rest.calls[1].url) == f"{URL}/api/v1/jobs?page_size=1&cursor=abc"


def test_names_cannot_leave_their_place_in_the_address():
    assert api_path("jobs", "../tokens", "logs") == "jobs/..%2Ftokens/logs"
    assert api_path("jobs", "J-1?x#y") == "jobs/J-1%3Fx%23y"
    for name in ("", ".", ".."):
        with pytest.raises(CommandFailed):
            api_path("jobs", name)


@pytest.mark.parametrize("token", ["a\nb", "日本"])
def test_a_token_with_odd_characters_is_refused(token: str):
    with pytest.raises(CommandFailed, match="token_invalid"):
        client = Client(PortalAccess(URL, token), transport=httpx.MockTransport(Rest()))
        client.get("jobs")
