"""Home of somebody in several projects: the quota of each, or one of them by choice."""

from __future__ import annotations

import re
from html import unescape

import pytest

from agents.contract.units import UNITS_PER_GPU
from portal.jobs.models import Job
from portal.jobs.services import job_cancel
from portal.quotas.figures import QuotaFigures
from portal.quotas.models import Quota
from portal.web.home.quota_cards import HomeQuota
from portal.web.wording.labels import NBSP
from tests.support.rows import a_job, a_node, a_project, a_user, settle

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def olga(client):
    user = a_user("olga")
    client.force_login(user)
    return user


@pytest.fixture
def both(olga):
    return a_project("speech", olga, gpus=2), a_project("vision", olga, gpus=8)


@pytest.fixture
def page(client):
    return lambda path="/": unescape(client.get(path).content.decode().replace(NBSP, " "))


def choose(client, slug: str) -> None:
    assert client.post("/home/project", {"project": slug}).headers["Location"] == "/"


def chosen_in(text: str, field: str) -> str:
    select = re.search(rf'<select[^>]*name="{field}".*?</select>', text, re.DOTALL)
    assert select
    return re.search(r'<option value="([^"]*)" selected', select[0])[1]


def test_all_projects_are_shown_each_with_its_quota(page, olga, both):
    node = a_node("n1", gpus=2)
    a_job(olga, both[1], device={"gpus": 1})
    settle(node)
    text = page()
    assert "0 of 2 GPUs held" in text and "1 of 8 GPUs held" in text
    assert "1 held by you, 7 free" in text


def test_a_chosen_project_is_what_home_and_a_new_request_are_about(client, page, olga, both):
    for project in both:
        a_job(olga, project, name=f"in-{project.slug}")
    assert "<h1>2 jobs waiting</h1>" in page()
    choose(client, "vision")
    text = page()
    assert "<h1>1 job waiting</h1>" in text
    assert "in-vision" in text and "in-speech" not in text
    assert "Quota of vision" in text
    assert chosen_in(page("/request/"), "project") == "vision"
    assert chosen_in(page("/request/?project=speech"), "project") == "speech"
    like = Job.objects.get(name="in-speech").label
    assert chosen_in(page(f"/request/?like={like}"), "project") == "speech"
    choose(client, "")
    assert "<h1>2 jobs waiting</h1>" in page()


@pytest.mark.parametrize("slug", ["moonshot", "no-such-project", "x" * 500])
def test_what_is_not_ones_project_is_not_chosen(client, page, olga, both, slug):
    a_project("moonshot")
    choose(client, "vision")
    choose(client, slug)
    text = page()
    assert "Quotas of your projects" in text and "moonshot" not in text


def test_a_project_that_one_has_left_is_chosen_no_more(client, page, olga, both):
    choose(client, "vision")
    both[1].memberships.all().delete()
    assert "Quota of speech" in page(), "the only one that is left"


def test_who_is_in_one_project_chooses_nothing(page, olga):
    a_project("vision", olga)
    text = page()
    assert "Quota of vision" in text and "Choose a project" not in text


def test_what_is_kept_for_jobs_about_to_start_is_not_called_held(page, olga, client):
    """The pass keeps a GPU for a job that starts once an idle slice is deleted; nobody holds it."""
    vision = a_project("vision", olga, gpus=4)
    node = a_node("n1", gpus=2)
    a_job(olga, vision, device={"gpus": 1})
    ended = a_job(olga, vision, device={"mig": "1g.18gb"})
    settle(node)
    job_cancel(job=ended, actor="olga")
    settle(node)
    a_job(olga, vision, device={"gpus": 1})
    text = page()
    assert "<b>1</b> held by you" in text
    assert "<b>1</b> kept for jobs about to start" in text
    assert re.search(r"<b>2</b>\s*free", text)
    (row,) = client.get("/api/v1/quotas").json()["results"]
    held, promised, free = row["held_units"], row["promised_units"], row["free_units"]
    assert (held, promised, free) == (UNITS_PER_GPU, UNITS_PER_GPU, 2 * UNITS_PER_GPU)
    assert row["used_units"] == held


@pytest.mark.parametrize(
    ("gpus", "cls"),
    [(0, "ring-n"), (2.79, "ring-n"), (171.16, "ring-n wide"), (1171.16, "ring-n widest")],
)
def test_a_long_figure_is_set_smaller_in_the_ring(gpus, cls):
    units = round(gpus * UNITS_PER_GPU)
    assert HomeQuota("vision", QuotaFigures(units, 0, units, 0), 0).figure_class == cls


def test_the_parts_of_a_ring_never_exceed_it():
    """More may be held than a lowered limit allows."""
    quota = HomeQuota("vision", QuotaFigures(100, 0, 90, 60), 80)
    assert quota.bars == [
        ("bar-mine", 0.0, 80.0),
        ("bar-team", 80.0, 10.0),
        ("bar-kept", 90.0, 10.0),
    ]
    assert sum(width for _, _, width in quota.bars) == 100
    over = HomeQuota("vision", QuotaFigures(100, 0, 250, 0), 150)
    assert over.bars == [("bar-mine", 0.0, 100.0)]


def test_a_project_without_a_quota_says_so(page, olga):
    a_project("vision", olga)
    Quota.objects.all().delete()
    assert "No quota is set" in page()
