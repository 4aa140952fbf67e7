"""The web process on a seeded cluster of its own, for whoever looks at every page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.environment.django_sqlite import copy_migrated
from tests.environment.programs import Program, free_port

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PASSWORD = "a long password of nobody"
# Run in a process of its own, so that this one needs no Django.
SEED = """
import json, sys, django
django.setup()
from django.utils import timezone
from portal.demo.scale import ClusterSize
from tests.support.scale_rows import known, seeded
jobs, nodes, users, projects = map(int, sys.argv[2:])
seeded(ClusterSize(jobs, nodes, users, projects), now=timezone.now(), password=sys.argv[1])
from tests.support.pages import PAGES, address
from tests.browser.shown_rows import shown
words = known()
pages = {name: [page.as_user, address(name, words)] for name, page in PAGES.items()}
print(json.dumps(pages | shown(words)))
"""


# Pages that show others than their first reader something else: a project's admin, the platform's.
COMMON = ("web:home", "web:request", "web:jobs", "web:job", "web:queue", "web:cluster", "web:usage")
LED = ("web:approvals", "web:projects", "web:project", "web:templates")
ALSO = {
    "paul": (*COMMON, *LED),
    "admin": (*COMMON, "web:cluster_node", "web:job_events", "web:cancel"),
}


@dataclass
class Web:
    """`pages`: who looks and at which address, by the page's name."""

    url: str
    pages: dict[str, tuple[str, str]]

    def readers(self) -> list[str]:
        """Who looks at a page first."""
        return sorted({reader for reader, _ in self.pages.values()})

    def seen_by(self, who: str) -> dict[str, str]:
        """The addresses that somebody looks at, by the page's name."""
        return {
            name: address
            for name, (reader, address) in self.pages.items()
            if reader == who or name in ALSO.get(who, ())
        }


@contextmanager
def seeded_web(var: Path, *, jobs: int, nodes: int, users: int, projects: int) -> Iterator[Web]:
    environ = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.services.settings",
        "TESSERA_VAR": str(var),
        "TESSERA_SECRET_KEY": "of a test",
        "PYTHONPATH": str(REPOSITORY),
    }
    environ.pop("TESSERA_DATABASE_URL", None)
    (var / "static").mkdir(parents=True, exist_ok=True)
    copy_migrated(var / "tessera.sqlite3")
    sizes = [str(number) for number in (jobs, nodes, users, projects)]
    told = subprocess.run(
        [sys.executable, "-c", SEED, PASSWORD, *sizes],
        check=True,
        stdout=subprocess.PIPE,
        env=environ,
        cwd=REPOSITORY,
    )
    pages = {name: tuple(page) for name, page in json.loads(told.stdout.splitlines()[-1]).items()}
    port = free_port()
    serve = (
        *("-m", "uvicorn", "portal.asgi:application", "--no-proxy-headers"),
        *("--host", "127.0.0.1", "--port", str(port)),
    )
    program = Program(
        [sys.executable, *serve, "--log-level", "warning", "--timeout-graceful-shutdown", "1"],
        log=var / "web.log",
        environ=environ,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        program.wait_ready(lambda: _answers(url))
        yield Web(url, pages)
    finally:
        program.stop()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=30):
            return True
    except OSError:
        time.sleep(0.1)
        return False


WIDE = {"width": 1280, "height": 900}


def signed_in(browser: Browser, web: Web, who: str, **options) -> Page:
    """A page of a fresh browser; `who` empty: of nobody."""
    page = browser.new_context(bypass_csp=True, **options).new_page()
    page.set_default_timeout(300_000)
    if who:
        page.goto(f"{web.url}/sign-in/")
        page.locator("input[type=password]").fill(PASSWORD)
        page.locator("input[name=login], input[name=username]").first.fill(who)
        page.locator("input[type=password]").press("Enter")
        page.wait_for_url(f"{web.url}/")
    return page
