"""The page, REST and the command line show measured pairs, and start a measurement."""

from dataclasses import replace

import pytest
from django.conf import settings
from django.test import Client, override_settings
from django.urls import reverse
from rest_framework.test import APIClient

from portal.accounts.models import User
from portal.node_pairs.models import PairMeasurement
from portal.web.console.alerts import active_alerts
from tests.support.rows import a_node, a_project, a_user

pytestmark = pytest.mark.django_db
IMAGE = "registry/nccl-tests:2.17"


@pytest.fixture
def image():
    with override_settings(PLATFORM=replace(settings.PLATFORM, nccl_tests_image=IMAGE)):
        yield IMAGE


@pytest.fixture
def root() -> User:
    return a_user("root", is_superuser=True)


@pytest.fixture
def browser(root) -> Client:
    client = Client()
    client.force_login(root)
    return client


def page(browser: Client, name: str = "a", **post: str):
    address = reverse("web:node_pairs", args=[name])
    response = browser.post(address, post) if post else browser.get(address)
    return response.status_code, response.content.decode()


def test_the_page_says_what_is_missing_before_a_pair_can_be_measured(browser, root, settings):
    a_node("a")
    assert "TESSERA_NCCL_TESTS_IMAGE" in page(browser)[1]
    with override_settings(PLATFORM=replace(settings.PLATFORM, nccl_tests_image=IMAGE)):
        assert "needs a project in which you may start work" in page(browser)[1]
        a_project("infra", root)
        assert "No other node is on its network." in page(browser)[1]
        a_node("b")
        assert "Measure this pair" in page(browser)[1]


def test_one_click_measures_and_the_page_shows_the_job(browser, root, image):
    a_node("a", gpus=2)
    a_node("b", gpus=2)
    a_project("infra", root)
    status, _ = page(browser, other="b", project="infra", expected="100")
    assert status == 302
    row = PairMeasurement.objects.get()
    assert (row.job.image, row.expected_mb_per_second) == (IMAGE, 100_000)
    for name in "ab":
        status, html = page(browser, name)
        assert status == 200
        assert row.job.label in html and "Being measured" in html and "100.0 GB/s" in html
    status, html = page(browser, other="b", project="infra", expected="")
    assert status == 400
    assert f"{row.job.label} measures this pair already" in html


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"other": "b", "project": "infra", "expected": "fast"}, "Enter GB/s"),
        ({"other": "b", "project": "infra", "expected": "NaN"}, "Enter GB/s"),
        ({"other": "<b>", "project": "infra"}, "There is no node"),
        ({"other": "b", "project": "nowhere"}, "is not a project you can start work in"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(browser, root, image, typed, said):
    a_node("a")
    a_node("b")
    a_project("infra", root)
    status, html = page(browser, **typed)
    assert status == 400
    assert said in html and "<b>" not in html
    assert not PairMeasurement.objects.exists()


def test_a_quota_that_is_too_small_is_said_above_the_form(browser, root, image):
    a_node("a", gpus=2)
    a_node("b", gpus=2)
    a_project("infra", root, gpus=3)
    status, html = page(browser, other="b", project="infra")
    assert status == 400
    assert 'role="alert"' in html and "may use at most 3" in html


def test_an_image_that_no_job_may_use_is_said(browser, root):
    a_node("a")
    a_node("b")
    a_project("infra", root)
    platform = replace(settings.PLATFORM, nccl_tests_image=IMAGE, image_allow="other/*")
    with override_settings(PLATFORM=platform):
        status, html = page(browser, other="b", project="infra")
    assert status == 400
    assert "image" in html


def a_slow_pair(root: User, image: str) -> PairMeasurement:
    """As if its job had ended."""
    for name in "ab":
        a_node(name)
    a_project("infra", root)
    client = APIClient()
    client.force_login(root)
    body = {"nodes": ["b", "a"], "project": "infra", "expected_mb_per_second": 50_000}
    answer = client.post("/api/v1/pair-measurements", body, format="json")
    assert answer.status_code == 201, answer.content
    found = answer.json()
    assert (found["first"], found["second"], found["verdict"]) == ("a", "b", "open")
    row = PairMeasurement.objects.get()
    PairMeasurement.objects.update(verdict="slow", is_current=True, busbw_mb_per_second=12_300)
    row.refresh_from_db()
    return row


def test_a_slow_pair_is_an_alert_and_a_finding_that_says_what_to_check(browser, root, image):
    row = a_slow_pair(root, image)
    (alert,) = [alert for alert in active_alerts(root) if alert.key == "pairs"]
    assert (alert.title, alert.names) == ("1 pair of nodes is slow or wrong", ("a – b",))
    for name in "ab":
        html = browser.get(reverse("web:node", args=[name])).content.decode()
        assert "reached 12.3 of 50.0 GB/s" in html and "nvidia-peermem" in html
    assert "Slow" in page(browser)[1]
    client = APIClient()
    client.force_login(root)
    (listed,) = client.get("/api/v1/pair-measurements").json()["results"]
    assert (listed["job"], listed["busbw_mb_per_second"]) == (row.job.label, 12_300)
    assert (listed["problem"], listed["is_current"]) == ("", True)


def test_the_page_is_in_chinese_where_its_reader_is(browser, root, image):
    a_slow_pair(root, image)
    browser.cookies["django_language"] = "zh-hans"
    html = page(browser)[1]
    assert "测量这对节点" in html and "Bus bandwidth" not in html
