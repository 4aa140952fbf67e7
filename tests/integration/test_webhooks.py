"""What happens to jobs is told to the addresses that people named: signed, again until it is taken,
and never to an inner address."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.conf import settings
from django.core.cache import cache
from django.test import override_settings
from django.utils import timezone
from rest_framework.test import APIClient

from portal.accounts.models import Membership, Role
from portal.platform import Platform
from portal.webhooks.delivery import webhooks_deliver
from portal.webhooks.models import Delivery, Endpoint
from portal.webhooks.values import RETRY_DELAYS, DeliveryStatus
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db
HOME = {"webhook_networks": "127.0.0.0/8"}


class Receiver:
    """A server that keeps what it is sent, and answers as it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.seen.append((self.path, dict(self.headers), body))
                status, headers = outer.answers.pop(0) if outer.answers else (200, {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver():
    found = Receiver()
    yield found
    found.close()


@pytest.fixture
def home():
    """The platform names the receiver's network."""
    with override_settings(PLATFORM=Platform(var=settings.PLATFORM.var, **HOME)):
        yield


@pytest.fixture
def olga():
    cache.clear()
    a_node("n1")
    return a_user("olga")


@pytest.fixture
def client(olga) -> APIClient:
    client = APIClient()
    client.force_login(olga)
    return client


def add(client: APIClient, url: str, **more):
    return client.post("/api/v1/webhooks", {"name": "ci", "url": url} | more, format="json")


def pass_time(**span: float) -> None:
    """Everything that waits is due so much earlier."""
    for row in Delivery.objects.exclude(next_at=None):
        row.next_at -= timedelta(**span)
        row.save()


def test_a_change_of_a_job_is_told_signed_and_once(client, olga, receiver, home):
    added = add(client, receiver.url, kinds=["queued"]).json()
    job = a_job(olga, a_project("vision", olga))
    webhooks_deliver()
    webhooks_deliver()
    ((path, headers, body),) = receiver.seen
    told = json.loads(body)
    assert (path, told["type"], told["job"]["id"]) == ("/hook", "job.queued", job.label)
    signed = headers["Tessera-Timestamp"].encode() + b"." + body
    digest = hmac.new(added["secret"].encode(), signed, hashlib.sha256).hexdigest()
    assert headers["Tessera-Signature"] == f"v1={digest}"
    assert headers["Tessera-Event-Id"] == str(told["id"])
    (row,) = Delivery.objects.all()
    assert (row.status, row.tries, row.answer) == (DeliveryStatus.DELIVERED, 1, 200)


def test_the_secret_is_shown_once_and_not_kept_readable(client, receiver, home):
    added = add(client, receiver.url).json()
    shown = client.get(f"/api/v1/webhooks/{added['id']}").json()
    assert added["secret"].startswith("whs_") and "secret" not in shown
    assert added["secret"] not in Endpoint.objects.get().sealed


def test_what_fails_is_tried_again_later_with_the_same_id_and_then_given_up(
    client, olga, receiver, home
):
    add(client, receiver.url, kinds=["queued"])
    a_job(olga, a_project("vision", olga))
    receiver.answers = [(500, {})] * (len(RETRY_DELAYS) + 1)
    for tries in range(1, len(RETRY_DELAYS) + 2):
        webhooks_deliver()
        row = Delivery.objects.get()
        assert (row.tries, row.answer, row.problem) == (tries, 500, "It answered 500")
        webhooks_deliver()
        assert len(receiver.seen) == tries, "tried again before its time"
        pass_time(hours=7)
    assert row.status == DeliveryStatus.FAILED and row.next_at is None
    assert len({headers["Tessera-Event-Id"] for _, headers, _ in receiver.seen}) == 1


def test_a_redirect_is_not_followed(client, olga, receiver, home):
    other = Receiver()
    try:
        add(client, receiver.url, kinds=["queued"])
        receiver.answers = [(307, {"Location": other.url})]
        a_job(olga, a_project("vision", olga))
        webhooks_deliver()
        assert other.seen == []
        assert Delivery.objects.get().problem == "It answered 307"
    finally:
        other.close()


def test_a_name_that_leads_inside_later_is_not_connected_to(client, olga, receiver, monkeypatch):
    port = receiver.server.server_port
    monkeypatch.setattr(
        "portal.webhooks.services.resolve_target", lambda *_: None
    )  # as if it was public when it was registered
    assert add(client, f"https://hooks.example.org:{port}/").status_code == 201
    a_job(olga, a_project("vision", olga))
    webhooks_deliver(look_up=lambda host, port: ["127.0.0.1"])
    assert receiver.seen == []
    assert "is not a public address" in Delivery.objects.first().problem


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254"])
def test_an_inner_address_is_refused_when_it_is_registered(client, url):
    answer = add(client, url)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, "address_forbidden")
    assert problem["errors"][0]["field"] == "url"
    assert not Endpoint.objects.exists()


def test_a_projects_webhook_is_its_admins_and_hears_of_all_its_jobs(client, olga, receiver, home):
    ott = a_user("ott")
    project = a_project("vision", olga, ott)
    a_project("speech", olga)
    assert add(client, receiver.url, project="vision").status_code == 403
    Membership.objects.filter(user=olga, project=project).update(role=Role.ADMIN)
    assert add(client, receiver.url, project="vision", kinds=["queued"]).status_code == 201
    job = a_job(ott, project)
    a_job(olga, Membership.objects.get(user=olga, project__slug="speech").project)
    webhooks_deliver()
    assert [json.loads(body)["job"]["id"] for *_, body in receiver.seen] == [job.label]


def test_who_no_longer_runs_the_project_hears_nothing_more(client, olga, receiver, home):
    project = a_project("vision", olga, role=Role.ADMIN)
    add(client, receiver.url, project="vision")
    Membership.objects.filter(user=olga).update(role=Role.MEMBER)
    a_job(olga, project)
    webhooks_deliver()
    assert receiver.seen == []
    assert Endpoint.objects.get().off_reason == "olga is no longer an admin of vision"


def test_one_hears_of_ones_own_jobs_only(client, olga, receiver, home):
    add(client, receiver.url)
    ott = a_user("ott")
    a_job(ott, a_project("vision", olga, ott))
    webhooks_deliver()
    assert receiver.seen == [] and not Delivery.objects.exists()


def test_a_test_message_is_sent_and_shown_in_the_log_and_can_be_sent_again(client, receiver, home):
    hook = add(client, receiver.url).json()["id"]
    asked = client.post(f"/api/v1/webhooks/{hook}/test")
    assert asked.status_code == 202
    webhooks_deliver()
    log = client.get(f"/api/v1/webhooks/{hook}/deliveries").json()["results"]
    assert [(row["kind"], row["status"]) for row in log] == [("test", "delivered")]
    path = f"/api/v1/webhooks/{hook}/deliveries/{log[0]['id']}/redeliver"
    assert client.post(path).json()["status"] == "waiting"
    webhooks_deliver()
    first, second = receiver.seen
    assert first[2] == second[2]


def test_many_tests_asked_for_at_once_are_one_message(client, receiver, home):
    hook = add(client, receiver.url).json()["id"]
    asked = [client.post(f"/api/v1/webhooks/{hook}/test").json()["id"] for _ in range(3)]
    webhooks_deliver()
    assert (len(set(asked)), len(receiver.seen)) == (1, 1)
    client.post(f"/api/v1/webhooks/{hook}/test")
    webhooks_deliver()
    assert len(receiver.seen) == 2


def test_one_that_is_told_nothing_any_more_says_why_and_sends_nothing(client, receiver, home):
    hook = add(client, receiver.url).json()["id"]
    client.post(f"/api/v1/webhooks/{hook}/test")
    webhooks_deliver()
    why = "olga is no longer an admin of vision"
    Endpoint.objects.update(off_reason=why)
    row = Delivery.objects.get()
    for path in ("test", f"deliveries/{row.pk}/redeliver"):
        answer = client.post(f"/api/v1/webhooks/{hook}/{path}")
        assert (answer.status_code, answer.json()["code"]) == (409, "webhook_off")
        assert why in answer.json()["detail"]
    page = client.get(f"/account/webhooks/{hook}/").content.decode()
    assert "ci is switched off</h1>" in page and why in page
    assert "Send a test" not in page and "Send again" not in page
    answer = client.post(f"/account/webhooks/{hook}/test", follow=True)
    assert why in answer.content.decode()
    webhooks_deliver()
    assert len(receiver.seen) == 1


@pytest.mark.parametrize(
    ("answers", "title"),
    [
        ([], "has received no message yet"),
        ([(200, {})], "receives its messages"),
        ([(500, {})], "was not delivered"),
    ],
)
def test_the_title_says_whether_messages_arrive(client, receiver, home, answers, title):
    hook = add(client, receiver.url).json()["id"]
    receiver.answers = list(answers)
    if answers:
        client.post(f"/api/v1/webhooks/{hook}/test")
        webhooks_deliver()
    assert f"ci {title}</h1>" in client.get(f"/account/webhooks/{hook}/").content.decode()


def test_what_happened_before_it_was_added_is_not_told(client, olga, receiver, home):
    a_job(olga, a_project("vision", olga))
    add(client, receiver.url)
    webhooks_deliver()
    assert receiver.seen == []


def test_old_deliveries_are_forgotten(client, receiver, home):
    hook = add(client, receiver.url).json()["id"]
    client.post(f"/api/v1/webhooks/{hook}/test")
    Delivery.objects.update(created_at=timezone.now() - timedelta(days=31))
    webhooks_deliver()
    assert not Delivery.objects.exists()


def test_the_page_adds_one_shows_the_secret_once_tries_it_and_removes_it(
    client, olga, receiver, home
):
    form = {"name": "<b>ci</b>", "url": receiver.url, "project": "", "when": "ends"}
    made = client.post("/account/webhooks/", form, format="multipart")
    hook = Endpoint.objects.get()
    assert b"whs_" in made.content and b"&lt;b&gt;ci" in made.content
    assert set(hook.kinds) == {"succeeded", "failed", "cancelled", "timed_out"}
    page = f"/account/webhooks/{hook.uid}/"
    assert client.post(f"{page}test").status_code == 302
    webhooks_deliver()
    shown = client.get(page).content
    assert b"delivered" in shown and b"whs_" not in shown
    assert b'<h1 class="wraps">&lt;b&gt;ci&lt;/b&gt; receives its messages</h1>' in shown
    assert client.post(f"{page}{Delivery.objects.get().pk}/again").status_code == 302
    webhooks_deliver()
    assert len(receiver.seen) == 2
    assert client.post(f"{page}remove").status_code == 302
    assert client.get(page).status_code == 404


def test_the_page_keeps_what_was_typed_and_names_the_field(client):
    form = {"name": "ci", "url": "https://127.0.0.1/x", "project": "", "when": "all"}
    answer = client.post("/account/webhooks/", form, format="multipart")
    assert answer.status_code == 400
    assert b'value="https://127.0.0.1/x"' in answer.content
    assert b'id="url-error"' in answer.content
