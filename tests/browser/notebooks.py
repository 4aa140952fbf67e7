"""Notebooks in Chromium: a stack whose project has a volume of homes and whose agent finds the
program of a notebook, and what holds for every app on an origin of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

from tests.services.stack import Stack

# What a script of a page would try: the reader's own session at the portal.
CALL = """async (url) => {
  try { const answer = await fetch(url, {credentials: 'include'}); return await answer.text() }
  catch (error) { return String(error) }
}"""


@contextmanager
def notebook_stack(var: Path, program: Path) -> Iterator[Stack]:
    """`program`: in whose folder the agent finds the programs of notebooks."""
    # Below `var`: what works there ends with the stack.
    homes = var / "homes"
    homes.mkdir(mode=0o755)
    running = Stack(var=var, nodes=("node-a",), policy=f'[volumes]\nscratch = "{homes}"\n')
    path = f"{program.parent}:{os.environ['PATH']}"
    running.extra_env = {"TESSERA_APPS_DOMAIN": "localhost", "PATH": path}
    with running:
        running.manage_program("tests.services.add_homes", "scratch")
        running.seeded["homes"] = str(homes)
        yield running


def check_origin(stack: Stack, page: Page) -> None:
    """A script of the page gets nothing of the portal, with the reader's cookies neither."""
    assert page.evaluate("location.origin") != stack.url
    said = page.evaluate(CALL, f"{stack.url}/api/v1/me")
    assert "Failed to fetch" in said and "nora" not in said
    assert "nora" not in page.evaluate(CALL, "/api/v1/me")
