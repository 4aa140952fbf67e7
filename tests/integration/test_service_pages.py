"""The pages of services: created from a form, changed, ended; what is wrong stands at its field."""

from __future__ import annotations

import pytest
from django.test import Client, override_settings
from django.utils import timezone

from portal.accounts.models import Membership, Role
from portal.job_services.loads import CallCounts, loads_report
from portal.job_services.models import JobService
from portal.job_services.ready_requests import READY_SERVICES, ready_service_of
from portal.job_services.values import copy_request
from portal.settings.configured import PLATFORM
from portal.submission.limits import request_limits
from portal.web.written_request import read_written_request
from tests.support.rows import a_node, a_project, a_user, settle
from tests.support.service_rows import a_round, a_service, check_all

pytestmark = pytest.mark.django_db
REQUEST = "image: tessera-example:latest\ncommand: [python, s.py]\ndevice: {mig: 2g.35gb}\n"


@pytest.fixture(autouse=True)
def served():
    platform = type(PLATFORM)(**{**vars(PLATFORM), "apps_domain": "apps.test"})
    with override_settings(PLATFORM=platform):
        yield


@pytest.fixture
def olga(db):
    return a_user("olga")


@pytest.fixture
def team(olga):
    return a_project("vision", olga)


@pytest.fixture
def client(olga):
    signed_in = Client()
    signed_in.force_login(olga)
    return signed_in


def form(**fields):
    typed = {
        "name": "llm",
        "project": "vision",
        "request": REQUEST,
        "port": "8000",
        "health_path": "/health",
        "min_copies": "1",
        "max_copies": "2",
        "calls_per_copy": "8",
        "cool_down_seconds": "60",
    }
    return typed | fields


def test_a_service_is_created_seen_changed_and_ended(client, team):
    node = a_node("n1", gpus=2)
    made = client.post("/services/new/", form())
    row = JobService.objects.get()
    assert made.status_code == 302 and made["Location"] == f"/services/{row.label}/"
    a_round(row)
    settle(node)
    check_all()
    page = client.get(f"/services/{row.label}/").content.decode()
    assert "llm takes calls with 1 copy" in page
    assert f"llm--s{row.pk}.apps.test" in page and "curl http" in page
    assert row.name in client.get("/services/").content.decode()

    changed = client.post(f"/services/{row.label}/change", {"min_copies": "0", "max_copies": "3"})
    row.refresh_from_db()
    assert changed.status_code == 302
    assert (row.min_copies, row.max_copies, row.generation) == (0, 3, 1)
    assert row.cool_down_seconds == 60
    wrong = client.post(f"/services/{row.label}/change", {"min_copies": "4", "max_copies": "x"})
    assert wrong.status_code == 400 and "Enter a whole number" in wrong.content.decode()

    assert "End llm" in client.get(f"/services/{row.label}/end").content.decode()
    client.post(f"/services/{row.label}/end")
    row.refresh_from_db()
    assert row.ended_at is not None
    assert "llm has ended" in client.get(f"/services/{row.label}/").content.decode()
    late = client.post(f"/services/{row.label}/change", {"max_copies": "2"})
    assert late.status_code == 404 and "create another one" in late.content.decode()
    assert "No services yet" in client.get("/services/").content.decode()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"name": "Two words"}, "name"),
        ({"min_copies": "3"}, "min_copies"),
        ({"port": "many"}, "port"),
        ({"health_path": "health"}, "health_path"),
        ({"request": "image: [a"}, "request"),
        ({"request": "image: a\n"}, "request"),
        ({"request": "1: 2\n"}, "request"),
        ({"project": "speech"}, "project"),
    ],
)
def test_what_is_wrong_stands_at_its_field(client, team, fields, name):
    page = client.post("/services/new/", form(**fields))
    text = page.content.decode()
    assert page.status_code == 400, text
    assert f'id="{name}-error"' in text
    assert JobService.objects.count() == 0


def test_others_see_a_service_and_change_nothing(client, olga, team):
    a_node("n1")
    row = a_service(olga, team)
    vera = a_user("vera")
    Membership.objects.create(project=team, user=vera, role=Role.VIEWER)
    viewer = Client()
    viewer.force_login(vera)
    page = viewer.get(f"/services/{row.label}/").content.decode()
    assert "llm is starting" in page and "/end" not in page and "/open" not in page
    assert viewer.post(f"/services/{row.label}/end").status_code == 403
    assert viewer.post(f"/services/{row.label}/change", {"max_copies": "9"}).status_code == 403
    stranger = Client()
    stranger.force_login(a_user("ott"))
    assert stranger.get(f"/services/{row.label}/").status_code == 404


def test_a_canary_is_chosen_seen_beside_the_service_and_promoted(client, olga, team):
    node = a_node("n1", gpus=2)
    row, other = a_service(olga, team), a_service(olga, team, "next", request={"image": "new:2"})
    page = client.get(f"/services/{row.label}/").content.decode()
    assert "Service with the new version" in page and "Of 100 new calls" not in page
    for service in (row, other):
        a_round(service)
    settle(node)
    check_all()
    form = {"canary": other.label, "canary_percent": "30"}
    wrong = client.post(f"/services/{row.label}/change", form | {"canary_percent": "many"})
    assert wrong.status_code == 400 and 'id="canary_percent-error"' in wrong.content.decode()
    assert client.post(f"/services/{row.label}/change", form).status_code == 302
    counts = CallCounts(0, {}, [0] * 36, errors=7)
    loads_report(process="p", counts={other.pk: counts}, now=timezone.now())
    page = client.get(f"/services/{row.label}/").content.decode()
    assert '<td class="num">70</td><td class="num">30</td>' in page
    assert '<td class="num">0</td><td class="num">7</td>' in page
    assert "1 of 1" in page
    of_canary = client.get(f"/services/{other.label}/").content.decode()
    assert "This is the canary of llm: it gets 30 of every 100 new calls" in of_canary
    assert "Service with the new version" not in of_canary
    assert client.post(f"/services/{row.label}/promote").status_code == 302
    page = client.get(f"/services/{row.label}/").content.decode()
    assert "The copies are being replaced by new ones that run the request of next" in page
    row.refresh_from_db()
    assert (row.generation, row.request["image"]) == (2, "new:2")
    assert client.post(f"/services/{row.label}/change", form | {"canary": ""}).status_code == 302
    none = client.post(f"/services/{row.label}/promote")
    assert none.status_code == 400 and "This service has no canary" in none.content.decode()


def test_why_there_is_no_promotion_is_said_also_where_no_canary_can_be_chosen(client, olga, team):
    """The canary has ended since the page was shown, for example."""
    row = a_service(olga, team)
    page = client.post(f"/services/{row.label}/promote")
    assert page.status_code == 400
    assert "Service with the new version" not in page.content.decode()
    assert "This service has no canary" in page.content.decode()


@pytest.mark.parametrize("word", READY_SERVICES)
def test_the_ready_services_are_whole_requests(client, team, word):
    ready = READY_SERVICES[word]
    body = dict(read_written_request(ready.request)) | {"project": "vision"}
    request = copy_request(body, name=word, port=ready.port, limits=request_limits())
    assert request.apps == (f"{word}:{ready.port}",)
    assert ready_service_of(request.image) is ready
    page = client.get(f"/services/new/?template={word}").content.decode()
    assert ready.request.partition("\n")[0] in page and str(ready.port) in page
