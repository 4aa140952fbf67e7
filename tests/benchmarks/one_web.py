"""One web process on a database of its own, for benchmarks that call it as nodes do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.environment.programs import Program, free_port

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 180


def web_environ(database_url: str, var: str) -> dict[str, str]:
    return os.environ | {
        "DJANGO_SETTINGS_MODULE": "portal.settings.test",
        "TESSERA_DATABASE_URL": database_url,
        "TESSERA_VAR": var,
        "PYTHONPATH": str(ROOT),
    }


def printed_words(environ: dict[str, str], code: str) -> list[str]:
    """What a few lines of Python print that use the portal's models."""
    command = [sys.executable, "manage.py", "shell", "-v", "0", "-c", code]
    return subprocess.check_output(command, cwd=ROOT, env=environ, text=True).split()


@contextmanager
def running_web(
    application: str, environ: dict[str, str], *options: str
) -> Iterator[tuple[str, int]]:
    """Its URL and process id. `application`: the portal's, with an address more."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "uvicorn", application, "--host", "127.0.0.1"]
    command += ["--port", url.rpartition(":")[2], "--no-proxy-headers", "--log-level", "warning"]
    log = Path(environ["TESSERA_VAR"]) / "web.log"
    program = Program([*command, *options], log=log, environ=environ)

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    try:
        program.wait_ready(answers, seconds=READY_SECONDS)
        yield url, program.process.pid
    finally:
        program.kill()
