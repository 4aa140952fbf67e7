"""Each request has one name: in its answer, its problem, its page of failure and the log."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.test import AsyncClient, Client

from agents.contract.log_lines import line_formatter
from portal import health
from portal.api.nodes import views as node_views
from portal.log_context import LogContextFilter
from portal.request_id import PLAIN
from tests.support.rows import a_user

pytestmark = pytest.mark.django_db
LOST = "/api/v1/nothing"


@pytest.fixture
def client() -> Client:
    cache.clear()
    client = Client(raise_request_exception=False)
    client.force_login(a_user("olga"))
    return client


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the log of an installation says."""
    lines, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(lines)
    handler.addFilter(LogContextFilter())
    handler.setFormatter(line_formatter("text", lines))
    root.addHandler(handler)
    yield lines
    root.removeHandler(handler)


def fails(*args: object, **kwargs: object) -> None:
    raise RuntimeError("nobody foresaw this")


@pytest.mark.parametrize("address", ["/", "/sign-in/", "/jobs/J-99/", "/api/v1/jobs", "/healthz"])
def test_every_answer_has_a_name_of_its_own(client, address):
    names = [client.get(address)["X-Request-Id"] for _ in range(2)]
    assert len(set(names)) == 2 and all(PLAIN.fullmatch(name) for name in names)


def test_a_problem_has_the_name_of_its_answer(client, log):
    answer = client.get(LOST)
    assert answer.json()["request_id"] == answer["X-Request-Id"]
    assert f"[{answer['X-Request-Id']}] Not Found: {LOST}" in log.getvalue()


@pytest.mark.parametrize("name", ["a", "Web-7.b_4", "x" * 64])
def test_a_plain_name_from_outside_is_kept(client, name):
    answer = client.get(LOST, headers={"X-Request-Id": name})
    assert (answer["X-Request-Id"], answer.json()["request_id"]) == (name, name)


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "<b>", "a\tb", "a;b", "é", "a\x1b[31m"])
def test_any_other_name_from_outside_is_replaced(client, name):
    found = client.get(LOST, headers={"X-Request-Id": name})["X-Request-Id"]
    assert found != name and PLAIN.fullmatch(found)


def test_a_failure_of_a_page_shows_the_name_that_the_log_has(client, log, monkeypatch):
    monkeypatch.setattr(health, "HttpResponse", fails)
    answer = client.get("/healthz")
    name = answer["X-Request-Id"]
    assert answer.status_code == 500
    assert f"<code>{name}</code>" in answer.content.decode()
    assert f"[{name}] Internal Server Error: /healthz" in log.getvalue()
    assert "nobody foresaw this" in log.getvalue()
    assert "nobody foresaw this" not in answer.content.decode()


def test_a_failure_of_rest_is_a_problem_with_the_name(client, monkeypatch):
    monkeypatch.setattr(node_views, "nodes", fails)
    answer = client.get("/api/v1/nodes")
    problem = answer.json()
    assert (answer.status_code, answer["Content-Type"]) == (500, "application/problem+json")
    assert (problem["code"], problem["request_id"]) == ("server_error", answer["X-Request-Id"])
    assert "nobody foresaw this" not in answer.content.decode()


def test_requests_that_are_answered_at_once_keep_their_own_names():
    async def request_ids() -> list[tuple[str, str]]:
        client = AsyncClient()
        answers = await asyncio.gather(*(client.get(LOST) for _ in range(4)))
        return [(answer["X-Request-Id"], answer.json()["request_id"]) for answer in answers]

    told = asyncio.run(request_ids())
    assert len(set(told)) == 4 and all(header == body for header, body in told)


def test_what_is_logged_outside_of_a_request_has_no_name(log):
    logging.getLogger("portal.test").warning("the worker says so")
    assert "[-] the worker says so" in log.getvalue()
