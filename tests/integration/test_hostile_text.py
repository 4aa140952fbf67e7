"""Whatever is written into any field of any page: it is refused, or it stands there as harmless
text. The forms are read from the pages themselves, so a new one is asked as well."""

from __future__ import annotations

import re
import time
from urllib.parse import urljoin, urlsplit

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import resolve

from portal.accounts.models import Membership, Project, Role
from tests.support.markup import Form, Markup
from tests.support.pages import PAGES, address
from tests.support.rights import World, a_world
from tests.support.rows import a_job

pytestmark = pytest.mark.django_db
HOSTILE = {
    "controls": "a\x00b\x1b[31mc\x07\x9bd",
    "turned around": "a\u202egnp.exe\u2066b",
    "markup": "\"'><b id=hostile>x</b>",
    "endless": "x" * 10_000,
}
MARKUP = re.compile(r"<b id=.?hostile", re.IGNORECASE)
# In what is read; a field and a piece of code keep what was typed, and turn nothing around them.
HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|x{2000}"
)
# Forms that every page has, and those that would end what the next one needs.
ELSEWHERE = {"web:language", "web:sign_out", "web:sign_in", "account_login", "api:docs"}


@pytest.fixture
def world() -> World:
    cache.clear()
    world = a_world()
    root = world.people["platform_admin"]
    Membership.objects.create(project=world.project, user=root, role=Role.ADMIN)
    Project.objects.filter(pk=world.project.pk).update(approval_units=0)
    world.project.refresh_from_db()
    world.names["asked"] = a_job(root, world.project).label
    return world


def signed_in(world: World) -> Client:
    client = world.client("platform_admin")
    session = client.session
    session["account_authentication_methods"] = [{"method": "password", "at": time.time()}]
    session.save()
    return client


def forms(client: Client, world: World) -> dict[tuple[str, str, str], tuple[str, Form]]:
    """Every field for words, with its page and form: by where the form goes, how, and its name."""
    found = {}
    for name in PAGES:
        path = address(name, world.names)
        answer = client.get(path)
        if name in ELSEWHERE or answer.status_code != 200:
            continue
        for form in Markup(answer.content.decode()).forms:
            target = resolve(urlsplit(urljoin(path, form.action)).path).view_name
            if target not in ELSEWHERE:
                for field in form.written:
                    found.setdefault((target, form.method, field), (path, form))
    return found


def send(client: Client, path: str, form: Form, field: str, value: str) -> tuple[int, str]:
    """Press the first button of the form with this in the field."""
    body = form.fields | dict(form.buttons[:1]) | {field: value}
    where = urljoin(path, form.action)
    call = client.post if form.method == "post" else client.get
    answer = call(where, body, follow=True)
    text = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return answer.status_code, text.decode()


@pytest.mark.slow
def test_no_field_of_any_page_lets_words_do_harm(world):
    client = signed_in(world)
    fields = forms(client, world)
    assert len(fields) > 30, sorted(fields)
    found = []
    for (target, method, field), (path, form) in fields.items():
        for kind, value in HOSTILE.items():
            where = f"{kind} in {field} of {method} {target}"
            status, text = send(client, path, form, field, value)
            if status >= 500:
                found.append(f"{where}: answers {status}")
            if MARKUP.search(text):
                found.append(f"{where}: it is markup")
            if said := HARMFUL.search(Markup(text).text):
                found.append(f"{where}: {said[0][:4]!r} stands in the page")
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_what_people_are_called_does_no_harm_either(world):
    """Rows that came from elsewhere: a directory, an older version."""
    for value in (HOSTILE["markup"], HOSTILE["turned around"]):
        type(world.job).objects.update(name=value[:60])
        Project.objects.update(name=value[:60])
        world.node.__class__.objects.update(cordon_reason=value[:60], schedulable=False)
        client = signed_in(world)
        for name in PAGES:
            answer = client.get(address(name, world.names))
            assert answer.status_code in (200, 302, 404), name
            if not answer.streaming:
                assert not MARKUP.search(answer.content.decode()), name
