"""`python -m portal.cli` as a process of its own, over HTTP, against a live server."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.core.cache import cache

from portal.accounts.models import TokenScope
from portal.accounts.services import token_create
from portal.jobs.models import Job
from tests.support.cli_process import cli_process
from tests.support.rows import a_node, a_project, a_user


@pytest.mark.django_db(transaction=True)
def test_a_script_signs_in_submits_lists_and_cancels(live_server, tmp_path: Path):
    cache.clear()
    olga = a_user("olga")
    a_node("n1")
    a_project("vision", olga)
    _, token = token_create(user=olga, name="ci", scope=TokenScope.WRITE, ttl=timedelta(days=1))
    tessera = cli_process(tmp_path)
    signed = tessera("login", live_server.url, "--token-stdin", input=f"{token}\n")
    assert signed.returncode == 0, signed.stderr
    words = ("--image", "tessera-example:latest", "--mig", "2g.35gb", "--", "true")
    made = tessera("submit", *words)
    assert (made.returncode, made.stdout) == (0, f"{Job.objects.get().label}\n"), made.stderr
    assert tessera("ps", "-o", "name").stdout == made.stdout
    assert tessera("cancel", made.stdout.strip()).returncode == 0
    assert tessera("show", "J-99999").returncode == 3
