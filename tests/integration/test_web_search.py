"""The search finds what its reader may open, and nothing else, in a fixed number of queries."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from portal.accounts.models import Role
from portal.jobs import search
from portal.jobs.models import Job
from portal.web.search.pages import PAGES
from tests.support.many_jobs import many_jobs
from tests.support.rows import a_job, a_node, a_project, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def rows(olga, team):
    """Jobs of olga's project and of another one, and a node."""
    eve = a_user("eve")
    a_job(olga, team, name="train-vit", device={"gpus": 1})
    a_job(olga, team, name="Train-llama", device={"gpus": 1})
    a_job(eve, a_project("secret", eve), name="train-zebra", device={"gpus": 1})
    a_node("train-node-7")


@pytest.fixture
def found(client, olga):
    client.force_login(olga)

    def get(words: str, path: str = "/search/") -> dict[str, str]:
        answer = client.get(path, {"q": words})
        assert answer.status_code == 200
        main = answer.content.decode().partition("<main")[2] or answer.content.decode()
        links = re.findall(r'<a (?:class="strong"|role="option")[^>]*>.*?</a>', main, re.S)
        return {
            " ".join(re.sub(r"<[^>]+>", " ", link).split()): re.search(r'href="([^"]+)"', link)[1]
            for link in links
        }

    return get


def address_of(name: str) -> str:
    return reverse("web:job", args=[Job.objects.get(name=name).label])


def test_jobs_nodes_projects_and_pages_are_found_by_a_part_of_their_name(found, rows):
    assert found("vit")["train-vit"] == address_of("train-vit")
    assert found("node-7") == {"train-node-7": "/cluster/train-node-7/"}
    assert found("visio")["vision"] == "/projects/vision/"
    assert found("quot")["Usage"] == "/usage/"


def test_each_word_must_match_in_any_case(found, rows):
    assert set(found("TRAIN llama")) == {"Train-llama"}
    assert found("train nothing") == {}


def test_a_job_is_found_by_its_number(found, rows):
    job = Job.objects.get(name="train-vit")
    for typed in (job.label, job.label.lower(), str(job.pk)):
        assert found(typed)["train-vit"] == address_of("train-vit")


def test_jobs_of_other_projects_are_not_found_by_name_or_number(found, rows):
    foreign = Job.objects.get(name="train-zebra")
    assert not {"train-zebra", "secret"} & (set(found("train")) | set(found("secret")))
    assert found(foreign.label) == {}
    assert found("zebra") == {}


def test_a_platform_admin_finds_all_and_the_console(client, rows):
    client.force_login(a_user("root", is_superuser=True))
    text = client.get("/search/", {"q": "zebra"}).content.decode()
    assert address_of("train-zebra") in text
    assert reverse("web:audit") in client.get("/search/?q=audit").content.decode()


def test_pages_that_the_reader_may_not_open_are_not_offered(found, rows, team):
    assert found("audit") == {}
    assert found("approvals") == {}
    team.memberships.update(role=Role.ADMIN)
    assert "Approvals" in found("approvals")


def test_every_page_of_the_search_is_one_and_is_offered_once():
    addresses = [page.address for page in PAGES]
    assert len(set(addresses)) == len(addresses)


def test_without_words_it_offers_ones_newest_jobs_and_the_pages(found, rows):
    offered = found("")
    assert {"train-vit", "Train-llama", "Queue", "API tokens"} <= set(offered)
    assert "train-zebra" not in offered


def test_what_is_typed_is_shown_and_never_run(client, found, rows):
    found("")
    text = client.get("/search/", {"q": "<b>%_\x00‮x"}).content.decode()
    assert "&lt;b&gt;%_x" in text
    assert "<b>%" not in text
    assert "Nothing matches" in text


def test_the_palette_offers_the_same_as_options(found, rows):
    assert found("train", "/search/options").keys() >= {"train-node-7"}
    texts = " ".join(found("train", "/search/options"))
    assert "train-vit" in texts and "Queued" in texts and "zebra" not in texts


def test_an_old_job_is_found_by_how_its_name_begins(found, rows, monkeypatch):
    monkeypatch.setattr(search, "NEWEST", 1)
    assert "train-vit" in found("train-v")
    assert found("vit") == {}


@pytest.mark.slow
def test_ten_thousand_jobs_take_as_many_queries_as_three(found, rows):
    found("train")
    with CaptureQueriesContext(connection) as few:
        found("train")
    many_jobs(Job.objects.get(name="train-vit"), 10_000, first=10)
    with CaptureQueriesContext(connection) as many:
        assert len(found("train")) <= 20
    assert len(many) <= len(few) <= 12
