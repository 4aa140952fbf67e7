"""The app of a real job, from Open on its page to the program in it, through a real tunnel."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from urllib.parse import urlsplit

import httpx
import pytest

from tests.environment.programs import free_port
from tests.services.stack import Stack, until

pytestmark = [pytest.mark.services, pytest.mark.slow]


@pytest.fixture(scope="module")
def stack(tmp_path_factory, redis_server):
    var = tmp_path_factory.mktemp("apps")
    running = Stack(var=var, redis_url=redis_server.url(10), nodes=("node-a",))
    running.extra_env = {"TESSERA_APPS_DOMAIN": "localhost"}
    with running:
        yield running


@contextmanager
def signed_in(stack: Stack) -> Iterator[httpx.Client]:
    options = {"trust_env": False, "timeout": 60, "follow_redirects": True}
    with httpx.Client(base_url=stack.url, **options) as client:
        client.get("/sign-in/")
        form = {"username": "alice", "password": stack.seeded["password"]}
        done = client.post("/sign-in/", data=form, headers=csrf(client))
        assert done.url.path == "/", done.text
        yield client


def csrf(client: httpx.Client) -> dict[str, str]:
    return {"X-CSRFToken": client.cookies["csrftoken"], "Referer": str(client.base_url)}


def test_a_job_is_opened_from_its_page_until_the_browser_signs_out(stack):
    port = free_port()
    serving = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    job = stack.submit(serving, apps=[f"web:{port}"])
    stack.until_status(job, "running")
    with signed_in(stack) as browser:
        check_app(stack, job, browser)
    stack.call("POST", f"/jobs/{job}/cancel")


def check_app(stack: Stack, job: str, browser: httpx.Client) -> None:
    opening = f"/jobs/{job}/apps/web/open"
    assert opening in browser.get(f"/jobs/{job}/").text
    page = browser.post(opening, headers=csrf(browser)).text
    address = urlsplit(unescape(re.search(r'action="(http[^"]+)" data-open-app', page)[1]))
    ticket = re.search(r'name="ticket" value="([^"]+)"', page)[1]
    assert address.netloc == f"web--j{job.removeprefix('J-')}.localhost:{stack.port}"

    host = {"Host": address.netloc}
    handed = {"data": {"ticket": ticket}, "headers": host | {"Origin": stack.url}}
    entered = stack.http.post(f"{stack.url}{address.path}", **handed)
    assert entered.status_code == 303
    visitor = host | {"Cookie": entered.headers["set-cookie"].partition(";")[0]}

    def answer() -> httpx.Response | None:
        found = stack.http.get(f"{stack.url}/", headers=visitor | {"Accept": "text/html"})
        return found if found.status_code == 200 else None

    listing = until(answer, what="the program in the job")
    assert "SimpleHTTP" in listing.headers["server"]
    # Neither the app's host serves the portal, nor the other way round.
    assert stack.http.get(f"{stack.url}/api/v1/jobs", headers=visitor).status_code == 404
    stranger = httpx.get(f"{stack.url}/healthz", headers=host, trust_env=False, timeout=60)
    assert stranger.status_code == 401

    assert browser.post("/sign-out/", headers=csrf(browser)).is_success
    gone = until(lambda: answer() is None or None, seconds=5, what="the visit to end")
    assert gone
    assert stack.http.get(f"{stack.url}/", headers=visitor).status_code == 401
