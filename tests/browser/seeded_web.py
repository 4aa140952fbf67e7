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

from tests.environment.programs import Program, free_port

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PASSWORD = "a long password of nobody"
# Run in a process of its own, so that this one needs no Django.
SEED = """
import json, sys, django
django.setup()
from django.core.management import call_command
from django.utils import timezone
call_command("migrate", verbosity=0)
from portal.demo.scale import Size
from tests.scale_rows import known, seeded
jobs, nodes, users, projects = map(int, sys.argv[2:])
seeded(Size(jobs, nodes, users, projects), now=timezone.now(), password=sys.argv[1])
from tests.pages import PAGES, address
words = known()
print(json.dumps({name: [page.as_user, address(name, words)] for name, page in PAGES.items()}))
"""


@dataclass
class Web:
    """`pages`: who looks and at which address, by the page's name."""

    url: str
    pages: dict[str, tuple[str, str]]


@contextmanager
def seeded_web(var: Path, *, jobs: int, nodes: int, users: int, projects: int) -> Iterator[Web]:
    environ = os.environ | {
        "DJANGO_SETTINGS_MODULE": "portal.settings.dev",
        "TESSERA_VAR": str(var),
        "TESSERA_SECRET_KEY": "of a test",
        "PYTHONPATH": str(REPOSITORY),
    }
    environ.pop("TESSERA_DATABASE_URL", None)
    (var / "static").mkdir(parents=True, exist_ok=True)
    sizes = [str(number) for number in (jobs, nodes, users, projects)]
    told = subprocess.run(
        [sys.executable, "-c", SEED, PASSWORD, *sizes],
        check=True,
        capture_output=True,
        env=environ,
        cwd=REPOSITORY,
    )
    pages = {name: tuple(page) for name, page in json.loads(told.stdout.splitlines()[-1]).items()}
    port = free_port()
    serve = ("-m", "uvicorn", "portal.asgi:application", "--host", "127.0.0.1", "--port", str(port))
    program = Program(
        [sys.executable, *serve, "--log-level", "warning", "--timeout-graceful-shutdown", "1"],
        log=var / "web.log",
        environ=environ,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        program.wait_ready(lambda: _answers(url), seconds=60)
        yield Web(url, pages)
    finally:
        program.stop()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=2):
            return True
    except OSError:
        time.sleep(0.1)
        return False
