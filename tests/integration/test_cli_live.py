"""`python -m portal.cli` as a process of its own, over HTTP, against a live server."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.cache import cache

from portal.accounts.models import TokenScope
from portal.accounts.services import token_create
from portal.jobs.models import Job
from tests.support.rows import a_node, a_project, a_user

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.django_db(transaction=True)
def test_a_script_signs_in_submits_lists_and_cancels(live_server, tmp_path: Path):
    cache.clear()
    olga = a_user("olga")
    a_node("n1")
    a_project("vision", olga)
    _, token = token_create(user=olga, name="ci", scope=TokenScope.WRITE, ttl=timedelta(days=1))
    env = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
    env |= {"TESSERA_CONFIG": str(tmp_path / "config.yaml"), "NO_PROXY": "*"}

    def tessera(*words: str, input: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "portal.cli", *words]
        return subprocess.run(
            command, cwd=ROOT, env=env, input=input, capture_output=True, text=True, check=False
        )

    signed = tessera("login", live_server.url, "--token-stdin", input=f"{token}\n")
    assert signed.returncode == 0, signed.stderr
    words = ("--image", "tessera-example:latest", "--mig", "2g.35gb", "--", "true")
    made = tessera("submit", *words)
    assert (made.returncode, made.stdout) == (0, f"{Job.objects.get().label}\n"), made.stderr
    assert tessera("ps", "-o", "name").stdout == made.stdout
    assert tessera("cancel", made.stdout.strip()).returncode == 0
    assert tessera("show", "J-99999").returncode == 3
