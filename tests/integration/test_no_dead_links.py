"""Every link of every page leads somewhere: for a member, a project's admin and the platform's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import resolve

from portal.demo.scale import ClusterSize
from tests.support.markup import Markup
from tests.support.pages import EXCUSED, FILE, PAGES, address
from tests.support.scale_rows import client_of, known, seeded

pytestmark = pytest.mark.django_db(transaction=True)
SIZE = ClusterSize(jobs=120, nodes=8, users=12, projects=3)
# Files that are sent in pieces: test_page_rights asks for them.
SENT = {name for name, why in EXCUSED.items() if why == FILE}
# Of links that differ only in their values, so many are followed.
ALIKE = 2
SCHEMES = ("http", "https", "mailto")


def shape(address: str) -> tuple[str, ...]:
    """Which page an address is of, and what it says about it: not which row."""
    parts = urlsplit(address)
    return resolve(parts.path).view_name, *sorted(name for name, _ in parse_qsl(parts.query))


def wrong(client: Client, page: str, text: str, seen: dict[tuple[str, ...], int]) -> Iterator[str]:
    """What of a page's links leads nowhere. `seen`: how many of a shape were followed already."""
    here = Markup(text)
    for link in dict.fromkeys(here.links):
        there, _, place = urljoin(page, link).partition("#")
        parts = urlsplit(there)
        if parts.scheme or parts.netloc:
            if parts.scheme not in SCHEMES:
                yield f"{page}: {link}"
        elif link.startswith("#"):
            if place not in here.names:
                yield f"{page}: nothing is called {link}"
        elif parts.path.startswith("/static/"):
            if not finders.find(parts.path.removeprefix("/static/")):
                yield f"{page}: no file {link}"
        else:
            yield from _followed(client, page, there, place, seen)


def _followed(
    client: Client, page: str, there: str, place: str, seen: dict[tuple[str, ...], int]
) -> Iterator[str]:
    try:
        kind = shape(there)
    except Exception as unknown:
        yield f"{page}: {there}: {unknown!r}"
        return
    seen[kind] = seen.get(kind, 0) + 1
    if kind[0] in SENT or seen[kind] > ALIKE:
        return
    answer = client.get(there, follow=True)
    if answer.status_code != 200:
        yield f"{page}: {there} answers {answer.status_code}"
    elif place and not answer.streaming and place not in Markup(answer.content.decode()).names:
        yield f"{page}: nothing is called {place} on {there}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("readers", "least"),
    [(("admin",), 0.9), pytest.param(("alice", "paul"), 0.5, marks=pytest.mark.soak)],
)
def test_no_link_of_any_page_is_dead_for_whoever_sees_it(readers, least):
    """An admin opens all of them, members those that are not of the console."""
    seeded(SIZE)
    words = known()
    found, opened = [], 0
    for who in readers:
        client, seen = client_of(who), {}
        for name in PAGES:
            path = address(name, words)
            answer = client.get(path, follow=True)
            if answer.status_code == 404:
                continue
            assert answer.status_code == 200, (who, path, answer.status_code)
            opened += 1
            text = answer.content.decode()
            found += [f"{who}: {said}" for said in wrong(client, path, text, seen)]
    assert not found, "\n".join(found)
    assert opened > least * len(PAGES)


def test_a_dead_link_is_found():
    seeded(ClusterSize(jobs=20, nodes=2, users=4, projects=1))
    text = unescape(
        '<a href="/nowhere/">a</a><a href="#gone">b</a><a href="/jobs/J-999999/">c</a>'
        '<a href="javascript:x">d</a><img src="/static/no.png"><a href="/queue/#no">e</a>'
        '<form method="get" action="/no-form/"></form><a href="/jobs/" id="here">f</a>'
        '<a href="#here">g</a>'
    )
    said = list(wrong(client_of("alice"), "/", text, {}))
    assert len(said) == 7, said
    assert not [one for one in said if re.search(r"#here|/jobs/( |$)", one)]
