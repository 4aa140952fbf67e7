"""Finding 2.17 of the security review: after signing out, no page comes from a browser's cache."""

import pytest
from django.test import Client

from tests.support.rows import a_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(olga, team) -> Client:
    client = Client()
    client.force_login(olga)
    return client


def test_pages_with_data_of_a_user_are_stored_nowhere(browser, olga, team):
    job = a_job(olga, team, name="alpha")
    for path in ("/", "/jobs/", f"/jobs/{job.label}/", "/queue/", "/cluster/", "/usage/"):
        answer = browser.get(path)
        assert answer.status_code == 200, path
        assert "no-store" in answer.headers["Cache-Control"], path


def test_rest_is_kept_by_its_caller_alone_and_asked_for_again(browser):
    first = browser.get("/api/v1/nodes")
    assert first.headers["Cache-Control"] == "no-cache, private"
    again = browser.get("/api/v1/nodes", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304


def test_a_page_for_everybody_keeps_its_own_rules():
    assert "no-store" in Client().get("/sign-in/").headers["Cache-Control"]
    assert "Cache-Control" not in Client().get("/healthz").headers
