"""Chats through a real HTTP server: their own formats, no markup of users, an address that stays
secret, and one message for a burst."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.core.cache import cache
from django.test import Client, override_settings
from django.utils import timezone
from rest_framework.test import APIClient

from portal.accounts.models import Membership, Role
from portal.audit.models import AuditEntry
from portal.platform import Platform
from portal.webhooks.chat import MAX_TEXT, ChatFormat, ChatLine, chat_body
from portal.webhooks.delivery import webhooks_deliver
from portal.webhooks.models import Delivery, Endpoint
from scheduler.core.model.states import JobStatus
from tests.support.noticed import URL, end, start, tell
from tests.support.rows import a_job, a_node, a_project, a_user
from tests.support.sinks import JsonSink

pytestmark = pytest.mark.django_db
CHATS = [chat for chat in ChatFormat if chat is not ChatFormat.SIGNED]


@pytest.fixture
def chat() -> Iterator[JsonSink]:
    platform = Platform(var=settings.PLATFORM.var, webhook_networks="127.0.0.0/8")
    with JsonSink() as found, override_settings(PLATFORM=platform):
        yield found


@pytest.fixture
def paul():
    cache.clear()
    a_node("n1")
    return a_user("paul")


@pytest.fixture
def vision(paul):
    found = a_project("vision", paul, role=Role.ADMIN)
    tell()
    return found


def add(user, chat: JsonSink, **more) -> Endpoint:
    client = APIClient()
    client.force_login(user)
    body = {"name": "team", "url": chat.url, "format": "slack", "project": "vision"} | more
    answer = client.post("/api/v1/webhooks", body, format="json")
    assert answer.status_code == 201, answer.content
    assert answer.json()["secret"] == ""
    return Endpoint.objects.get(uid=answer.json()["id"])


def chat_round() -> None:
    """What has happened reaches the chats."""
    tell()
    webhooks_deliver()


def test_a_failure_of_a_member_is_told_in_slacks_form_with_a_link(paul, vision, chat):
    add(paul, chat)
    olga = a_user("olga")
    Membership.objects.create(project=vision, user=olga, role=Role.MEMBER)
    job = a_job(olga, vision, name="train")
    end(job, JobStatus.FAILED)
    chat_round()
    assert chat.bodies == [{"text": f"<{URL}/jobs/{job.label}/|{job.label} train failed>"}]
    assert "Tessera-Signature" not in chat.headers[0]


def test_a_burst_is_one_message_with_a_headline(paul, vision, chat):
    add(paul, chat)
    for _ in range(14):
        end(a_job(paul, vision), JobStatus.FAILED)
    chat_round()
    (body,) = chat.bodies
    lines = body["text"].splitlines()
    assert lines[0] == "14 jobs failed" and lines[-1] == "and 2 more" and len(lines) == 14


def test_a_chat_is_quiet_unless_it_asks_for_more(paul, vision, chat):
    add(paul, chat)
    done = a_job(paul, vision)
    end(done, JobStatus.SUCCEEDED)
    start(a_job(paul, vision, name="late", time_limit="4h"), left=timedelta(minutes=5))
    chat_round()
    (body,) = chat.bodies
    assert "late reaches its time limit at" in body["text"] and done.label not in body["text"]

    add(paul, chat, name="all", kinds=["succeeded"])
    end(a_job(paul, vision, name="fine"), JobStatus.SUCCEEDED)
    chat_round()
    assert "fine succeeded" in chat.bodies[1]["text"]


def test_a_job_names_a_chat_in_its_request(paul, vision, chat):
    add(paul, chat)
    end(a_job(paul, vision, name="asks", notify=["webhook:team"]), JobStatus.SUCCEEDED)
    chat_round()
    assert "asks succeeded" in chat.bodies[0]["text"]


@pytest.mark.parametrize("status", [302, 404, 429, 500])
def test_a_chat_that_does_not_take_a_message_gets_the_same_again(paul, vision, chat, status):
    """Redirects are not followed; a chat that asks for a pause gets it by the growing delays."""
    row = add(paul, chat)
    end(a_job(paul, vision), JobStatus.FAILED)
    chat.answers.append(status)
    chat_round()
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.answer) == ("waiting", status)
    assert delivery.next_at > timezone.now()
    client = Client()
    client.force_login(paul)
    page = client.get(f"/account/webhooks/{row.uid}/").content.decode()
    assert f"It answered {status}" in page
    Delivery.objects.update(next_at=timezone.now())
    webhooks_deliver()
    assert len(chat.bodies) == 2 and chat.bodies[0] == chat.bodies[1]
    assert Delivery.objects.get().status == "delivered"


def test_the_address_of_a_chat_is_kept_secret(paul, vision, chat):
    row = add(paul, chat)
    client, api = Client(), APIClient()
    client.force_login(paul)
    api.force_login(paul)
    shown = [
        row.url,
        row.sealed_url,
        client.get("/account/webhooks/").content.decode(),
        client.get(f"/account/webhooks/{row.uid}/").content.decode(),
        api.get("/api/v1/webhooks").content.decode(),
        json.dumps(list(AuditEntry.objects.values_list("after", flat=True))),
    ]
    assert not [text for text in shown if "T1/B2" in text]


def test_a_person_adds_a_chat_on_the_page_and_sends_a_test(paul, vision, chat):
    client = Client()
    client.force_login(paul)
    values = {"name": "team", "url": chat.url, "project": "vision", "when": "ends"}
    answer = client.post("/account/webhooks/", values | {"format": "discord"})
    row = Endpoint.objects.get()
    assert answer["Location"] == f"/account/webhooks/{row.uid}/"
    client.post(f"/account/webhooks/{row.uid}/test")
    webhooks_deliver()
    (body,) = chat.bodies
    assert body["content"].startswith("This is a test message from Tessera")
    assert body["allowed_mentions"] == {"parse": []}
    assert client.post("/account/webhooks/", values | {"format": "irc"}).status_code == 400


def test_who_no_longer_runs_the_project_sends_nothing_to_the_chat(paul, vision, chat):
    add(paul, chat)
    Membership.objects.update(role=Role.MEMBER)
    end(a_job(paul, vision), JobStatus.FAILED)
    webhooks_deliver()
    chat_round()
    assert chat.bodies == [] and "no longer an admin" in Endpoint.objects.get().off_reason


def test_ones_own_chat_is_told_of_no_project_that_one_left(paul, vision, chat):
    add(paul, chat, project="")
    left = a_job(paul, vision)
    end(left, JobStatus.FAILED)
    Membership.objects.all().delete()
    chat_round()
    assert chat.bodies == []


def test_another_project_is_not_told(paul, vision, chat):
    add(paul, chat)
    end(a_job(paul, a_project("audio", paul)), JobStatus.FAILED)
    chat_round()
    assert chat.bodies == []


def test_a_chat_speaks_the_language_of_its_owner(paul, vision, chat):
    paul.language = "zh-hans"
    paul.save(update_fields=["language"])
    add(paul, chat)
    end(a_job(paul, vision, name="train"), JobStatus.FAILED)
    chat_round()
    assert "train 失败" in chat.bodies[0]["text"]


@pytest.mark.parametrize("chat_format", CHATS)
def test_nothing_of_a_user_is_markup_or_a_mention(chat_format):
    """Others than Slack take Slack's form, too, and know more mentions."""
    hostile = "<!channel> @all @everyone [x](http://evil) *b* `c` </b> a|b\nnew"
    body = chat_body(chat_format, [ChatLine(hostile, f"{URL}/jobs/J-1/"), ChatLine(hostile)])
    text = json.dumps(json.loads(body), ensure_ascii=False)
    markups = ["<!channel>", "@all", "@everyone"]
    if chat_format is not ChatFormat.SLACK:
        markups += ["[x](http", "*b*"]
    assert not [markup for markup in markups if markup in text]
    assert "evil" in text


@pytest.mark.parametrize("chat_format", CHATS)
def test_a_long_message_fits_and_counts_what_it_leaves_out(chat_format):
    body = chat_body(chat_format, [ChatLine("x" * 500) for _ in range(12)], hidden=5)
    assert 500 < len(body) < MAX_TEXT + 400
    assert "and 14 more" in body
