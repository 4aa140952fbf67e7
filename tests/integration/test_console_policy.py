"""The planner's policy in the console: shown before it is saved, never over somebody else's, and
written down. And what the portal is started with, without its secrets."""

import re
from dataclasses import fields

import pytest
from django.test import Client

from portal.audit.models import AuditEntry
from portal.quotas.policy import current_policy, policy_set
from portal.quotas.policy_help import POLICY_GROUPS, POLICY_HELP, POLICY_LABELS
from portal.web.console.policy_fields import policy_groups
from scheduler.core.model.policy import BackfillMode, Policy
from tests.support.rows import a_user

pytestmark = pytest.mark.django_db
PAGE = "/console/policy/"


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(a_user("root", is_superuser=True, is_staff=True))
    return client


def typed(**changed: str) -> dict[str, str]:
    """The form as the page fills it in, with some inputs changed."""
    stored = {f.name: f.text for _title, group in policy_groups(current_policy()) for f in group}
    return {name: text for name, text in (stored | changed).items() if text}


def version(root: Client) -> str:
    found = re.search(r'name="version" value="(\d+)"', root.get(PAGE).content.decode())
    assert found
    return found[1]


def test_every_option_of_the_planner_is_on_the_page_once_with_help_and_default(root):
    names = [name for _title, group in POLICY_GROUPS for name in group]
    assert sorted(names) == sorted(field.name for field in fields(Policy))
    assert set(names) == set(POLICY_HELP) == set(POLICY_LABELS)
    page = root.get(PAGE).content.decode()
    for name in names:
        assert page.count(f'name="{name}"') == 1, name
        assert f'id="{name}-help"' in page
    assert page.count("Now and by default: ") == len(names)
    assert 'value="7d"' in page, "times are written as people write them"


def test_what_would_change_is_shown_and_nothing_is_saved_before_it_is_confirmed(root):
    body = typed(backfill="conservative", protection_seconds="1h", warm="on")
    answer = root.post(PAGE, body | {"version": version(root), "step": "preview"})
    page = answer.content.decode().replace("\xa0", " ")
    assert "3 options would change" in page
    assert "30 min</td>" in page
    assert "1 h</td>" in page
    assert "policy=backfill%3Dconservative" in page
    assert "policy=warm%3Dtrue" in page
    assert current_policy() == Policy()
    assert not AuditEntry.objects.exists()
    saved = root.post(PAGE, body | {"version": version(root), "step": "save"}, follow=True)
    assert "Saved. It counts from the next planning pass on" in saved.content.decode()
    now = current_policy()
    assert (now.backfill, now.protection_seconds, now.warm) == (BackfillMode.CONSERVATIVE, 3600, 1)
    line = AuditEntry.objects.get(action="policy_set")
    assert line.actor == "root"
    assert set(line.after) == {"backfill", "protection_seconds", "warm"}
    assert "<b>Now: conservative.</b> Default: easy." in saved.content.decode()


def test_a_policy_that_somebody_else_changed_meanwhile_is_not_overwritten_unseen(root):
    read = version(root)
    policy_set(actor="ada", moves=2)
    body = typed(moves="1") | {"version": read, "step": "save"}
    answer = root.post(PAGE, body)
    assert answer.status_code == 412
    assert "Somebody else changed the policy" in answer.content.decode()
    assert current_policy().moves == 2
    assert root.post(PAGE, body | {"version": version(root)}).status_code == 302
    assert current_policy().moves == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [("moves", "many"), ("moves", "9"), ("patience_seconds", "soon"), ("backfill", "magic")],
)
def test_what_cannot_be_read_is_said_at_its_field(root, name, text):
    body = typed(**{name: text}) | {"version": version(root), "step": "save"}
    answer = root.post(PAGE, body)
    assert answer.status_code == 400
    page = answer.content.decode()
    assert f'id="{name}-error"' in page
    assert current_policy() == Policy()


def test_nothing_is_saved_if_nothing_differs(root):
    answer = root.post(PAGE, typed() | {"version": version(root), "step": "save"})
    assert "Nothing would change" in answer.content.decode()
    assert not AuditEntry.objects.exists()


def test_what_the_portal_is_started_with_is_shown_without_its_secrets(root, monkeypatch):
    monkeypatch.setenv("TESSERA_SECRET_KEY", "not-for-anybody-" * 4)
    monkeypatch.setenv("TESSERA_JOIN_TOKEN_SECONDS", "600")
    page = root.get("/console/settings/").content.decode()
    assert "TESSERA_SECRET_KEY" in page
    assert "not-for-anybody" not in page
    only = root.get("/console/settings/?q=join+token&changed=1").content.decode()
    assert "TESSERA_JOIN_TOKEN_SECONDS" in only
    assert "TESSERA_LEASE_SECONDS" not in only


def test_a_version_of_any_length_is_no_error_of_the_portal(root):
    for number in ("9" * 5_000, "²", "-1", ""):
        assert root.post(PAGE, typed() | {"version": number}).status_code == 200
